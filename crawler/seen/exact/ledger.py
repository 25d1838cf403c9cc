"""The ledger of URLs that a probabilistic seen-set reports as seen, perhaps wrongly.

When a Bloom filter reports a URL as new, the filter is right; when it reports a URL as seen, it may be wrong. With a
ledger, a false positive delays the page by a few seconds instead of losing it. Every URL that the filter reports as
seen is *doubted*: the transaction that found it also stores, in its batch, everything needed to queue it later. During
the crawl, the doubted URLs are looked up in sorted batches among the on-disk digests of all URLs ever admitted. If the
digest of a URL is there, the URL has been seen. Otherwise it was a false positive, and is admitted now.

    a key that the filter reports as seen
        ->  settled recently                    nothing to do     in memory; nearly all: most links repeat a few URLs
        ->  otherwise                           doubted: a row in the family LEDGER
    a batch of doubted keys, sorted
        ->  row in the family SEEN              confirmed
        ->  no row                              false positive: queued, journalled, gets its row

A key is *settled* once it has been admitted, confirmed or doubted. The ledger remembers a bounded number of settled
keys. A forgotten key only costs another row and another lookup each time it is met.

Rows are those of the exact seen-set (``rows``), and their digests are those of the journal: two of n keys share one by
chance with probability below n**2 / 2**129. An author of links cannot force it, because the hash has a secret.

Memory does not grow with the number of doubted keys: at most ``WAITING`` of their rows are in memory, and the others
are read from the family when they are due. After a crash the family holds the doubted keys that were not decided.
The counts are written in the same batch as the rows that they count.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import Entry, decode_entry, encode_entry
from crawler.seen.exact.recent import remember
from crawler.seen.exact.rows import HOST_BYTES, rows_of
from crawler.seen.filters import FilterError
from crawler.seen.slices.digests import chosen_digests

LEDGER_COUNTS = b"ledger"  # key of the stored counts
WAITING = 2**16  # rows of doubted keys in memory; about 11 MB
SETTLED = 8 * 2**20  # bytes of memory for settled digests: 2**19 of them, or an eighth of that without the C code
_VERSION = 1
_COUNTS = struct.Struct("<BQQQ")


class LedgerCounts(Struct):
    """The ledger's counts since the job started. Stored as a version byte and three 8-byte numbers."""

    waiting: int = 0  # doubted, and not looked up yet
    confirmed: int = 0  # doubted, and then found to have been seen before
    false_positives: int = 0  # doubted, but then found to be new, and admitted

    def encode(self) -> bytes:
        return _COUNTS.pack(_VERSION, self.waiting, self.confirmed, self.false_positives)

    @classmethod
    def decode(cls, value: bytes | None) -> LedgerCounts:
        """Decode the output of ``encode``; for None, return the counts of an unused ledger. Raises FilterError."""
        if value is None:
            return cls()
        if len(value) != _COUNTS.size or value[0] != _VERSION:
            raise FilterError("the counts of the ledger have an unknown version")
        return cls(*_COUNTS.unpack(value)[1:])


