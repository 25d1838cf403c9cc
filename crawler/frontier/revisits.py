"""Schedules revisits: an index by time on disk, from which due pages move into the host queues.

    pages   href -> page                  the state of the page, see ``page``
    due     time, href -> nothing         pages that are not queued, by the time of their next visit

A page has a time or is queued, never both. Due pages move into their hosts' queues in order of time, up to a fixed
number, so that memory and queues do not grow with the number of pages. If a host has enough revisits queued, its
further pages form a line: they are postponed to times when it may have room, spaced by the host's pace as observed in
its visits. Pages already waiting in a line go before pages that become due later. When half of all places in the queues
are taken, each host is limited to one, so that slow hosts do not delay the others.

Pure like the frontier: time is an argument (seconds since 1970), and changes go into the batch of the transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.entry import Entry, QueueOf, queue_of
from crawler.frontier.page import Answer, Page, PageError, first_interval, milliseconds, pack_page, unpack_page, visited
from crawler.frontier.sitemap_dates import Statements, Trust, hear
from crawler.frontier.visit_times import VisitTimes

GONE_AFTER = 3  # number of 404 or 410 responses in a row after which a page is not visited again
ONCE = 0.0  # the interval of a page that is visited only once more
QUEUED_MAX = 4_096  # maximum number of revisits in all host queues together
HOST_MAX = 16  # maximum number of revisits in the queue of one host
_LEAST_PACE = 0.01  # least number of seconds assumed between two revisits of a host
_HOSTS_MAX = 10_000  # hosts whose lines of due pages are kept; beyond it, those whose end has passed are dropped
_CROWD = 4  # multiplies the limit of a host whose queue of due pages fills faster than it drains
_LEARN = 0.05  # weight of the newest interval between two visits
_TIME = 8  # size of a time in bytes


def due_key(due: float, href: str) -> bytes:
    """Return the key of a page in ``due``."""
    return milliseconds(due).to_bytes(_TIME, "big") + href.encode("ascii")


def once_more(entry: Entry, visits: int) -> Page:
    """Return the state of a page that is queued for one more visit."""
    again = entry._replace(revisit=True, tries=0, throttled=0, redirects=0)
    return Page(again, visits, 0, ONCE, None, 0.0)


def split_due_key(key: bytes) -> tuple[float, str]:
    """Split a key of ``due`` into (time in seconds since 1970, href); raises PageError."""
    if len(key) <= _TIME or not key[_TIME:].isascii():
        raise PageError(f"not the due time and URL of a page: {key!r}")
    return int.from_bytes(key[:_TIME], "big") / 1000, key[_TIME:].decode("ascii")


class Revisits:
    """The revisit schedule of a job.

    ``pace`` returns the seconds between two requests to a host, ``queue_of`` the queue of an href, and ``of_url`` the
    settings of an href, if they differ between URLs.
    """

    def __init__(
        self,
        store: Reader,
        settings: RecrawlSettings,
        pace: Callable[[str], float],
        queue_of: QueueOf = queue_of,
        of_url: Callable[[str], RecrawlSettings] | None = None,
    ) -> None:
        self._store = store
        self._of_url = of_url
        self._settings = settings
        self._pace = pace
        self._queue_of = queue_of
        self._queued: Counter[str] = Counter()  # revisits queued in this run; earlier runs may have queued more
        self._total = 0  # total number of queued revisits
        self._lines: dict[str, _Line] = {}
        self._times = VisitTimes(store, settings)
        # Returns the earliest permitted time for a revisit that is due at the given time: the start of the next round
        # if there are rounds.
        self.next_round: Callable[[float], float] = lambda time: time
        self._first = b""  # lower bound of the keys in ``due``; a scan from here skips deleted keys

    def change(self, settings: RecrawlSettings, of_url: Callable[[str], RecrawlSettings] | None) -> None:
        """Apply new intervals with the same policy. Visits that have a time keep it."""
        self._settings, self._of_url = settings, of_url
        self._times.change(settings)

    @property
    def enabled(self) -> bool:
        """True if finished pages are to be visited again."""
        return self._settings.enabled

    def page(self, href: str) -> Page | None:
        """Return the stored state of a visited page, or None; raises PageError."""
        stored = self._store.get(Family.PAGES, href.encode("ascii"))
        return None if stored is None else unpack_page(stored)

    def next_due(self) -> float | None:
        """Return the time of the next visit, in seconds since 1970; None if no page has one."""
        rows = self._store.scan(Family.DUE, self._first, None, 1)
        return split_due_key(rows[0][0])[0] if rows else None

    def finish(
        self, entry: Entry, answer: Answer | None, now: float, batch: Batch, *, excluded: bool
    ) -> tuple[Page, bool | None, int] | None:
        """Schedule the next visit of a page that has just been visited.

        Returns the page, whether it had changed, and the increase in the number of pages that have a time. A page that
        no longer exists leaves the schedule and has no ``due`` time. Returns None if the page was never in the
        schedule, for example if it was excluded at its first visit.
        """
        if entry.revisit:
            self._leave(self._queue_of(entry.href), now)
        elif excluded or not self._settings.enabled:
            return None
        before = self.page(entry.href)
        if before is not None and before.interval == ONCE:
            if not self._settings.enabled:
                batch.delete(Family.PAGES, entry.href.encode("ascii"))
                return before._replace(visits=before.visits + 1), None, 0
            before = before._replace(interval=first_interval(self._settings))
        own = self._settings if self._of_url is None else self._of_url(entry.href)
        page, changed = visited(before, entry, answer, now, own, last_resort=excluded)
        if changed is not None:
            assert before is not None
            page = self._paced(before, page, changed, own, batch)
        assert page.due is not None
        had_time = before is not None and before.due is not None
        if before is not None and before.due is not None:
            batch.delete(Family.DUE, due_key(before.due, entry.href))
        if page.gone >= GONE_AFTER:
            batch.delete(Family.PAGES, entry.href.encode("ascii"))
            return page._replace(due=None), changed, -had_time
        self._put(page, self.next_round(page.due), batch)
        return page, changed, 0 if had_time else 1

    def again(self, entry: Entry, visits: int, batch: Batch) -> tuple[Entry, int] | None:
        """Queue a page for another visit, even if pages are not revisited.

        ``visits`` is the minimum number of earlier visits to assume for the page. Returns the page's entry for the
        frontier and the number of pages that lost their time; None if the page is already queued. Raises PageError.
        """
        page, had_time = self.page(entry.href), 0
        if page is None:
            page = once_more(entry, visits)
        elif page.due is None:
            return None
        else:
            batch.delete(Family.DUE, due_key(page.due, entry.href))
            page, had_time = page._replace(due=None), 1
        self._queued[self._queue_of(entry.href)] += 1
        self._total += 1
        batch.put(Family.PAGES, entry.href.encode("ascii"), pack_page(page))
        return page.entry, had_time

    def begin(self, now: float, room: int, batch: Batch) -> list[Entry]:
        """Take at most ``room`` due pages; returns their entries for the frontier. Raises PageError."""
        begun: list[Entry] = []
        rows = self._store.scan(Family.DUE, self._first, due_key(now, "") + b"\xff", room)
        if rows:
            self._first = rows[-1][0]
        hrefs = [split_due_key(key)[1] for key, _ in rows]
        stored = self._store.get_many(Family.PAGES, [href.encode("ascii") for href in hrefs])
        for (key, _), href, value in zip(rows, hrefs, stored, strict=True):
            if value is None:
                raise PageError(f"{href} is due for a revisit, but the store has no record of the page")
            page = unpack_page(value)
            batch.delete(Family.DUE, key)
            name = self._queue_of(href)
            if self._must_wait(name, page, now):
                self._put(page, self._later(name, now), batch)
                continue
            self._queued[name] += 1
            self._total += 1
            batch.put(Family.PAGES, href.encode("ascii"), pack_page(page._replace(due=None)))
            begun.append(page.entry)
        return begun

    def take_back(self, entry: Entry, batch: Batch) -> tuple[bool, int]:
        """Undo a visit whose record was lost.

        Returns True if the URL must be queued again (False if it is already queued), and the number of pages that lost
        their time.
        """
        page = self.page(entry.href)
        if page is None:
            if entry.revisit:  # the lost visit was the only further one
                batch.put(Family.PAGES, entry.href.encode("ascii"), pack_page(once_more(entry, 1)))
            return True, 0
        if page.due is None:
            return False, 0
        batch.delete(Family.DUE, due_key(page.due, entry.href))
        if entry.revisit:
            # The record with the result of the lost visit no longer exists.
            batch.put(Family.PAGES, entry.href.encode("ascii"), pack_page(page.forgotten()._replace(due=None)))
        else:
            batch.delete(Family.PAGES, entry.href.encode("ascii"))
        return True, 1

    def heed(self, statements: Statements, now: float, batch: Batch) -> None:
        """Process the change dates of pages in a sitemap or feed.

        Pages that changed after their last visit become due sooner, if their host is trusted. Raises PageError.
        """
        trusts: dict[str, Trust] = {}
        stored = self._store.get_many(Family.PAGES, [href.encode("ascii") for href in statements])
        for (href, stated), value in zip(statements.items(), stored, strict=True):
            page = None if value is None else hear(unpack_page(value), stated, now)
            if page is None:
                continue
            host = self._queue_of(href)
            if host not in trusts:
                trusts[host] = self._times.trust(host)
            sooner = self._times.sooner(page, trusts[host], now, batch)
            if sooner is None or page.due is None or sooner.due is None:
                batch.put(Family.PAGES, href.encode("ascii"), pack_page(page))
            else:
                batch.delete(Family.DUE, due_key(page.due, href))
                self._put(sooner, self.next_round(sooner.due), batch)

    def _paced(self, before: Page, page: Page, changed: bool, own: RecrawlSettings, batch: Batch) -> Page:
        """Return the page after a visit, with the interval that the budget and the page's own limits allow."""
        host = self._queue_of(page.entry.href)
        self._times.learn(host, before, page.visited_at, changed, batch)
        interval = self._times.interval(page, host, batch)
        if interval is None:
            return page
        interval = min(max(interval, own.min_interval), own.max_interval)
        return page.next_at(interval, page.visited_at + interval)

    def _put(self, page: Page, due: float, batch: Batch) -> None:
        href = page.entry.href
        batch.put(
            Family.PAGES, href.encode("ascii"), pack_page(page if due == page.due else page.next_at(page.interval, due))
        )
        key = due_key(due, href)
        batch.put(Family.DUE, key, b"")
        self._first = min(self._first, key)

    def _must_wait(self, name: str, page: Page, now: float) -> bool:
        """Return True if a due page has to wait for its host. Pages that have already waited go first."""
        queued, line = self._queued[name], self._lines.get(name)
        # Slow hosts must not take all places.
        most = HOST_MAX if self._total < QUEUED_MAX // 2 else 1
        if page.due is not None and page.due > milliseconds(page.visited_at + page.interval) / 1000:
            return queued >= _CROWD * most
        return queued >= most or (line is not None and line.end > now)

    def _later(self, name: str, now: float) -> float:
        """Return the time of the next place in the line of a host."""
        line = self._lines.get(name)
        if line is None:
            if len(self._lines) >= _HOSTS_MAX:
                self._lines = {host: each for host, each in self._lines.items() if each.end > now}
            line = self._lines[name] = _Line(max(self._pace(name), _LEAST_PACE))
        line.end = max(line.end, now + HOST_MAX * line.pace) + line.pace
        return line.end

    def _leave(self, name: str, now: float) -> None:
        self._total -= name in self._queued
        if self._queued[name] > 1:
            self._queued[name] -= 1
            line = self._lines.get(name)
            if line is not None:
                line.left(now)
        else:
            del self._queued[name]


class _Line:
    """The line of a host's due pages.

    ``end`` is the time until which places are taken, and ``pace`` the observed seconds between two visits.
    """

    __slots__ = ("end", "last", "pace")

    def __init__(self, pace: float) -> None:
        self.pace = pace
        self.end = self.last = 0.0

    def left(self, now: float) -> None:
        """Update the pace after a visit, while further pages are queued."""
        if self.last:
            self.pace += _LEARN * (max(now - self.last, _LEAST_PACE) - self.pace)
        self.last = now
