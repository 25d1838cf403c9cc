"""When visited pages are visited again: an order by time on disk, and a way from there into the host queues.

    pages   href -> page                  all that is known of it, see ``page``
    due     time, href -> nothing         pages that are not queued, by the time of their next visit

A page has a time or it is queued, never both. Pages that are due are moved into their hosts' queues in the order of
their times, and only so many: memory and queues do not grow with the number of pages. Where a host has enough of them
queued, further ones are put off to when it may have room, each once by the host's own pace, so that a slow host does
not keep the others from their turn.

Pure like the frontier: time is an argument, what must be stored is put into the batch of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from crawler.frontier.entry import Entry, QueueOf, queue_of
from crawler.frontier.page import Answer, Page, PageError, milliseconds, pack_page, unpack_page, visited
from crawler.kv import Batch, Family, Reader
from crawler.settings import RecrawlSettings

QUEUED_MAX = 4_096  # revisits in all host queues together
HOST_MAX = 16  # of one host
_LEAST_PACE = 0.01  # seconds between two revisits of a host that is asked without a gap
_HOSTS_MAX = 10_000  # hosts of which it is remembered until when their revisits are put off
_TIME = 8  # bytes


def due_key(due: float, href: str) -> bytes:
    """The key of a page in ``due``."""
    return milliseconds(due).to_bytes(_TIME, "big") + href.encode("ascii")


def split_due_key(key: bytes) -> tuple[float, str]:
    """(time in seconds since 1970, href); raises PageError."""
    if len(key) <= _TIME or not key[_TIME:].isascii():
        raise PageError(f"not a time and a page: {key!r}")
    return int.from_bytes(key[:_TIME], "big") / 1000, key[_TIME:].decode("ascii")


class Revisits:
    """The schedule of a job. ``pace`` gives the seconds between two requests to a host, ``queue_of`` the queue that
    an href belongs to."""

    def __init__(
        self, store: Reader, settings: RecrawlSettings, pace: Callable[[str], float], queue_of: QueueOf = queue_of
    ) -> None:
        self._store = store
        self._settings = settings
        self._pace = pace
        self._queue_of = queue_of
        self._queued: Counter[str] = Counter()  # of this run; what an earlier one queued comes on top
        self._put_off: dict[str, float] = {}
        self._first = b""  # no key of ``due`` is before it: the store would walk over all that was deleted there

    @property
    def enabled(self) -> bool:
        """Whether finished pages are to be visited again."""
        return self._settings.enabled

    def page(self, href: str) -> Page | None:
        """What is known of a page that was visited; raises PageError."""
        stored = self._store.get(Family.PAGES, href.encode("ascii"))
        return None if stored is None else unpack_page(stored)

    def next_due(self) -> float | None:
        """The time of the next visit; None when nothing is to be visited again."""
        rows = self._store.scan(Family.DUE, self._first, None, 1)
        return split_due_key(rows[0][0])[0] if rows else None

    def finish(
        self, entry: Entry, answer: Answer | None, now: float, batch: Batch, *, excluded: bool
    ) -> tuple[Page, bool | None, int] | None:
        """A visit has ended. Gives the page, whether it had changed, and how many more pages have a time now; None for
        a page that is not to be visited again: what was excluded at its first visit is not."""
        if entry.revisit:
            self._leave(self._queue_of(entry.href))
        elif excluded or not self._settings.enabled:
            return None
        before = self.page(entry.href)
        page, changed = visited(before, entry, answer, now, self._settings, last_resort=excluded)
        assert page.due is not None
        had_time = before is not None and before.due is not None
        if before is not None and before.due is not None:
            batch.delete(Family.DUE, due_key(before.due, entry.href))
        self._put(page, page.due, batch)
        return page, changed, 0 if had_time else 1

    def overtake(self, entry: Entry, visited_at: float, batch: Batch) -> bool:
        """A page was visited before further visits were asked for: set the next. False where it has been set."""
        if self._store.get(Family.PAGES, entry.href.encode("ascii")) is not None:
            return False
        page, _ = visited(None, entry, None, visited_at, self._settings, last_resort=False)
        assert page.due is not None
        self._put(page, max(0.0, page.due), batch)
        return True

    def begin(self, now: float, room: int, batch: Batch) -> list[Entry]:
        """Take at most ``room`` pages that are due: entries for the frontier."""
        begun: list[Entry] = []
        rows = self._store.scan(Family.DUE, self._first, due_key(now, "") + b"\xff", room)
        if rows:
            self._first = rows[-1][0]
        hrefs = [split_due_key(key)[1] for key, _ in rows]
        stored = self._store.get_many(Family.PAGES, [href.encode("ascii") for href in hrefs])
        for (key, _), href, value in zip(rows, hrefs, stored, strict=True):
            if value is None:
                raise PageError(f"{href} is due and unknown")
            page = unpack_page(value)
            batch.delete(Family.DUE, key)
            name = self._queue_of(href)
            if self._queued[name] >= HOST_MAX:
                self._put(page, self._later(name, now), batch)
                continue
            self._queued[name] += 1
            batch.put(Family.PAGES, href.encode("ascii"), pack_page(replace(page, due=None)))
            begun.append(page.entry)
        return begun

    def take_back(self, entry: Entry, batch: Batch) -> tuple[bool, int]:
        """The end of a visit is lost, and the URL is to be queued again, unless it is queued already (False). The other
        number is how many pages have no time any more."""
        page = self.page(entry.href)
        if page is None:
            return True, 0
        if page.due is None:
            return False, 0
        batch.delete(Family.DUE, due_key(page.due, entry.href))
        if entry.revisit:
            batch.put(Family.PAGES, entry.href.encode("ascii"), pack_page(replace(page, due=None)))
        else:
            batch.delete(Family.PAGES, entry.href.encode("ascii"))
        return True, 1

    def _put(self, page: Page, due: float, batch: Batch) -> None:
        href = page.entry.href
        batch.put(Family.PAGES, href.encode("ascii"), pack_page(replace(page, due=due)))
        key = due_key(due, href)
        batch.put(Family.DUE, key, b"")
        self._first = min(self._first, key)

    def _later(self, name: str, now: float) -> float:
        pace = max(self._pace(name), _LEAST_PACE)
        at = max(self._put_off.get(name, 0.0), now + HOST_MAX * pace) + pace
        if len(self._put_off) >= _HOSTS_MAX:
            self._put_off = {host: until for host, until in self._put_off.items() if until > now}
        self._put_off[name] = at
        return at

    def _leave(self, name: str) -> None:
        if self._queued[name] > 1:
            self._queued[name] -= 1
        else:
            del self._queued[name]
