"""A durable frontier without a fetcher: a job directory, and a program that fetches for itself.

It gives the frontier, the seen-set and the journal of a crawl, with all their promises, to a program that has its own
way to fetch. Open a directory, add URLs, take a lease, and finish it with the links that were found, or put it back.
Each of these calls is one transaction. When a call has returned, the operating system has all of its changes: if the
program is killed at any moment, it starts again with every URL that was admitted and not finished, including those on
lease. A power loss may undo the changes since the last sync, at most one second.

Two leases on one host never overlap, and the host's gap is kept between them, also across restarts. The caller must
honour robots.txt. The directory is an ordinary job: ``crawler stats``, ``explain``, ``verify`` and ``tail`` work on it.

The frontier is synchronous and starts no threads. One thread at a time may use it.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, Unpack

from msgspec import Struct

from crawler.base.clock import SteadyClock
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import CLASSES
from crawler.frontier.lease import Lease, Retry
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.job.checkpointer import CheckpointResult, drive
from crawler.job.crawl_file import check_whole
from crawler.job.found import Found, Outlinks, candidates_of
from crawler.job.identity import check_shape, over_shape, shaping_of
from crawler.job.inbox import Answer, is_class
from crawler.job.job import Job
from crawler.job.left_out import OwnRules
from crawler.job.output import lines_of
from crawler.job.output.finished import Choice, select
from crawler.job.platform import Platform
from crawler.job.reclass import Reclassing
from crawler.job.records import Outcome, PageRecord, count_outside
from crawler.job.run_settings import write_run
from crawler.job.verdict import Draft, Throttled
from crawler.url.scope.boundary import Boundary, Outside
from crawler.url.scope.bounds import LeftOut
from crawler.url.scope.patterns import Pattern
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.whatwg import Rejected, has_userinfo

_DOUBTED_SLICE = 512  # URLs looked up in one transaction
_OWN_BATCH = "library"  # its URLs are queued in one transaction
_TABLES = {
    "delay": "politeness",
    "per_host": "politeness",
    "host_key": "politeness",
    "scope": "crawl",
    "order": "crawl",
    "max_depth": "crawl",
    "hops_outside": "crawl",
    "include": "scope",
    "exclude": "scope",
    "fpp": "seen",
    "capacity": "seen",
    "hash": "seen",
    "ledger": "seen",
    "rules": "canonical",
    "sync_interval": "durability",
    "checkpoint_interval": "durability",
}


class Options(TypedDict, total=False):
    """Settings of a frontier, with the names and defaults of the command line and the configuration file; only
    ``scope`` differs: its default is ``"any"``."""

    delay: float  # seconds between the end of one request to a host and the start of the next
    per_host: int  # leases on one host at a time
    host_key: str  # what shares one gap: "host" (a name with all its ports), "origin" or "domain"
    scope: str  # "any", or the "host", "domain" or "prefix" of the URLs that were added
    order: str  # "breadth", "depth" or "score"
    max_depth: int | None
    hops_outside: int  # links in a row that may lead off the scope
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    seen: str  # kind of seen-set
    fpp: float
    capacity: int
    hash: str  # of URLs: "blake2b", with a secret, or "mmh3"
    ledger: bool  # confirm from the disk what the seen-set calls seen
    rules: tuple[str, ...]  # of canonicalisation
    sync_interval: float  # seconds
    checkpoint_interval: float  # seconds


class UrlLease(Struct, frozen=True, eq=False):
    """A URL on lease. It counts against ``per_host`` of its host, and is not handed out again, until it is finished or
    put back, or the program ends. ``tries``: the number of earlier tries."""

    url: str
    depth: int
    via: str | None
    tries: int
    inner: Lease


class DurableFrontier:
    """The frontier in a directory, opened for writing by this process. Close it, or use it as a context manager.

    All times are seconds since 1970. The default of ``now`` is the time of the frontier's clock."""

    def __init__(
        self,
        directory: str | Path,
        *,
        clock: Callable[[], float] | None = None,
        platform: Platform | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Begin a frontier, or resume one. A resumed frontier keeps the options that shaped it (``order``, ``seen``,
        ``fpp``, ``capacity``, ``hash``, ``ledger``, ``rules``); they need not be given again.

        Raises JobError for a directory that cannot be used, or is in use, SettingsError for an invalid option, and
        OSError when the disk fails."""
        directory = Path(directory)
        check_whole(directory)
        settings = settings_from(over_shape(directory, _tables(options)), "Frontier")
        check_shape(directory, shaping_of(settings))
        steady = SteadyClock()
        self._clock = clock or steady
        now = self._clock()
        self.job = Job(directory, settings, now, platform, anchor=None if clock is not None else steady.anchor)
        try:
            write_run(self.job.disk, directory, settings)
            self.job.lift(OwnRules.of(settings, self.job.store))
        except BaseException:
            self.job.close()
            raise
        self._canonicaliser = Canonicaliser(settings.canonical.rules)
        self._boundary = Boundary(self.job.scope, settings)
        self._durability = settings.durability
        self._next_sync = now + settings.durability.sync_interval
        self._next_checkpoint = now + settings.durability.checkpoint_interval
        self._out: set[Lease] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Frontier {self.job.directory}>"

    # -- URLs come in ------------------------------------------------------------------------------------------

    def add(self, urls: str | Iterable[str], *, exact: bool = True, now: float | None = None) -> Answer:
        """Admit the new URLs. They are seeds: they widen the scope, unless it is ``"any"``.

        None is lost to a false positive of the seen-set: what it calls seen is looked up in the ledger. Without one,
        the journal is searched, as ``crawler add`` does. All of it is read, once for each call; ``exact=False`` saves
        that."""
        now = self._begin(now)
        found: list[Canonical] = []
        rejected: list[tuple[str, str]] = []
        dropped = 0
        for text in [urls] if isinstance(urls, str) else _texts("a URL", urls):
            url = self._canonicaliser.canonicalise(text)
            if isinstance(url, Rejected):
                rejected.append((text, url.reason))
            else:
                found.append(url)
                dropped += has_userinfo(text)
        for url in found:
            self.job.widen(url.href)
        inside = self._boundary.inside(found, 0, {}, seed=True)
        known = self.job.called_seen(inside) if exact else []
        new = self.job.admit(Found(inside, 0, seed=True))
        if known:
            new += self.job.admit_missed(Found(known, 0, seed=True), self.job.search(known))
        new += self._look_up(now)
        self._end(now)
        return Answer(new, len(inside) - new, len(found) - len(inside), tuple(rejected), dropped)

    def visit_again(
        self,
        urls: Iterable[str] = (),
        *,
        failed: bool = False,
        excluded: str | None = None,
        host: str | None = None,
        priority: int | None = None,
        now: float | None = None,
    ) -> int:
        """Queue finished URLs once more, as ``crawler retry`` does: those named in ``urls``, those that ``failed`` or
        that a rule ``excluded``, those of a ``host``; with several, those that fit all. With a ``priority``, from 0 to
        7, they go first in that class. Returns how many were queued; those that are pending are not. Raises ValueError
        if nothing is given."""
        now = self._begin(now)
        known = [self._canonicaliser.canonicalise(text) for text in _texts("a URL", urls)]
        hrefs = frozenset(url.href if isinstance(url, Canonical) else "" for url in known)
        choice = Choice(failed, excluded, host, hrefs)
        if choice.is_empty:
            raise ValueError("name what to visit again: urls, failed, excluded or host")
        output, returning = self.job.files.output, self.job.returning
        chosen = select(lambda: (line for _, line in lines_of(output.path, output.end)), choice)
        pasts = [past for past in chosen if past is not None]
        pending = {href for found in returning.pending(pasts) for href in found}
        queued = self.job.put_back(_OWN_BATCH, pasts, len(pasts), pending, _class(priority))
        self._end(now)
        return queued

    def set_priority(self, pattern: str, priority: int, *, now: float | None = None) -> int:
        """Give pending URLs that match a pattern the class ``priority``, as ``crawler priority`` does; those on lease
        keep theirs. Returns how many changed. Raises PatternError for a pattern that no URL can match, ValueError for
        any other class than 0 to 7."""
        now = self._begin(now)
        chosen, reclassing = Pattern(pattern), Reclassing(self.job.store, self.job.frontier)
        given = _class(priority)
        assert given is not None
        self.job.change_hosts(partial(reclassing.forget, _OWN_BATCH))
        while self.job.change_hosts(partial(reclassing.step, _OWN_BATCH, chosen, given)):
            pass
        moved = reclassing.moved(_OWN_BATCH)
        self.job.change_hosts(partial(reclassing.forget, _OWN_BATCH))
        self._end(now)
        return moved

    # -- leases ------------------------------------------------------------------------------------------------

    def take(self, now: float | None = None) -> UrlLease | None:
        """A lease on the URL whose turn it is; None while no host may be asked."""
        now = self._begin(now)
        self._reach_out()
        while (lease := self._lease(now)) is not None or self._reach_out():
            if lease is None:
                continue
            entry = lease.entry
            if entry is None:
                raise RuntimeError("the frontier wants robots.txt or an address: it was opened with other settings")
            if lease.closed is None:
                self._out.add(lease)
                return UrlLease(entry.href, entry.depth, entry.via, entry.tries, lease)
            # Requests to its host have stopped: the URL ends here.
            outcome = Outcome.FAILED if lease.closed.failed else Outcome.EXCLUDED
            record = PageRecord(entry, outcome, now, error=lease.closed.error, refusal=lease.closed.refusal)
            self.job.finish(lease, Draft(record, requested=False), now)
            self._end(now)
        return None

    def _reach_out(self) -> bool:
        """Queue some of what lifted limits left out. Returns whether there were any left to look at."""
        if not self.job.left_out.left or not self.job.writer.whole:
            return False
        self.job.change_hosts(self.job.left_out.step)
        return True

    def _lease(self, now: float) -> Lease | None:
        frontier = self.job.frontier
        while (lease := frontier.take(now)) is None:
            ready = frontier.next_ready()
            if ready is None or ready > now:
                return None
            # One call looks at some hosts only, and there are more whose time has come.
        return lease

    def wait(self) -> UrlLease | None:
        """Sleep until a host may be asked, and take its URL. Returns None if waiting cannot help: no URL is queued, or
        all queued URLs wait for the end of leases."""
        while (lease := self.take()) is None:
            ready = self.next_ready()
            if ready is None:
                return None
            time.sleep(max(0.0, ready - self._clock()))
        return lease

    def __iter__(self) -> Iterator[UrlLease]:
        """Take every URL in its turn, until none is left. Finish each or put it back before the next one: otherwise its
        host gets no further turn."""
        while (lease := self.wait()) is not None:
            yield lease

    def next_ready(self) -> float | None:
        """The time at which ``take`` will next give a lease if nothing else happens; None: never."""
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
        """End a lease on a URL that is done: its record, its links and its end are one transaction. Returns how many
        links were new.

        ``links`` are the texts in the page; they are resolved against its URL. With an ``error`` the URL has failed.
        With a ``location`` it is a redirect, whose target is admitted at the same depth. Raises TypeError for an
        argument of the wrong type, ValueError for a lease that has ended, and OSError when the disk is full or
        fails."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        # Refuse wrong arguments before the transaction begins: an error inside it would end the frontier.
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
        outside: dict[Outside, int] = {}
        depth, reach = entry.depth + (not redirect), self._boundary.reach(entry.href, entry.reach)
        reach.page -= bool(redirect and reach.page)
        inside = self._boundary.inside(urls, depth, outside, seed=redirect and entry.seed, reach=reach)
        to = urls[0].href if redirect and urls else location
        record = PageRecord(entry, outcome, now, status, error, links=0 if redirect else len(urls), location=to)
        request = RequestOutcome(failure=None if error is None else FailureClass.OTHER)
        for reason, number in outside.items():
            count_outside(self.job.counters, reason, number)
        left = LeftOut.of(outside, depth) if error is None else None
        draft = Draft(record, request, left=left, links=Outlinks(len(urls), inside, candidates=candidates_of(reach.of)))
        new = self.job.finish(inner, draft, now)
        self._out.discard(inner)
        new += self._look_up(now)
        self._end(now)
        return new

    def put_back(self, lease: UrlLease) -> None:
        """Hand back a URL that was not requested. It becomes its host's next one. Nothing changes on disk."""
        self._check_open()
        inner, _ = self._leased(lease)
        self.job.frontier.release(inner)
        self._out.discard(inner)

    def retry(self, lease: UrlLease, wait: float, *, now: float | None = None) -> None:
        """Try the URL again, at least ``wait`` seconds from now: the host did not answer. After repeated failures the
        host is asked less and less often, and is finally retired."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        request = RequestOutcome(failure=FailureClass.OTHER)
        again = Retry(entry._replace(tries=entry.tries + 1), _seconds("wait", wait), request)
        self.job.retry(inner, again, now)
        self._out.discard(inner)
        self._end(now)

    def throttle(self, lease: UrlLease, retry_after: float | None = None, *, now: float | None = None) -> None:
        """Hold the whole host, which answered 429 or 503, for ``retry_after`` seconds; without a time, for longer after
        each such answer. Then try the URL again."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        held = None if retry_after is None else _seconds("retry_after", retry_after)
        request = RequestOutcome(failure=FailureClass.THROTTLED, retry_after=held)
        self.job.throttle(inner, Throttled(entry._replace(throttled=entry.throttled + 1), None, request), now)
        self._out.discard(inner)
        self._end(now)

    # -- what it holds -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of URLs that were admitted and are not finished, including those on lease."""
        return self.job.counters.pending

    def __bool__(self) -> bool:
        """A frontier is always true, even when it is empty."""
        return True

    def __contains__(self, url: object) -> bool:
        """Whether a URL was ever admitted, according to the seen-set."""
        if not isinstance(url, str):
            raise TypeError(f"a URL is a str, not {type(url).__name__}")
        known = self._canonicaliser.canonicalise(url)
        return isinstance(known, Canonical) and self.job.seen.contains_many([known.key])[0]

    # -- durability --------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make all changes so far durable, so that a power loss cannot undo them. Raises OSError."""
        drive(self.job.checkpointer.sync())

    def checkpoint(self, now: float | None = None, *, whole: bool = False) -> CheckpointResult:
        """Write a generation of the seen-set, so that the next start reads less of the journal. This happens
        automatically every ``checkpoint_interval`` seconds, and in ``close``. Raises OSError."""
        return drive(self.job.checkpointer.checkpoint(self._clock() if now is None else now, whole=whole))

    def close(self) -> None:
        """Make all changes durable and release the directory. URLs on lease are queued when it is next opened."""
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
            # The unwritten transaction is kept in memory, and is written first as soon as there is space.
            raise OSError(errno.ENOSPC, f"{self.job.blocked}: nothing is lost; make room and call again")
        now = self._clock() if now is None else now
        self._look_up(now)  # what a crawl, or a program that was killed, left undecided
        return now

    def _look_up(self, now: float) -> int:
        """Decide at once about what the seen-set calls seen. Returns how many URLs were new after all."""
        before = self.job.counters.urls_admitted
        while self.job.doubted and self.job.decide(_DOUBTED_SLICE, now).looked_up:
            pass
        return self.job.counters.urls_admitted - before

    def _end(self, now: float) -> None:
        if self.job.blocked is None and now >= self._next_sync:
            self.sync()
            self._next_sync = now + self._durability.sync_interval
            if now >= self._next_checkpoint:
                self.checkpoint(now)
                self._next_checkpoint = now + self._durability.checkpoint_interval

    def _leased(self, lease: UrlLease) -> tuple[Lease, Any]:
        if lease.inner not in self._out:
            raise ValueError(f"{lease.url} is not on lease: finished, put back, or of another frontier")
        return lease.inner, lease.inner.entry


def _texts(what: str, values: Iterable[str]) -> list[str]:
    texts = [*values]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{what} is a str, not {type(text).__name__}")
    return texts


def _class(priority: int | None) -> int | None:
    if priority is not None and not is_class(priority):
        raise ValueError(f"a class is a whole number from 0 to {CLASSES - 1}, not {priority!r}")
    return priority


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
            raise ValueError('host_key="address" needs a resolver, which only a crawl has')
        tables.setdefault(table, {})[key] = value
    return tables
