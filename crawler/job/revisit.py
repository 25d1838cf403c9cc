"""Revisits of finished pages: conditional requests, the interpretation of their answers, and their records.

The schedule is in ``frontier.revisits``. A revisit is not an admission: it bypasses the seen-set and has its own
counter. It ends like a first visit, in one transaction with its record, its outlinks and the time of the next visit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from crawler.base.kv import Batch, Family, Store
from crawler.base.settings.parts import RecrawlSettings, Settings
from crawler.base.settings.timetable import Timetable
from crawler.frontier.cookie_chain import link_of
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.page import Answer, Page
from crawler.frontier.revisits import QUEUED_MAX, Revisits
from crawler.frontier.sitemap_dates import Statements
from crawler.job.left_out import LeftOutRows
from crawler.job.metrics.catalogue import Counters
from crawler.job.records import Outcome, PageRecord, count_url, url_kind
from crawler.url.scope.url_sites import UrlSites

INTERVAL = 1.0  # seconds between two checks for pages that are due
NOT_MODIFIED = 304
BOUNCED_MOST = 1_000  # URLs stored because they set cookies
_BOUNCED = b"bounced/"
_STEP = 256  # pages moved in one transaction
_ALL_SCHEDULED = b"recrawl"  # present as long as every finished page has been finished with revisits enabled


class Revisiting:
    """Handles revisits in the transactions of a job."""

    def __init__(
        self, store: Store, settings: Settings, frontier: Frontier, counters: Counters, began: float = 0.0
    ) -> None:
        """``began``: when the job started, in seconds since 1970."""
        self.timetable = Timetable(settings.schedule, began)
        self._began = began
        self._revisits = Revisits(store, settings.recrawl, self._pace, frontier.queue_of, _of_url(settings))
        self._revisits.next_round = self.timetable.next_round
        self._store = store
        self._frontier = frontier
        self._counters = counters
        self.left_out = LeftOutRows(store, frontier, counters, self.again)
        self.enabled = settings.recrawl.enabled
        # URLs that set a cookie and redirected back, with the outcomes of their last visits (``url_kind``).
        rows = store.rows(Family.META, _BOUNCED, _BOUNCED + b"\xff")
        self.bounced = {key[len(_BOUNCED) :].decode("ascii"): value[0] for key, value in rows}

    def change(self, settings: Settings) -> None:
        """Switch to other intervals and classes."""
        self._revisits.change(settings.recrawl, _of_url(settings))
        self.timetable = Timetable(settings.schedule, self._began)
        self._revisits.next_round = self.timetable.next_round

    def load(self, say: Callable[[str], None], batch: Batch) -> None:
        """Record whether all finished pages were finished with revisits enabled. If some were not, report that those
        pages have no next visit."""
        all_scheduled = self._store.get(Family.META, _ALL_SCHEDULED) is not None or not self._counters.done
        if not self.enabled:
            batch.delete(Family.META, _ALL_SCHEDULED)
        elif all_scheduled:
            batch.put(Family.META, _ALL_SCHEDULED, b"")
        else:
            say("pages that were finished without --recrawl have no next visit: `crawler retry` gives them one")

    def conditions(self, entry: Entry) -> Mapping[str, str]:
        """Return the headers of a conditional request. Raises PageError, LeftOutError.

        Empty for a first visit, for a page whose left-out links may be admitted now, and for a retry, because the
        conditions may have made the server fail."""
        conditional = entry.revisit and not entry.tries and not self.left_out.wants_whole(entry)
        page = self._revisits.page(entry.href) if conditional else None
        return {} if page is None else page.conditions

    def state_of(self, entry: Entry) -> Page | None:
        """Return the stored state of a page that is revisited; None on a first visit. Raises PageError."""
        return self._revisits.page(entry.href) if entry.revisit else None

    def wants_answer(self, entry: Entry) -> bool:
        """True if the response of a visit must be kept for comparison."""
        return self.enabled or entry.revisit

    def next_due(self) -> float | None:
        """Return the time of the next visit, in seconds since 1970; None if no page has one."""
        return self._revisits.next_due()

    def is_due(self, now: float) -> bool:
        """True if a page is due and there is room for it in the queues."""
        if self._counters.revisits_pending >= QUEUED_MAX:
            return False
        due = self._revisits.next_due()
        return due is not None and due <= now

    def begin(self, now: float, batch: Batch) -> None:
        """Move due pages into their hosts' queues. Raises PageError."""
        counters = self._counters
        begun = self._revisits.begin(now, min(_STEP, QUEUED_MAX - counters.revisits_pending), batch)
        counters.revisits += len(begun)
        counters.revisits_pending += len(begun)
        counters.pages_scheduled -= len(begun)
        self._frontier.admit(begun, batch)

    def heed(self, statements: Statements, now: float, batch: Batch) -> None:
        """Store statements of a sitemap or a feed about pages, if pages are revisited. Raises PageError."""
        if self.enabled and statements:
            self._revisits.heed(statements, now, batch)

    def again(self, entry: Entry, visits: int, batch: Batch) -> Entry | None:
        """Count a finished URL as queued for another visit, and return its entry; None if it is already queued. Raises
        PageError."""
        taken = self._revisits.again(entry, visits, batch)
        if taken is None:
            return None
        counters = self._counters
        counters.revisits += 1
        counters.revisits_pending += 1
        counters.pages_scheduled -= taken[1]
        return taken[0]

    def lead_back(self, entry: Entry, record: PageRecord, batch: Batch) -> None:
        """Queue a finished URL of a chain of redirects before all others of its host, while its cookies are valid.
        Raises PageError.

        A page that redirects back to a URL of its chain is stored, because it may set cookies for other URLs too."""
        known = self.again(entry, 1, batch)
        if known is not None:
            again = known._replace(chain=entry.chain, redirects=entry.redirects, last=entry.last, priority=0)
            self._frontier.admit([again], batch, first=True)
        if link_of(entry.chain, entry.href) is not None and len(self.bounced) < BOUNCED_MOST:
            self._bounced(record, batch)

    def _bounced(self, record: PageRecord, batch: Batch) -> None:
        href, kind = record.entry.href, url_kind(record.outcome, record.status)
        self.bounced[href] = kind
        batch.put(Family.META, _BOUNCED + href.encode("ascii"), bytes([kind]))

    def finish(self, record: PageRecord, answer: Answer | None, batch: Batch) -> None:
        """Schedule the next visit of a finished URL, if it gets one, and add it to its record."""
        counters, entry = self._counters, record.entry
        counters.revisits_pending -= entry.revisit
        counters.revisits_not_modified += answer is not None and answer.fingerprint is None
        excluded = record.outcome is Outcome.EXCLUDED or entry.probe
        again = count_url(counters, entry, record.outcome, record.status)
        if entry.href in self.bounced:
            self._bounced(record, batch)
        kept = self._revisits.finish(again, answer, record.fetched_at, batch, excluded=excluded)
        if kept is None:
            return
        page, changed, more = kept
        counters.pages_scheduled += more
        counters.revisits_changed += changed is True
        record.visit, record.changed, record.gone = page.visits, changed, self.enabled and page.due is None

    def _pace(self, host: str) -> float:
        row = self._frontier.describe(host, 0.0)
        return 0.0 if row is None else row.gap_seconds


def _of_url(settings: Settings) -> Callable[[str], RecrawlSettings] | None:
    """Return a function that maps a URL to its revisit settings; None if they are the same for all."""
    sites = UrlSites.of_settings(settings)
    return None if sites is None else sites.recrawl_of


async def revisit_beside(begin: Callable[[], bool]) -> None:
    """Call ``begin`` until it returns False, then again every second."""
    while True:
        pause = 0.0 if begin() else INTERVAL
        await asyncio.sleep(pause)
