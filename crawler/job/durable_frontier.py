"""A durable frontier without a fetcher: a job directory, and a program that fetches for itself.

It is the frontier, the seen-set and the journal that a crawl stands on, with all their promises, for code that has its
own way to fetch: open a directory, add URLs, take a lease, and finish it with the links that were found, or put it
back. Each of these is one transaction. When a call has returned, the operating system has all of it: killed at any
moment, the program starts again with every URL that was admitted and not finished, those that were out among them.
Power loss may take back what came after the last sync, a second at most.

Two leases on one host never overlap, and its gap is kept between them, also over restarts. robots.txt is the caller's
matter. The directory is an ordinary job: ``crawler stats``, ``explain``, ``verify`` and ``tail`` work on it.

Nothing here is asynchronous or starts a thread of its own, and one thread at a time may use it.
"""

from __future__ import annotations

import errno
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, Unpack

from crawler.clock import SteadyClock
from crawler.frontier import FailureClass, Lease, RequestOutcome
from crawler.job.checkpointer import CheckpointResult, drive
from crawler.job.directory import check_shape, shape_of_job, shaping_of
from crawler.job.found import Found
from crawler.job.inbox import Answer
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.run_settings import write_run
from crawler.job.verdict import Again, Finished, Throttled
from crawler.records import Outcome, PageRecord
from crawler.scope import Boundary, Outside
from crawler.settings import settings_from
from crawler.urls import Canonical, Canonicaliser, Rejected

_TABLES = {
    "delay": "politeness",
    "per_host": "politeness",
    "host_key": "politeness",
    "scope": "crawl",
    "order": "crawl",
    "max_depth": "crawl",
    "include": "scope",
    "exclude": "scope",
    "fpp": "seen",
    "capacity": "seen",
    "rules": "canonical",
    "sync_interval": "durability",
    "checkpoint_interval": "durability",
}


class Options(TypedDict, total=False):
    """Settings of a frontier, with the names and defaults of the command line and the configuration file; only the
    scope is ``"any"`` unless another is named."""

    delay: float  # seconds between the end of one request to a host and the start of the next
    per_host: int  # leases on one host at a time
    host_key: str  # what shares one gap: "host" or "domain"
    scope: str  # "any", or of the URLs that were added: "host", "domain", "prefix"
    order: str  # "breadth", "depth" or "score"
    max_depth: int | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    seen: str  # kind of seen-set
    fpp: float
    capacity: int
    rules: tuple[str, ...]  # of canonicalisation
    sync_interval: float  # seconds
    checkpoint_interval: float  # seconds


@dataclass(frozen=True, slots=True, eq=False)
class UrlLease:
    """A URL that is out: nobody else gets it, or another of its host beyond ``per_host``, until it is finished, put
    back, or the program ends. ``tries``: how often it was tried before."""

    url: str
    depth: int
    via: str | None
    tries: int
    inner: Lease = field(repr=False)


