"""The digests that are in the store beside a seen-set, and the ledger that they decide about: rebuilt.

They say of admitted URLs what journal, queue and output say as well, so they can always be made from those.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from crawler.exact import LEDGER_COUNTS, ROW_BYTES, ExactSeenSet, Ledger, LedgerCounts, make_seen
from crawler.exact.seen import ROW_COUNT
from crawler.filters import FilterError, digest_keys
from crawler.integrity.change import Change, Done, Tell
from crawler.integrity.inventory import UrlKeys, doubted_entry
from crawler.integrity.quarantine import Quarantine
from crawler.integrity.url_marks import Digests
from crawler.kv import Batch, Family, Store
from crawler.settings import Settings

_TOGETHER = 256  # URLs given their rows by one batch


class DigestRows:
    """Rebuilds them. Each part may be broken off and done again."""

    def __init__(self, settings: Settings, store: Store, quarantine: Quarantine, tell: Tell) -> None:
        self._settings = settings
        self._store = store
        self._quarantine = quarantine
        self._tell = tell

    def rebuild(self, there: Iterator[str], out: set[bytes]) -> None:
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
        keys = Digests(self._settings)
        while some := list(itertools.islice(there, _TOGETHER)):
            batch = Batch()
            seen.admit([key for key in some if keys.digests([key]) not in out], batch)
            self._store.write(batch)

    def _waiting(self) -> None:
        """Keep the doubted URLs that can be read, each in its row."""
        batch, keys = Batch(), UrlKeys(self._settings)
        waiting, gone, moved = 0, 0, 0
        taken: set[bytes] = set()  # rows that URLs were moved to
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
