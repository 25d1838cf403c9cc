"""Rebuilds the digests that the store keeps for a seen-set, and the ledger that they decide about.

The digests repeat what the journal, the queue and the output say of admitted URLs, so they can always be rebuilt from
those.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from crawler.base.kv import Batch, Family, Store
from crawler.inspect.integrity.change import Change, Done, Tell
from crawler.inspect.integrity.inventory import InventorySettings, UrlKeys, doubted_entry
from crawler.inspect.integrity.quarantine import Quarantine
from crawler.inspect.integrity.url_marks import Digests
from crawler.seen.exact import LEDGER_COUNTS, ROW_BYTES, ExactSeenSet, Ledger, LedgerCounts, make_seen
from crawler.seen.exact.seen import ROW_COUNT
from crawler.seen.filters import FilterError

_TOGETHER = 256  # URLs whose rows are written in one batch


class DigestRows:
    """Rebuilds the rows. Each part can be interrupted and run again."""

    def __init__(self, settings: InventorySettings, store: Store, quarantine: Quarantine, tell: Tell) -> None:
        self._settings = settings
        self._store = store
        self._quarantine = quarantine
        self._tell = tell

    def rebuild(self, there: Iterator[str], out: set[bytes]) -> None:
        """Write a row for each pending or finished URL, if the job keeps rows.

        ``there`` yields the keys of these URLs; ``out`` holds the digests of keys that were removed from the seen-set.
        Raises OSError."""
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
                ledger.put(some, self._settings.hash.digest_keys(some), batch)
                self._store.write(batch)

    def _exact_rows(self, there: Iterator[str], out: set[bytes]) -> None:
        seen = make_seen(self._settings.seen, self._store, self._settings.hash)
        keys = Digests(self._settings)
        while some := list(itertools.islice(there, _TOGETHER)):
            batch = Batch()
            seen.admit([key for key in some if keys.digests([key]) not in out], batch)
            self._store.write(batch)

    def _waiting(self) -> None:
        """Keep the doubted URLs that can be read, each in the row of its own digest."""
        batch, keys = Batch(), UrlKeys(self._settings)
        waiting, gone, moved = 0, 0, 0
        taken: set[bytes] = set()  # rows that received a moved URL
        for row, value in self._store.rows(Family.LEDGER):
            found = doubted_entry(value, keys)
            if found is not None and found[0] == row:
                waiting += 1
                continue
            self._quarantine.keep_row(Family.LEDGER, row, value)
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
            self._tell(Change(Done.DOUBTS_REMOVED, {"count": gone}))
        if moved:
            self._tell(Change(Done.DOUBTS_MOVED, {"count": moved}))
        try:
            counts = LedgerCounts.decode(self._store.get(Family.META, LEDGER_COUNTS))
        except FilterError:
            counts = LedgerCounts()
            self._tell(Change(Done.LEDGER_COUNTS_LOST, {}))
        counts.waiting = waiting
        batch.put(Family.META, LEDGER_COUNTS, counts.encode())
        self._quarantine.flush()
        self._store.write(batch)