class DurableFrontier:
    """The frontier in a directory, opened for writing by this process. Close it, or use it as a context manager.

    All times are seconds since 1970; ``now`` is what the frontier's clock says where it is not given."""

    def __init__(
        self,
        directory: str | Path,
        *,
        clock: Callable[[], float] | None = None,
        platform: Platform | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Begin a frontier, or open one where it was left; what shaped it (``order``, ``seen``, ``fpp``, ``capacity``,
        ``rules``) then need not be named again.

        Raises JobError for a directory that cannot be used, or is in use, SettingsError for an option that makes no
        sense, OSError when the disk fails."""
        directory = Path(directory)
        tables = shape_of_job(directory)
        for table, values in _tables(options).items():
            tables.setdefault(table, {}).update(values)
        settings = settings_from(tables, "Frontier")
        check_shape(directory, shaping_of(settings))
        steady = SteadyClock()
        self._clock = clock or steady
        now = self._clock()
        self.job = Job(directory, settings, now, platform, anchor=None if clock is not None else steady.anchor)
        try:
            write_run(self.job.disk, directory, settings)
        except BaseException:
            self.job.close()
            raise
        self._canonicaliser = Canonicaliser(settings.canonical.rules)
        self._boundary = Boundary.of(self.job.scope, settings)
        self._durability = settings.durability
        self._next_sync = now + settings.durability.sync_interval
        self._next_checkpoint = now + settings.durability.checkpoint_interval
        self._out: set[Lease] = set()
        self._closed = False

    # -- URLs come in ------------------------------------------------------------------------------------------

    def add(self, urls: str | Iterable[str], *, now: float | None = None) -> Answer:
        """Admit URLs that were never seen; as seeds they widen the scope, where it is not ``"any"``."""
        now = self._begin(now)
        found: list[Canonical] = []
        rejected: list[tuple[str, str]] = []
        for text in [urls] if isinstance(urls, str) else _texts("a URL", urls):
            url = self._canonicaliser.canonicalise(text)
            if isinstance(url, Rejected):
                rejected.append((text, url.reason))
            else:
                found.append(url)
        for url in found:
            self.job.widen(url.href)
        inside = self._boundary.inside(found, 0, Counter(), seed=True)
        new = self.job.admit(Found(inside, 0, seed=True))
        self._end(now)
        return Answer(new, len(inside) - new, len(found) - len(inside), tuple(rejected))

    # -- leases ------------------------------------------------------------------------------------------------

    def take(self, now: float | None = None) -> UrlLease | None:
        """The URL whose turn it is; None while no host may be asked."""
        now = self._begin(now)
        while (lease := self.job.frontier.take(now)) is not None:
            entry = lease.entry
            if entry is None:
                raise RuntimeError("the frontier asks for robots.txt or an address: it was opened with other settings")
            if lease.closed is None:
                self._out.add(lease)
                return UrlLease(entry.href, entry.depth, entry.via, entry.tries, lease)
            # Its host gave no answer too often: the URL ends here.
            outcome = Outcome.FAILED if lease.closed.failed else Outcome.EXCLUDED
            record = PageRecord(entry, outcome, now, error=lease.closed.error)
            self.job.finish(lease, Finished(record, requested=False), now)
            self._end(now)
        return None

    def wait(self) -> UrlLease | None:
        """The next URL, slept for until its host may be asked; None when nothing is left to wait for: no URL is queued,
        or all that are wait for leases that are out."""
        while (lease := self.take()) is None:
            ready = self.next_ready()
            if ready is None:
                return None
            time.sleep(max(0.0, ready - self._clock()))
        return lease

    def __iter__(self) -> Iterator[UrlLease]:
        """Every URL in its turn, until none is left; each must be finished or put back before the next is asked for, or
        its host has no turn."""
        while (lease := self.wait()) is not None:
            yield lease

    def next_ready(self) -> float | None:
        """When ``take`` will next give a lease if nothing else happens; None: never."""
        return self.job.frontier.next_ready()

    # -- leases end --------------------------------------------------------------------------------------------

    def finish(
        self,
        lease: UrlLease,
        links: Iterable[str] = (),
        *,
        status: int | None = 200,
        error: str | None = None,
        location: str | None = None,
        now: float | None = None,
    ) -> int:
        """The URL is done: its record, its links and its end are one transaction. Returns how many links were new.

        ``links`` are texts as the page has them, resolved against its URL. With an ``error`` the URL has failed; with a
        ``location`` it is a redirect, which is admitted at the same depth."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        # What is no answer is refused here: found later, it would break the transaction off, and with it the frontier.
        if isinstance(links, str):
            raise TypeError("links are an iterable of str, not one str")
        if status is not None and not isinstance(status, int):
            raise TypeError(f"a status is an int, not {type(status).__name__}")
        hrefs = _texts("a link", links)
        _texts("an error", () if error is None else (error,))
        if location is not None:
            hrefs = _texts("a location", (location,))
        outcome = Outcome.FETCHED if location is None else Outcome.REDIRECT
        if error is not None:
            status, outcome = None, Outcome.FAILED
        urls, _ = self._canonicaliser.outlinks(entry.href, hrefs) if hrefs else ([], 0)
        redirect = outcome is Outcome.REDIRECT
        outside: Counter[Outside] = Counter()
        inside = self._boundary.inside(urls, entry.depth + (not redirect), outside, seed=redirect and entry.seed)
        to = urls[0].href if redirect and urls else location
        record = PageRecord(entry, outcome, now, status, error, links=0 if redirect else len(urls), location=to)
        request = RequestOutcome(failure=None if error is None else FailureClass.OTHER)
        new = self.job.finish(inner, Finished(record, request), now, outlinks=inside)
        self._out.discard(inner)
        self._end(now)
        return new

    def put_back(self, lease: UrlLease) -> None:
        """The URL was not asked for: it is its host's next one. Nothing changes on disk."""
        self._check_open()
        inner, _ = self._leased(lease)
        self.job.frontier.release(inner)
        self._out.discard(inner)

    def retry(self, lease: UrlLease, wait: float, *, now: float | None = None) -> None:
        """No answer came: the URL is tried once more, ``wait`` seconds from now or later. A host that does not answer
        again and again is asked more and more seldom, and at last given up."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        again = Again(
            entry._replace(tries=entry.tries + 1),
            _seconds("wait", wait),
            "",
            RequestOutcome(failure=FailureClass.OTHER),
        )
        self.job.retry(inner, again, now)
        self._out.discard(inner)
        self._end(now)

    def throttle(self, lease: UrlLease, retry_after: float | None = None, *, now: float | None = None) -> None:
        """The host said 429 or 503: all of it is held for ``retry_after`` seconds, or longer each time where it named
        none, and the URL then goes again."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        held = None if retry_after is None else _seconds("retry_after", retry_after)
        request = RequestOutcome(failure=FailureClass.THROTTLED, retry_after=held)
        self.job.throttle(inner, Throttled(entry._replace(throttled=entry.throttled + 1), None, request), now)
        self._out.discard(inner)
        self._end(now)

    # -- what it holds -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """URLs that were admitted and are not finished, those that are out among them."""
        return self.job.counters.pending

    def __bool__(self) -> bool:
        """A frontier is always true, also where it is empty."""
        return True

    def __contains__(self, url: object) -> bool:
        """Whether a URL was ever admitted, as the seen-set knows it."""
        if not isinstance(url, str):
            raise TypeError(f"a URL is a str, not {type(url).__name__}")
        known = self._canonicaliser.canonicalise(url)
        return isinstance(known, Canonical) and self.job.seen.contains_many([known.key])[0]

    # -- durability --------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make all that was done durable: a loss of power takes none of it back. Raises OSError."""
        drive(self.job.checkpointer.sync())

    def checkpoint(self, now: float | None = None, *, whole: bool = False) -> CheckpointResult:
        """Write a generation of the seen-set, so that less of the journal is read when the frontier is opened again. It
        is done by itself every ``checkpoint_interval`` seconds, and in ``close``. Raises OSError."""
        return drive(self.job.checkpointer.checkpoint(self._clock() if now is None else now, whole=whole))

    def close(self) -> None:
        """Make all of it durable and release the directory. Leases that are out are queued when it is next opened."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.job.writer.whole:
                self.checkpoint(whole=True)
                self.sync()
        finally:
            self.job.close()

    def __enter__(self) -> DurableFrontier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the frontier in {self.job.directory} is closed")

    def _begin(self, now: float | None) -> float:
        self._check_open()
        if now is not None:
            now = _seconds("now", now)
        if not self.job.writer.write_again():
            # What was done before is kept in memory, and written first as soon as there is room.
            raise OSError(errno.ENOSPC, f"{self.job.blocked}: nothing is lost, make room and call again")
        return self._clock() if now is None else now

    def _end(self, now: float) -> None:
        if self.job.blocked is None and now >= self._next_sync:
            self.sync()
            self._next_sync = now + self._durability.sync_interval
            if now >= self._next_checkpoint:
                self.checkpoint(now)
                self._next_checkpoint = now + self._durability.checkpoint_interval

    def _leased(self, lease: UrlLease) -> tuple[Lease, Any]:
        if lease.inner not in self._out:
            raise ValueError(f"{lease.url} is not out: it was finished or put back, or another frontier gave it")
        return lease.inner, lease.inner.entry


def _texts(what: str, values: Iterable[str]) -> list[str]:
    texts = [*values]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{what} is a str, not {type(text).__name__}")
    return texts


def _seconds(name: str, value: float) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {type(value).__name__}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is a number of seconds, 0 or more, not {value}")
    return value


def _tables(options: Options) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {"crawl": {"scope": "any"}, "robots": {"ignore": True}}
    for name, value in options.items():
        table, key = ("seen", "kind") if name == "seen" else (_TABLES.get(name), name)
        if table is None:
            raise TypeError(f"unknown option {name!r}: one of {', '.join(sorted([*_TABLES, 'seen']))}")
        if name == "host_key" and value == "address":
            raise ValueError('host_key="address" needs a resolver: leave it to a crawl')
        tables.setdefault(table, {})[key] = value
    return tables
