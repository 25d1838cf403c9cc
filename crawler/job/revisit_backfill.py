"""Sets the next visits of pages that runs without ``--recrawl`` finished. It reads them from ``pages.jsonl``.

The progress is stored under ``recrawl`` in META: the offset up to which records were read, or that every finished page
has its next visit. The file is read a few lines at a time, in one transaction each, so that a crash repeats nothing. A
page that has a next visit already keeps it.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from datetime import datetime
from itertools import islice
from pathlib import Path

from crawler.base.kv import Batch, Family, Reader, Store
from crawler.frontier import Entry, Order, Revisits
from crawler.job.output import Record, entry_of, lines_of, record_of, visits_of
from crawler.job.records import Counters, Outcome
from crawler.url.scope import PriorityRules

OVERTAKEN = b"recrawl"
LINES = 256  # read in one transaction
PAUSE = 2.0  # times the duration of the last step: the backfill takes at most a third of the loop's time
_STATE = struct.Struct("<BQ")
_VISITED = frozenset(outcome.value for outcome in Outcome if outcome is not Outcome.EXCLUDED)


def stored_state(store: Reader) -> tuple[bool, int]:
    """(whether every finished page has its next visit, the offset up to which records were read). Unreadable state
    means a start from the beginning."""
    value = store.get(Family.META, OVERTAKEN)
    if value is None or len(value) != _STATE.size:
        return False, 0
    following, offset = _STATE.unpack(value)
    return bool(following), offset


def _put(batch: Batch, following: bool, offset: int) -> None:
    batch.put(Family.META, OVERTAKEN, _STATE.pack(following, offset))


class RevisitBackfill:
    """The records that are still to be read when a job is resumed."""

    def __init__(
        self, store: Store, revisits: Revisits, counters: Counters, rules: PriorityRules, order: Order
    ) -> None:
        self._store = store
        self._revisits = revisits
        self._counters = counters
        self.rules = rules
        self._order = order
        self._path = Path()
        self._at = self._end = 0

    def load(self, path: Path, end: int, tell: Callable[[str], None], batch: Batch) -> None:
        """Load the progress. The records of earlier runs are those before the offset ``end``. If some of them must be
        read in this run, report it to ``tell``. Raises OSError."""
        following, offset = stored_state(self._store)
        at = end if following else min(offset, end)
        if self._revisits.enabled and at < end:
            self._path, self._at, self._end = path, at, end
            tell("setting the times of the next visits of pages that were finished without --recrawl")
        elif following != self._revisits.enabled:
            _put(batch, self._revisits.enabled, at)

    @property
    def left(self) -> bool:
        """Whether records are left to read."""
        return self._at < self._end

    def step(self, batch: Batch) -> bool:
        """Set the next visits of some pages. Returns whether more are left. Raises OSError, PageError."""
        found: dict[str, tuple[Entry, float]] = {}
        visits: dict[str, int] = {}
        at = self._at
        for start, line in islice(lines_of(self._path, self._end, self._at), LINES):
            at = start + len(line)
            record = record_of(line)
            if record is None or record.get("probe"):
                continue
            href, page = str(record["url"]), _page_of(record, self._order)
            if page is not None:
                found.setdefault(href, page)
            if href.isascii():
                visits[href] = max(visits_of(record), visits.get(href, 1))
        for href, number in visits.items():
            if href not in found:
                if number > 1:  # a rule excluded the page when it was put back
                    self._revisits.count(href, number, batch)
                continue
            entry, visited_at = found[href]
            ruled = self.rules.of(entry.href, entry.depth, seed=entry.seed, sitemap_priority=None)
            entry = entry if ruled is None else entry._replace(priority=ruled)
            self._counters.scheduled += self._revisits.overtake(entry, visited_at, number, batch)
        # Without progress the file was cut by someone else: nothing is left to read.
        self._at = at if at > self._at else self._end
        _put(batch, not self.left, self._at)
        return self.left


def _page_of(record: Record, order: Order) -> tuple[Entry, float] | None:
    """The page of a record and the time of its visit; None if it gets no revisit, or the record is not valid."""
    if record["outcome"] not in _VISITED:
        return None
    entry = entry_of(record, order)
    try:
        visited_at = datetime.fromisoformat(str(record.get("fetched_at"))).timestamp()
    except (ValueError, OverflowError):
        return None
    hrefs = entry.href + (entry.via or "")
    whole = hrefs.isascii() and hrefs.isprintable() and " " not in hrefs
    # Other programs may have edited the file.
    return (entry, visited_at) if whole and entry.href.startswith(("http://", "https://")) else None


async def backfill_beside(room: Callable[[], Awaitable[None]], step: Callable[[], bool]) -> None:
    """Call ``step`` until it returns False."""
    loop = asyncio.get_running_loop()
    more = True
    while more:
        await room()
        began = loop.time()
        more = step()
        await asyncio.sleep(PAUSE * (loop.time() - began))
