"""Visiting finished pages again: conditional requests, what their answers say, and the records of such visits.

The schedule itself is ``frontier.revisits``. A revisit is no admission: the seen-set is not asked, and it is counted by
itself. It ends like a first visit, in one step with its record and its outlinks, and with the time of the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from crawler.frontier import QUEUED_MAX, Answer, Entry, Frontier, Order, Revisits
from crawler.job.revisit_backfill import RevisitBackfill
from crawler.kv import Batch, Store
from crawler.records import Counters, Outcome, PageRecord
from crawler.scope import PriorityRules
from crawler.settings import PrioritySettings, RecrawlSettings, Settings

INTERVAL = 1.0  # seconds between two looks for pages that are due
NOT_MODIFIED = 304
_STEP = 256  # pages moved in one step


@dataclass(frozen=True, slots=True)
class RevisitSettings:
    """What revisits are told."""

    recrawl: RecrawlSettings
    priority: PrioritySettings
    order: str

    @classmethod
    def of(cls, settings: Settings) -> RevisitSettings:
        return cls(settings.recrawl, settings.priority, settings.crawl.order)


class Revisiting:
    """The part of a job's steps that revisits take."""

    def __init__(self, store: Store, settings: RevisitSettings, frontier: Frontier, counters: Counters) -> None:
        self._revisits = Revisits(store, settings.recrawl, self._pace, frontier.queue_of)
        self.backfill = RevisitBackfill(
            store, self._revisits, counters, PriorityRules(settings.priority.rules), Order(settings.order)
        )
        self._frontier = frontier
        self._counters = counters
        self.enabled = settings.recrawl.enabled

    def conditions(self, entry: Entry) -> Mapping[str, str]:
        """The headers that make the request a conditional one; none for a first visit. Raises PageError."""
        page = self._revisits.page(entry.href) if entry.revisit else None
        return {} if page is None else page.conditions

    def wants_answer(self, entry: Entry) -> bool:
        """Whether it matters what a visit finds."""
        return self.enabled or entry.revisit

    def is_due(self, now: float) -> bool:
        """Whether a page can be moved into its host's queue."""
        if self._counters.revisits_pending >= QUEUED_MAX:
            return False
        due = self._revisits.next_due()
        return due is not None and due <= now

    def begin(self, now: float, batch: Batch) -> None:
        """Move pages that are due into their hosts' queues. Raises PageError."""
        counters = self._counters
        begun = self._revisits.begin(now, min(_STEP, QUEUED_MAX - counters.revisits_pending), batch)
        counters.revisits += len(begun)
        counters.revisits_pending += len(begun)
        counters.scheduled -= len(begun)
        self._frontier.admit(begun, batch)

    def finish(self, record: PageRecord, answer: Answer | None, batch: Batch) -> PageRecord:
        """A URL is done: its next visit is set, if there is to be one. Returns the record as it is to be written."""
        counters, entry = self._counters, record.entry
        counters.revisits_pending -= entry.revisit
        counters.not_modified += record.status == NOT_MODIFIED
        excluded = record.outcome is Outcome.EXCLUDED
        kept = self._revisits.finish(entry, answer, record.fetched_at, batch, excluded=excluded)
        if kept is None:
            return record
        page, changed, more = kept
        counters.scheduled += more
        counters.changed += changed is True
        return replace(record, visit=page.visits, changed=changed)

    def _pace(self, host: str) -> float:
        row = self._frontier.describe(host, 0.0)
        return 0.0 if row is None else row.gap_seconds


async def revisit_beside(begin: Callable[[], bool]) -> None:
    """Let ``begin`` move pages that are due, as long as it says that there may be more, and look again each second."""
    while True:
        pause = 0.0 if begin() else INTERVAL
        await asyncio.sleep(pause)
