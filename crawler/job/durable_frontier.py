"""A durable frontier without a fetcher: a job directory for a program that fetches pages itself.

It provides the frontier, the seen-set and the journal of a crawl, with all their guarantees, to a program with its own
fetcher. Open a directory, add URLs, take a lease, and finish it with the links found, or put it back. Each of these
calls is one transaction. When a call has returned, the operating system has all of its changes: if the program is
killed at any moment, it resumes with every URL that was admitted and not finished, including those on lease. A power
loss may undo the changes since the last sync, at most one second.

Two leases on one host never overlap, and the host's gap is kept between them, also across restarts. The caller must
honour robots.txt. The directory is an ordinary job: ``crawler stats``, ``explain``, ``verify`` and ``tail`` work on it.
The frontier is synchronous and starts no threads. Only one thread at a time may use it.
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
from crawler.base.settings.parts import CLASSES, TABLES
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
from crawler.job.records import Outcome, PageRecord, count_outside
from crawler.job.requeue import Reclassing, forget
from crawler.job.run_settings import write_run
from crawler.job.verdict import Draft, Throttled
from crawler.url.scope.boundary import Boundary, Outside
from crawler.url.scope.bounds import LeftOut
from crawler.url.scope.patterns import Pattern
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.whatwg import Rejected, has_userinfo

_DOUBTED_SLICE = 512  # URLs looked up in one transaction
_OWN_BATCH = "library"  # batch name for calls of this class, which queue all URLs of a call in one transaction


class Options(TypedDict, total=False):
    """Settings of a frontier, with the names and defaults of the command line and the configuration file, except that
    ``scope`` defaults to ``"any"``."""

    delay: float  # seconds between the end of one request to a host and the start of the next
    per_host: int  # leases on one host at the same time
    host_key: str  # hosts that share one gap: "host" (a name with all its ports), "origin" or "domain"
    scope: str  # "any", or the "host", "domain" or "prefix" of the added URLs
    order: str  # "breadth", "depth" or "score"
    max_depth: int | None
    hops_outside: int  # links in a row that may lead out of scope
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    seen: str  # kind of seen-set
    fpp: float
    capacity: int
    hash: str  # hash of URLs: "blake2b", with a secret, or "mmh3"
    ledger: bool  # check on disk the URLs that the seen-set reports as seen
    rules: tuple[str, ...]  # rules of canonicalisation
    sync_interval: float  # seconds
    checkpoint_interval: float  # seconds


_TABLES = {
    key: table
    for table in ("politeness", "crawl", "scope", "seen", "canonical", "durability")
    for key in TABLES[table].__struct_fields__
    if key in Options.__annotations__
}


class UrlLease(Struct, frozen=True, eq=False):
    """A URL on lease. It counts against ``per_host`` of its host, and is not handed out again, until it is finished or
    put back, or the program ends. ``tries``: the number of earlier tries."""

    url: str
    depth: int
    via: str | None
    tries: int
    inner: Lease

    def __repr__(self) -> str:
        return f"<Lease {self.url}>"


class DurableFrontier:
    """A frontier in a directory, opened for writing by this process. Close it, or use it as a context manager.

    All times are seconds since 1970. ``now`` defaults to the time of the frontier's clock."""

    def __init__(
        self,
        directory: str | Path,
        *,
        clock: Callable[[], float] | None = None,
        platform: Platform | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Create a frontier, or resume one. A resumed frontier keeps the options that shaped it (``order``, ``seen``,
        ``fpp``, ``capacity``, ``hash``, ``ledger``, ``rules``); they need not be given again.

        Raises JobError for a directory that cannot be used, or is in use, SettingsError for an invalid option, and
        OSError if the disk fails."""
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

    # -- adding URLs ---------------------------------------------------------------------------------------------

    def add(self, urls: str | Iterable[str], *, exact: bool = True, now: float | None = None) -> Answer:
        """Admit the new URLs. They count as seeds, so they widen the scope unless it is ``"any"``.

        No URL is lost to a false positive of the seen-set: URLs that it reports as seen are looked up in the ledger.
        Without a ledger, the whole journal is read once per call, as in ``crawler add``; ``exact=False`` skips this."""
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
        """Requeue finished URLs, as ``crawler retry`` does: those in ``urls``, those that ``failed`` or that a rule
        ``excluded``, those of a ``host``; if several are given, those that match all.

        With a ``priority``, from 0 to 7, they are queued first in that class. Returns the number queued, without URLs
        that are already pending. Raises ValueError if no criterion is given."""
        now = self._begin(now)
        known = [self._canonicaliser.canonicalise(text) for text in _texts("a URL", urls)]
        hrefs = frozenset(url.href if isinstance(url, Canonical) else "" for url in known)
        choice = Choice(failed, excluded, host, hrefs)
        if choice.is_empty:
            raise ValueError("give at least one of urls, failed, excluded and host")
        output, returning = self.job.files.outputs.pages, self.job.returning
        chosen = select(lambda: (line for _, line in lines_of(output.path, output.end)), choice)
        pasts = [past for past in chosen if past is not None]
        pending = {href for found in returning.pending(pasts) for href in found}
        queued = self.job.put_back(_OWN_BATCH, pasts, len(pasts), pending, _class(priority))
        self._end(now)
        return queued

    def set_priority(self, pattern: str, priority: int, *, now: float | None = None) -> int:
        """Move pending URLs that match a pattern to the class ``priority``, as ``crawler priority`` does; URLs on lease
        keep their class.

        Returns the number moved. Raises PatternError for a pattern that no URL can match, ValueError for a class other
        than 0 to 7."""
        now = self._begin(now)
        chosen, reclassing = Pattern(pattern), Reclassing(self.job.store, self.job.frontier)
        given = _class(priority)
        assert given is not None
        self.job.change_hosts(partial(forget, _OWN_BATCH))
        while self.job.change_hosts(partial(reclassing.step, _OWN_BATCH, chosen, given)):
            pass
        moved = reclassing.moved(_OWN_BATCH)
        self.job.change_hosts(partial(forget, _OWN_BATCH))
        self._end(now)
        return moved

    # -- leases ------------------------------------------------------------------------------------------------

    def take(self, now: float | None = None) -> UrlLease | None:
        """Return a lease on the next URL; None while no host may be requested."""
        now = self._begin(now)
        self._reach_out()
        while (lease := self._lease(now)) is not None or self._reach_out():
            if lease is None:
                continue
            entry = lease.entry
            if entry is None:
                raise RuntimeError(
                    "the frontier asks for robots.txt or a DNS lookup: its settings are not those of a DurableFrontier"
                )
            if lease.closed is None:
                self._out.add(lease)
                return UrlLease(entry.href, entry.depth, entry.via, entry.tries, lease)
            # The URL's host was closed: finish the URL without a request.
            outcome = Outcome.FAILED if lease.closed.failed else Outcome.EXCLUDED
            record = PageRecord(entry, outcome, now, error=lease.closed.error, refusal=lease.closed.refusal)
            self.job.finish(lease, Draft(record, requested=False), now)
            self._end(now)
        return None

    def _reach_out(self) -> bool:
        """Queue some URLs that were left out because of limits that have been lifted. Returns False if none were left
        to check."""
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
            # One call of ``take`` checks only some of the hosts, and other hosts are ready.
        return lease

    def wait(self) -> UrlLease | None:
        """Sleep until a host may be requested, and return a lease on its URL. Returns None if waiting cannot help: no
        URL is queued, or all queued URLs wait for leases to end."""
        while (lease := self.take()) is None:
            ready = self.next_ready()
            if ready is None:
                return None
            time.sleep(max(0.0, ready - self._clock()))
        return lease

    def __iter__(self) -> Iterator[UrlLease]:
        """Yield a lease on every URL in order, until none is left. Finish or put back each before the next one:
        otherwise its host gets no further leases."""
        while (lease := self.wait()) is not None:
            yield lease

    def next_ready(self) -> float | None:
        """Return the earliest time at which ``take`` will return a lease if nothing else happens; None if it never
        will."""
        return self.job.frontier.next_ready()

    # -- ending leases -------------------------------------------------------------------------------------------

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
        """Finish a URL: its record, its links and the end of its lease are one transaction. Returns the number of new
        links.

        ``links`` are the hrefs in the page, which are resolved against its URL. With an ``error`` the URL has failed.
        With a ``location`` it is a redirect, whose target is admitted at the same depth. Raises TypeError for an
        argument of the wrong type, ValueError for a lease that has ended, and OSError if the disk is full or fails."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        # Refuse wrong arguments before the transaction starts: an error inside it would make the frontier unusable.
        if isinstance(links, str):
            raise TypeError("links must be an iterable of str, not a str")
        if status is not None and not isinstance(status, int):
            raise TypeError(f"a status must be an int, not {type(status).__name__}")
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
        """Put back a URL that was not requested: it becomes the next URL of its host. Nothing changes on disk."""
        self._check_open()
        inner, _ = self._leased(lease)
        self.job.frontier.release(inner)
        self._out.discard(inner)

    def retry(self, lease: UrlLease, wait: float, *, now: float | None = None) -> None:
        """Retry the URL after at least ``wait`` seconds, because the host did not answer. After repeated failures the
        host is requested less and less often, and is finally retired."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        request = RequestOutcome(failure=FailureClass.OTHER)
        again = Retry(entry._replace(tries=entry.tries + 1), _seconds("wait", wait), request)
        self.job.retry(inner, again, now)
        self._out.discard(inner)
        self._end(now)

    def throttle(self, lease: UrlLease, retry_after: float | None = None, *, now: float | None = None) -> None:
        """Hold the whole host, which answered 429 or 503, for ``retry_after`` seconds, then retry the URL. Without
        ``retry_after``, the hold grows with each such response."""
        now = self._begin(now)
        inner, entry = self._leased(lease)
        held = None if retry_after is None else _seconds("retry_after", retry_after)
        request = RequestOutcome(failure=FailureClass.THROTTLED, retry_after=held)
        self.job.throttle(inner, Throttled(entry._replace(throttled=entry.throttled + 1), None, request), now)
        self._out.discard(inner)
        self._end(now)

    # -- content -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of URLs that are admitted and not finished, including those on lease."""
        return self.job.counters.pending

    def __bool__(self) -> bool:
        """Always True, even for an empty frontier."""
        return True

    def __contains__(self, url: object) -> bool:
        """True if the URL was ever admitted, according to the seen-set."""
        if not isinstance(url, str):
            raise TypeError(f"a URL must be a str, not {type(url).__name__}")
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
        """Make all changes durable and release the directory. URLs on lease are queued again when the directory is next
        opened."""
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
            raise OSError(errno.ENOSPC, f"{self.job.blocked}: nothing is lost; free some space and call again")
        now = self._clock() if now is None else now
        self._look_up(now)  # URLs left undecided by a crawl, or by a program that was killed
        return now

    def _look_up(self, now: float) -> int:
        """Look up all URLs that the seen-set reported as seen. Returns the number of new ones."""
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
            raise ValueError(f"{lease.url} is not on lease: it was finished or put back, or is from another frontier")
        return lease.inner, lease.inner.entry


def _texts(what: str, values: Iterable[str]) -> list[str]:
    texts = [*values]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    return texts


def _class(priority: int | None) -> int | None:
    if priority is not None and not is_class(priority):
        raise ValueError(f"a priority must be a whole number from 0 to {CLASSES - 1}, not {priority!r}")
    return priority


def _seconds(name: str, value: float) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a number of seconds, 0 or more, not {value}")
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
