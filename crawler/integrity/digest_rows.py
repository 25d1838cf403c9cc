"""The digests that lie in the store beside a seen-set, and the ledger that they decide about: checked, and made anew.

They say of admitted URLs what journal, queue and output say as well, so they can always be made from those.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from crawler.exact import LEDGER_COUNTS, ROW_BYTES, ExactSeenSet, Ledger, LedgerCounts, make_seen, rows_of
from crawler.exact.rows import HOST_BYTES
from crawler.exact.seen import ROW_COUNT, ROW_COUNT_FORM
from crawler.filters import FilterError, digest_keys
from crawler.frontier import Entry, EntryError, decode_entry
from crawler.inspect.job_reader import OpenJob
from crawler.integrity.inventory import Keys
from crawler.integrity.quarantine import Quarantine
from crawler.kv import Batch, Family, Store
from crawler.records import JournalError, decode_seen
from crawler.settings import Settings

_SCAN = 2_048
_TOGETHER = 256  # URLs given their rows by one batch


def ledger_faults(job: OpenJob) -> Iterator[str]:
    """What is wrong with the ledger of a job, one line each; nothing for a job without one."""
    if not job.settings.seen.ledger:
        return
    waiting = 0
    for row, value in job.store.rows(Family.LEDGER):
        waiting += 1
        if _doubted(row, value, Keys(job.settings)) is None:
            yield f"store/: ledger {row.hex()}: not a URL with that digest"
    try:
        counts = LedgerCounts.decode(job.store.get(Family.META, LEDGER_COUNTS))
    except FilterError as error:
        yield f"store/: meta {LEDGER_COUNTS.decode()}: {error}"
    else:
        if counts.waiting != waiting:
            yield f"store/: {counts.waiting} URLs counted as doubted, the ledger holds {waiting}"
    named = _sum(digests for _, value in job.store.rows(Family.ADMITTED) if (digests := _named(value)))
    kept = _sum(row[HOST_BYTES:] for row, _ in job.store.rows(Family.SEEN) if len(row) == ROW_BYTES)
    if named != kept:
        what = f"{kept[0]} for the ledger and {named[0]} in the journal"
        yield f"store/: the digests of admitted URLs are others for the ledger than in the journal: {what}"


def exact_faults(job: OpenJob) -> Iterator[str]:
    """What is wrong with the rows of an exact seen-set, one line each; nothing for a job of another kind."""
    if job.settings.seen.kind != ExactSeenSet.kind:
        return
    admitted, gone = (
        _sum(digests for _, value in job.store.rows(Family.ADMITTED) if (digests := _named(value, forgotten=forgotten)))
        for forgotten in (False, True)
    )
    left = (admitted[0] - gone[0], (admitted[1] - gone[1]) % 2**64, (admitted[2] - gone[2]) % 2**64)
    kept = _sum(row[HOST_BYTES:] for row, _ in job.store.rows(Family.SEEN) if len(row) == ROW_BYTES)
    if kept != left:
        what = f"{kept[0]} rows and {left[0]} in the journal"
        yield f"store/: the digests of seen URLs are others in the exact seen-set than in the journal: {what}"
    stored = job.store.get(Family.META, ROW_COUNT)
    if stored != ROW_COUNT_FORM.pack(kept[0]) and (stored, kept[0]) != (None, 0):
        counted = "no number" if stored is None else str(int.from_bytes(stored, "little"))
        yield f"store/: meta {ROW_COUNT.decode()}: {counted}, the exact seen-set has {kept[0]} rows"


def _named(value: bytes, *, forgotten: bool = False) -> bytes:
    """The digests of an event, where it is of keys that were admitted, or taken out again; else none."""
    try:
        out, digests = decode_seen(value)
    except JournalError:
        return b""  # named where the journal is checked
    return digests if out == forgotten else b""


def _sum(digests: Iterable[bytes]) -> tuple[int, int, int]:
    """How many digests there are, and the sums of their halves modulo 2**64: whatever their order is."""
    count, low, high = 0, 0, 0
    left = iter(digests)
    while some := b"".join(itertools.islice(left, _SCAN)):
        words = np.frombuffer(some, "<u8").reshape(-1, 2)
        sums = words.sum(axis=0, dtype=np.uint64).tolist()
        count, low, high = count + len(words), (low + sums[0]) % 2**64, (high + sums[1]) % 2**64
    return count, low, high


def _doubted(row: bytes, value: bytes, keys: Keys) -> tuple[bytes, Entry] | None:
    """The row where the entry belongs, and the entry; None when it is none, or stands in another row."""
    found = _entry(value, keys)
    return None if found is None or found[0] != row else found


def _entry(value: bytes, keys: Keys) -> tuple[bytes, Entry] | None:
    try:
        entry = decode_entry(value)
    except EntryError:
        return None
    key = keys.key(entry.href)
    return None if key is None else (rows_of([key], digest_keys([key]))[0], entry)


class DigestRows:
    """What a repair makes anew. Each part may be broken off and done again."""

    def __init__(self, settings: Settings, store: Store, aside: Quarantine, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._store = store
        self._aside = aside
        self._say = say

    def remake(self, there: Iterator[str], out: set[bytes]) -> None:
        """Give each key of ``there``, pending or finished, its row, where the job has rows; ``out`` are the digests of
        keys that were taken out of the seen-set. Raises OSError."""
        exact = self._settings.seen.kind == ExactSeenSet.kind
        if not exact and not self._settings.seen.ledger:
            return
        batch = Batch()
        batch.delete_range(Family.SEEN, b"", b"\xff" * (ROW_BYTES + 1))
        if exact:
            batch.delete(Family.META, ROW_COUNT)
        self._store.write(batch)
        if exact:
            self._exact_rows(there, out)
        else:
            self._waiting()
            ledger = Ledger(self._store)
            while some := list(itertools.islice(there, _TOGETHER)):
                batch = Batch()
                ledger.put(some, digest_keys(some), batch)
                self._store.write(batch)

    def _exact_rows(self, there: Iterator[str], out: set[bytes]) -> None:
        seen = make_seen(self._settings.seen, self._store)
        keys = Keys(self._settings)
        while some := list(itertools.islice(there, _TOGETHER)):
            batch = Batch()
            seen.admit([key for key in some if keys.digests([key]) not in out], batch)
            self._store.write(batch)

    def _waiting(self) -> None:
        """Keep the doubted URLs that can be read, each in its row."""
        batch, keys = Batch(), Keys(self._settings)
        waiting, gone, moved = 0, 0, 0
        taken: set[bytes] = set()  # rows that URLs were moved to
        for row, value in self._store.rows(Family.LEDGER):
            found = _entry(value, keys)
            if found is not None and found[0] == row:
                waiting += 1
                continue
            self._aside.keep_row(Family.LEDGER, row, value)
            batch.delete(Family.LEDGER, row)
            if found is None:
                gone += 1
            else:
                if found[0] not in taken and self._store.get(Family.LEDGER, found[0]) is None:
                    taken.add(found[0])
                    waiting += 1
                batch.put(Family.LEDGER, found[0], value)
                moved += 1
        if gone:
            self._say(
                f"{gone} doubted URLs could not be read any more: they are doubted anew when they are found again"
            )
        if moved:
            self._say(f"{moved} doubted URLs stood in rows of others: they were given their own")
        try:
            counts = LedgerCounts.decode(self._store.get(Family.META, LEDGER_COUNTS))
        except FilterError:
            counts = LedgerCounts()
            self._say("the counts of the ledger were gone: they begin at 0")
        counts.waiting = waiting
        batch.put(Family.META, LEDGER_COUNTS, counts.encode())
        self._aside.flush()
        self._store.write(batch)