class Ledger:
    """The doubted keys of a job, and the digests for checking them. Write each batch before starting the next, and
    call ``note`` or ``decide`` only once per batch."""

    def __init__(self, store: Reader, *, waiting: int = WAITING, settled: int = SETTLED) -> None:
        """Raises OSError, or FilterError if the number of doubted keys in the store differs from the stored count."""
        self._store = store
        self.counts = LedgerCounts.decode(store.get(Family.META, LEDGER_COUNTS))
        self._most_waiting = waiting
        self._waiting: list[bytes] = []  # rows to decide, in descending order
        self._met: list[bytes] = []  # rows doubted since `_waiting` was sorted
        self._kept: set[bytes] = set()  # the rows in both lists
        self._settled = remember(settled)
        self._read_ahead()

    def note(
        self, keys: Sequence[str], digests: bytes, new: Sequence[int], entry_of: Callable[[int], Entry], batch: Batch
    ) -> None:
        """Record the filter's answers for ``keys``. The keys at the positions ``new`` are admitted with this batch. The
        other keys are doubted, unless they are settled. ``entry_of`` returns the entry to queue if the key at a
        position turns out to be new. Raises OSError."""
        unsettled = self._settled.meet(digests)
        if new:
            self.put([keys[i] for i in new], chosen_digests(digests, new), batch)
            unsettled = sorted(set(unsettled).difference(new))
        if unsettled:
            rows = rows_of([keys[i] for i in unsettled], chosen_digests(digests, unsettled))
            self._doubt(dict(zip(rows, unsettled, strict=True)), entry_of, batch)

    def put(self, keys: Sequence[str], digests: bytes, batch: Batch) -> None:
        """Store the digests of ``keys``, which are admitted with this batch."""
        for row in rows_of(keys, digests):
            batch.put(Family.SEEN, row, b"")

    def _doubt(self, rows: dict[bytes, int], entry_of: Callable[[int], Entry], batch: Batch) -> None:
        for row in self._not_there(rows):
            batch.put(Family.LEDGER, row, encode_entry(entry_of(rows[row])))
            self.counts.waiting += 1
            if len(self._kept) < self._most_waiting:
                self._kept.add(row)
                self._met.append(row)
        self._put_counts(batch)

    def _not_there(self, rows: Iterable[bytes]) -> list[bytes]:
        """Return the rows that are doubted neither in memory nor in the store."""
        asked = [row for row in rows if row not in self._kept]
        if self.counts.waiting == len(self._kept):
            return asked
        asked.sort()
        there = self._store.get_many(Family.LEDGER, asked)
        return [row for row, value in zip(asked, there, strict=True) if value is None]

    def decide(self, limit: int, batch: Batch) -> list[tuple[bytes, Entry]]:
        """Look up the next ``limit`` doubted keys. Returns (digest, entry) for those that are new. The batch stores
        their rows, so they must be queued with it. Raises OSError, EntryError."""
        rows = self._next(limit)
        found = self._store.get_many(Family.SEEN, rows)
        absent = [row for row, there in zip(rows, found, strict=True) if there is None]
        self._kept.difference_update(rows)
        for row in rows:
            batch.delete(Family.LEDGER, row)
        missed = []
        for row, value in zip(absent, self._store.get_many(Family.LEDGER, absent), strict=True):
            if value is None:
                raise FilterError(f"row {row.hex()} of the ledger is missing")
            batch.put(Family.SEEN, row, b"")
            missed.append((row[HOST_BYTES:], decode_entry(value)))
        self.counts.waiting -= len(rows)
        self.counts.confirmed += len(rows) - len(missed)
        self.counts.false_positives += len(missed)
        self._put_counts(batch)
        return missed

    def _next(self, limit: int) -> list[bytes]:
        """Return the next rows to look up, in ascending order, so that neighbours are read together."""
        if not self._waiting:
            self._waiting, self._met = sorted(self._met, reverse=True), []
        if not self._waiting:
            self._read_ahead()
        taken = self._waiting[-limit:]
        del self._waiting[-limit:]
        taken.reverse()
        return taken

    def _read_ahead(self) -> None:
        """Read the rows that are not in memory. Raises FilterError if the number of rows differs from the stored
        count."""
        rows = self._store.scan(Family.LEDGER, b"", None, self._most_waiting)
        if len(rows) != min(self._most_waiting, self.counts.waiting):
            raise FilterError(f"the ledger counts {self.counts.waiting} doubted URLs, but {len(rows)} are stored")
        self._waiting = [row for row, _ in reversed(rows)]
        self._kept = set(self._waiting)

    def _put_counts(self, batch: Batch) -> None:
        batch.put(Family.META, LEDGER_COUNTS, self.counts.encode())
