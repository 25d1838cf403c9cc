"""The ledger of URLs that a probabilistic seen-set calls seen, perhaps wrongly.

A Bloom filter's "new" is the truth, its "seen" is not: now and then a URL that nobody ever met is taken for a known
one. With a ledger that costs the URL some seconds and not its page. Every URL that the filter calls seen is *doubted*:
it is written down with all that is needed to queue it later, in the batch of the step that found it. While the crawl
runs, the doubted ones are looked up, a sorted batch at a time, among the digests of all URLs ever admitted, which lie
on the disk. A URL whose digest is there was seen. One whose digest is not was a false positive, and is admitted then.

    a key that the filter calls seen
        ->  settled not long ago                nothing to do     memory, nearly all: most links repeat a few URLs
        ->  else: a row in the family LEDGER    doubted
    a batch of doubted keys, in their order
        ->  row in the family SEEN              confirmed
        ->  none                                a false positive: queued, journalled and given its row

*Settled* is a key of which the ledger needs to hear no more: admitted, confirmed, or doubted already. As many of them
are remembered as memory was set aside for; of the others each new meeting costs a row and a lookup, and no more.

Rows are those of the exact seen-set (``rows``), but their digests are those of the journal, MurmurHash3: two of n keys
share one by chance with probability below n**2 / 2**129. Somebody who wants to hide another's page can make two
URLs share one, as with every kind but ``exact``.

Memory does not grow with the number of doubted keys: at most ``WAITING`` of their rows are kept, the others are read
from the family when their turn comes. After a crash the family holds what was doubted and not decided; the counts
stand in the same batch as the rows they count.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from crawler.exact.rows import DIGEST_BYTES, HOST_BYTES, rows_of
from crawler.filters import FilterError
from crawler.frontier.entry import Entry, decode_entry, encode_entry
from crawler.kv import Batch, Family, Reader

LEDGER_COUNTS = b"ledger"  # the name under which the counts are stored
WAITING = 2**16  # rows of doubted keys in memory; about 11 MB
SETTLED = 2**16  # digests that are remembered for certain, and at most twice as many; about 13 MB
_VERSION = 1
_COUNTS = struct.Struct("<BQQQ")


@dataclass(slots=True)
class LedgerCounts:
    """What the ledger has done since the job began. Stored form: a version byte and three numbers of 8 bytes."""

    waiting: int = 0  # doubted and not decided
    confirmed: int = 0  # doubted and seen indeed
    false_positives: int = 0  # doubted and never seen: admitted then

    def encode(self) -> bytes:
        return _COUNTS.pack(_VERSION, self.waiting, self.confirmed, self.false_positives)

    @classmethod
    def decode(cls, value: bytes | None) -> LedgerCounts:
        """None means that the ledger was never written. Raises FilterError."""
        if value is None:
            return cls()
        if len(value) != _COUNTS.size or value[0] != _VERSION:
            raise FilterError("the counts of the ledger are of an unknown version")
        return cls(*_COUNTS.unpack(value)[1:])


class Ledger:
    """The doubted keys of a job, and the digests that decide about them. A batch is written before the next is begun,
    and within one batch ``note`` or ``decide`` is called once."""

    def __init__(self, store: Reader, *, waiting: int = WAITING, settled: int = SETTLED) -> None:
        """Raises FilterError when the store holds another number of doubted keys than it counts, OSError."""
        self._store = store
        self.counts = LedgerCounts.decode(store.get(Family.META, LEDGER_COUNTS))
        self._most_waiting = waiting
        self._waiting: list[bytes] = []  # rows to be decided, the smallest last
        self._met: list[bytes] = []  # rows doubted since these were put in order
        self._kept: set[bytes] = set()  # all of these
        self._most_settled = settled
        self._settled: set[bytes] = set()
        self._settled_before: set[bytes] = set()
        self._read_ahead()

    def note(
        self, keys: Sequence[str], digests: bytes, new: Sequence[int], entry_of: Callable[[int], Entry], batch: Batch
    ) -> None:
        """Take note of what the filter said of ``keys``: those at ``new`` are admitted with this batch, the others are
        doubted unless they are settled. ``entry_of`` gives what is to be queued should the key at a position turn out
        never to have been seen. Raises OSError."""
        size = DIGEST_BYTES
        each = [digests[at : at + size] for at in range(0, len(digests), size)]
        if new:
            self.put([keys[i] for i in new], b"".join([each[i] for i in new]), batch)
        doubted: dict[bytes, int] = {}
        for position, digest in enumerate(each):
            if not self._is_settled(digest):
                doubted.setdefault(digest, position)
        if doubted:
            rows = rows_of([keys[i] for i in doubted.values()], b"".join(doubted))
            self._doubt(dict(zip(rows, doubted.values(), strict=True)), entry_of, batch)

    def put(self, keys: Sequence[str], digests: bytes, batch: Batch) -> None:
        """Write down the digests of ``keys``, which are admitted with this batch."""
        for row in rows_of(keys, digests):
            batch.put(Family.SEEN, row, b"")
            self._settle(row[HOST_BYTES:])

    def _doubt(self, rows: dict[bytes, int], entry_of: Callable[[int], Entry], batch: Batch) -> None:
        for row in self._not_there(rows):
            batch.put(Family.LEDGER, row, encode_entry(entry_of(rows[row])))
            self.counts.waiting += 1
            if len(self._kept) < self._most_waiting:
                self._kept.add(row)
                self._met.append(row)
        self._put_counts(batch)

    def _not_there(self, rows: Iterable[bytes]) -> list[bytes]:
        """Those that are not doubted already, so long ago that it was not remembered."""
        asked = []
        for row in rows:
            self._settle(row[HOST_BYTES:])
            if row not in self._kept:
                asked.append(row)
        if self.counts.waiting == len(self._kept):
            return asked
        asked.sort()
        there = self._store.get_many(Family.LEDGER, asked)
        return [row for row, value in zip(asked, there, strict=True) if value is None]

    def decide(self, limit: int, batch: Batch) -> list[tuple[bytes, Entry]]:
        """Look up the next ``limit`` doubted keys. Those that were never admitted come back, digest and entry, and
        have their rows by this batch: they must be queued with it. Raises OSError, EntryError."""
        rows = self._next(limit)
        found = self._store.get_many(Family.SEEN, rows)
        absent = [row for row, there in zip(rows, found, strict=True) if there is None]
        self._kept.difference_update(rows)
        for row in rows:
            batch.delete(Family.LEDGER, row)
            self._settle(row[HOST_BYTES:])
        missed = []
        for row, value in zip(absent, self._store.get_many(Family.LEDGER, absent), strict=True):
            if value is None:
                raise FilterError(f"the ledger's row {row.hex()} is gone")
            batch.put(Family.SEEN, row, b"")
            missed.append((row[HOST_BYTES:], decode_entry(value)))
        self.counts.waiting -= len(rows)
        self.counts.confirmed += len(rows) - len(missed)
        self.counts.false_positives += len(missed)
        self._put_counts(batch)
        return missed

    def _next(self, limit: int) -> list[bytes]:
        """The next rows to be looked up, ascending: neighbours are then read together."""
        if not self._waiting:
            self._waiting, self._met = sorted(self._met, reverse=True), []
        if not self._waiting:
            self._read_ahead()
        taken = self._waiting[-limit:]
        del self._waiting[-limit:]
        taken.reverse()
        return taken

    def _read_ahead(self) -> None:
        """Find the rows that were not kept in memory. Raises FilterError when others are there than are counted."""
        rows = self._store.scan(Family.LEDGER, b"", None, self._most_waiting)
        if len(rows) != min(self._most_waiting, self.counts.waiting):
            raise FilterError(f"the ledger counts {self.counts.waiting} doubted URLs and holds {len(rows)}")
        self._waiting = [row for row, _ in reversed(rows)]
        self._kept = set(self._waiting)

    def _put_counts(self, batch: Batch) -> None:
        batch.put(Family.META, LEDGER_COUNTS, self.counts.encode())

    # -- what is settled -----------------------------------------------------------------------------------------

    def _is_settled(self, digest: bytes) -> bool:
        if digest in self._settled:
            return True
        if digest in self._settled_before:
            self._settle(digest)
            return True
        return False

    def _settle(self, digest: bytes) -> None:
        self._settled.add(digest)
        if len(self._settled) >= self._most_settled:
            self._settled_before, self._settled = self._settled, set()
