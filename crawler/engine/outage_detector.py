"""Distinguishes an outage of our own network from hosts that fail.

A request without an HTTP response does not count against its host at once. The visit waits, without a slot, and nothing
is stored meanwhile, so a crash at any moment leaves no host with a failure.

    a host answers a request that was sent later   the network worked: the failure is its host's
    no other host is asked, or none answers soon   the same
    eight good hosts have failed, or this          the crawl pauses and asks a good host
    machine has no route to any
    that host answers                              the failures are their hosts'
    it does not                                    an outage: all requests that failed since the last answer are retried
                                                   as if they were new; hosts are asked until one answers

A host's failure counts from the moment at which it happened, however long the visit waited. All runs of a worker share
one detector: an answer to one of them settles the doubtful failures of all, and an outage pauses all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any

from msgspec import Struct

from crawler.base.figures import counted, duration
from crawler.base.settings.parts import Settings
from crawler.engine.failing_seeds import FailingSeeds
from crawler.frontier.host import Host
from crawler.frontier.lease import Lease
from crawler.frontier.outage import HOSTS, Failed, OutageJudge
from crawler.job.job import Job
from crawler.job.metrics.events import Kind
from crawler.url.robots.parse import robots_url
from crawler.web.fetch import Failure, FailureKind, Fetches, Response
from crawler.web.fetch.fence import FencedOffError, wait_to_send

log = logging.getLogger("crawler")

PATIENCE = 60.0  # seconds that a failure waits for other failures: by then most requests have timed out
BRIEF = 5.0  # seconds that a failure waits if it is not evidence on its own; less than the shortest back-off
LOOK = 0.25  # seconds between two checks of waiting failures
PROBE_FIRST, PROBE_MOST = 1.0, 30.0  # seconds between two probes; doubled after each
PROBED = 16  # number of hosts that are probed, one after another
_RESPONSES = (FailureKind.MALFORMED, FailureKind.ENCODING, FailureKind.TOO_LARGE, FailureKind.INTERNAL)


class _Waiting(Struct, eq=False):
    """A failure that is not yet attributed; ``ours`` will hold the result. ``counts``: it is evidence that the network
    is down."""

    run: RunOutage
    host: str
    of_url: bool
    at: float
    counts: bool
    ours: asyncio.Future[bool]


class Surroundings(Struct, frozen=True):
    """Callbacks through which the detector affects its worker. ``interrupt`` makes visits stop waiting for the rate
    limit. ``wake`` tells the worker that any run may have URLs to hand out. ``doubt`` makes a visit lend its slot or
    take it back. ``reaches`` returns whether a connection to an href's host can be opened."""

    clock: Callable[[], float]
    interrupt: Callable[[], None]
    wake: Callable[[], None]
    doubt: Callable[[bool], None]
    reaches: Callable[[str], Awaitable[bool]]


class OutageDetector:
    """Decides whether the network of one worker is down."""

    def __init__(self, surroundings: Surroundings, rate: float | None) -> None:
        """``rate``: maximum requests a second; None means no limit."""
        self.surroundings = surroundings
        self.judge = OutageJudge()
        self.paused = False  # True if no URLs are handed out
        self.known_at: float | None = None  # time at which the present outage was noticed; None if there is none
        self.since = 0.0  # time at which the outage started
        self.reason = ""
        self.past = 0, 0.0  # the number of past outages, and their total seconds
        self.runs: dict[RunOutage, None] = {}
        self.waiting: list[_Waiting] = []
        self._between = 0.0 if rate is None else 1 / rate
        self._changed = asyncio.Event()  # set when a failure starts to wait
        self._answered = asyncio.Event()  # set when an answer has settled all doubtful failures
        self._trial: Lease | bool = False  # the lease handed out during an outage; True: one may be handed out now

    @property
    def holds(self) -> bool:
        """True if no URL may be handed out."""
        return self.paused and self._trial is not True

    def taken(self, lease: Lease) -> None:
        """Record that a lease was handed out."""
        if self.paused:
            self._trial = lease

    def bars(self, lease: Lease) -> bool:
        """Return whether a lease that had to wait must not be visited any more."""
        return self.paused and self._trial is not lease

    def heard(self, lease: Lease, href: str) -> None:
        """Record that the leased host gave an HTTP response."""
        if self.judge.answered(lease.host.name, href, lease.taken_at):
            self.settle(lease.taken_at)
        if self.known_at is not None or (self.paused and not self.judge.in_doubt):
            self._answered.set()

    async def is_ours(self, waiting: _Waiting) -> bool:
        """Wait until a failure is attributed, and return whether the network caused it."""
        self.waiting.append(waiting)
        self.surroundings.doubt(True)
        self._changed.set()
        try:
            return await waiting.ours
        finally:
            self.surroundings.doubt(False)
            if waiting in self.waiting:
                self.waiting.remove(waiting)  # the wait was cancelled

    def down(self, now: float) -> float:
        """Return the seconds for which no host is known to have answered; 0 if there is no outage."""
        return 0.0 if self.known_at is None else max(0.001, now - self.known_at)

    async def watch(self) -> None:
        """Attribute failures until cancelled."""
        while True:
            if not self.waiting:
                await self._changed.wait()
            self._changed.clear()
            over = self._over(self.surroundings.clock())
            if self.judge.many or (over is not None and self.judge.local):
                await self._pause()
            elif over is not None:
                self.settle(over)
            if self.waiting:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), LOOK)

    def _over(self, now: float) -> float | None:
        """Return the time up to which failures have waited long enough; None if no failure has waited long enough."""
        if self._is_idle(now):
            return now
        counting = [each.at for each in self.waiting if each.counts]
        until = now - (max(PATIENCE, 2 * HOSTS * self._between) if counting else BRIEF)
        return until if any(at <= until for at in counting or [each.at for each in self.waiting]) else None

    def _is_idle(self, now: float) -> bool:
        """Return whether no other host will be asked for a while, so that no answer can arrive."""
        frontiers = [run.job.frontier for run in self.runs]
        if sum(frontier.leased for frontier in frontiers) > len(self.waiting):
            return False
        return all((at := frontier.next_ready()) is None or at > now + BRIEF for frontier in frontiers)

    def settle(self, until: float | None = None, *, ours: bool = False, of: RunOutage | None = None) -> None:
        """Attribute the failures up to the time ``until`` (None: all failures) to the network (``ours``) or to their
        hosts. ``of``: attribute only the failures of this run."""
        for each in [each for each in self.waiting if of in (None, each.run) and (until is None or each.at <= until)]:
            if not each.ours.done():
                each.ours.set_result(ours)
            self.waiting.remove(each)
            if ours:
                each.run.hosts.add(each.host)
            else:
                self.judge.blame(each.host)

    # -- an outage ---------------------------------------------------------------------------------------------

    async def _pause(self) -> None:
        """Ask hosts until one answers. No URLs are handed out meanwhile."""
        self.paused = True
        self._answered.clear()
        self.surroundings.interrupt()
        answered = None
        for href in list(self.judge.untried())[:PROBED]:
            if (answered := await self._unless_answered(self._probe(href))) is not None:  # the host was asked
                break
        if answered or not self.judge.in_doubt:
            self.settle()
        else:
            self._begin_outage()
            await self._until_answered()
            self._end_outage()
        self.paused = False
        self.judge.forget_failures()
        for run in self.runs:
            run.hosts.clear()
        self.surroundings.wake()

    async def _until_answered(self) -> None:
        least = max(PROBE_FIRST, self._between)
        wait = least
        for number, href in enumerate(chain.from_iterable(self.judge.targets(PROBED) for _ in count())):
            await self._unless_answered(asyncio.sleep(wait))
            if number % 3 == 2 and self.runs:
                # The probed hosts may all be gone for good while others are up: visit the next URL of any host.
                self._trial = True
                self.surroundings.wake()
            elif not self._answered.is_set() and await self._unless_answered(self._probe(href)):
                return
            if self._answered.is_set():
                return
            wait = min(2 * wait, max(PROBE_MOST, least))

    async def _unless_answered(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of the work, or True as soon as a host has answered."""
        task, answered = asyncio.ensure_future(work), asyncio.ensure_future(self._answered.wait())
        try:
            await asyncio.wait({task, answered}, return_when=asyncio.FIRST_COMPLETED)
            if task.cancelled():  # cancelled by its run, which has ended
                return None
            return task.result() if task.done() else True
        finally:
            for each in (task, answered):
                each.cancel()
            await asyncio.wait({task, answered})

    async def _probe(self, href: str) -> bool | None:
        """Ask the host of an href when its turn comes. Return whether it answered; None if it could not be
        asked now."""
        for run in list(self.runs):
            if run.knows(href):
                return await run.ask(href)
        # All runs may have moved to other processes, which ask these hosts now. A connection is enough.
        return None if self.runs else await self.surroundings.reaches(href)

    def _begin_outage(self) -> None:
        self.known_at = now = self.surroundings.clock()
        self.since = self.judge.first or now
        self.past = self.past[0] + 1, self.past[1]
        self.settle(ours=True)
        hosts = counted(sum(len(run.hosts) for run in self.runs), "host")
        log.warning("paused: no host answers (%s; %s); retrying hosts that answered before", hosts,
                    self.reason)  # fmt: skip
        for run in self.runs:
            run.job.events.add(now, Kind.ERROR, f"outage: no host answers ({hosts}; {self.reason})")

    def _end_outage(self) -> None:
        now = self.surroundings.clock()
        lasted = now - self.since
        self.past = self.past[0], self.past[1] + lasted
        self.known_at, self._trial = None, False
        log.warning("a host answers again after %s: the crawl resumes, and no host is blamed", duration(lasted))
        for run in self.runs:
            run.job.events.add(now, Kind.RUN, f"the outage of {duration(lasted)} is over: no host is blamed for it")


class RunOutage:
    """Reports the results of one run to its worker's detector, and sends the detector's probes."""

    def __init__(self, detector: OutageDetector, job: Job, settings: Settings, wake: Callable[[], None]) -> None:
        """``wake``: the run may have URLs to hand out."""
        self.job = job
        self.detector = detector
        self.seeds = FailingSeeds(job, settings)
        self.hosts = set[str]()  # hosts that failed in the present outage
        self.probe: Callable[
            [str], Awaitable[bool | None]
        ]  # sends a request to the host of an href; see ``Borrowing.probe``
        self._before = detector.past[0] - (detector.known_at is not None), detector.past[1]
        self._probes = 0
        self._wake = wake
        self._closed = False
        self._probing: asyncio.Task[Any] | None = None

    async def is_at_fault(self, lease: Lease, href: str, result: Response | Failure, now: float) -> bool:
        """Wait until it is known whether the result of a request that ended at ``now`` is a failure of our own network,
        and return that. If it is, the lease must be taken back, as if its request had not been made."""
        if answers(result):
            self.detector.heard(lease, href)
            return False
        assert isinstance(result, Failure)
        self.seeds.failed(lease, result, now)
        return result.kind.silent and await self._is_ours(lease, href, result, now)

    async def _is_ours(self, lease: Lease, href: str, failure: Failure, now: float) -> bool:
        host, detector = lease.host, self.detector
        # A host that caused its own last failure is not evidence, nor is one that has never answered.
        witness = host.failures.in_a_row == 0 and host.tally.fetched > 0
        counts = detector.judge.failed(host.name, Failed(now, href, failure.address, witness, failure.local))
        if detector.paused:
            self.hosts.add(host.name)
            return True  # the URL is retried, however the pause ends
        if not self._can_tell(host, counts, failure):
            detector.judge.blame(host.name)
            return False
        detector.reason = failure.error
        ours = asyncio.get_running_loop().create_future()
        self._wake()  # frees its place under the page limit for another visit
        return await detector.is_ours(
            _Waiting(self, host.name, lease.entry is not None, now, counts or failure.local, ours)
        )

    def _can_tell(self, host: Host, counts: bool, failure: Failure) -> bool:
        """Return whether the network may have caused a failure. A host that keeps failing is not evidence: its failure
        waits only while a failure that is evidence waits too."""
        detector = self.detector
        if self._closed or failure.local:
            return not self._closed
        if host.failures.in_a_row:
            return any(each.counts for each in detector.waiting)
        hosts = sum(run.job.frontier.hosts for run in detector.runs)
        return (counts or detector.judge.answers > 0) and hosts >= HOSTS

    def close(self) -> None:
        """Attribute the failures of this run at once from now on, because it has stopped handing out URLs."""
        self._closed = True
        self.detector.settle(ours=self.detector.paused, of=self)

    def join(self) -> None:
        """Add the run to the detector when it starts."""
        self.detector.runs[self] = None

    def leave(self) -> None:
        """Remove a run that is over: from now on, its hosts are not probed."""
        self.detector.runs.pop(self, None)
        if self._probing is not None:
            self._probing.cancel()

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that may still be running when the run is over."""
        return [] if self._probing is None else [self._probing]

    @property
    def urls_in_doubt(self) -> int:
        """The number of URL visits that wait for their failure to be attributed. These visits do not become pages."""
        return sum(each.of_url and each.run is self for each in self.detector.waiting)

    @property
    def outage(self) -> str | None:
        """The reason why the crawl is paused; None if there is no outage."""
        detector = self.detector
        if detector.known_at is None:
            return None
        since = datetime.fromtimestamp(detector.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"no host has answered since {since} ({detector.reason})"

    def figures(self, now: float) -> dict[str, Any]:
        """Return the outage statistics of this run."""
        detector, (outages, seconds) = self.detector, self._before
        is_down = detector.known_at is not None
        return {
            "now": is_down,
            "count": detector.past[0] - outages,
            "seconds": detector.past[1] - seconds + (now - detector.since if is_down else 0.0),
            "hosts": len(self.hosts) if is_down else 0,
            "probes": self._probes,
        }

    def knows(self, href: str) -> bool:
        """Return whether the run knows the host of an href."""
        frontier = self.job.frontier
        return frontier.ad_hoc.seen(frontier.queue_of(href), self.detector.surroundings.clock()) is not None

    async def ask(self, href: str) -> bool | None:
        """Ask the host of an href when its turn comes. Return whether it answered; None if it could not be
        asked now."""
        self._probing = asyncio.current_task()
        try:
            answered = await self.probe(href)
            self._probes += answered is not None
            return answered
        finally:
            self._probing = None


async def connects(network: Fetches, href: str) -> bool:
    """Return whether a connection to the host of an href can be opened. No request is sent on it."""

    def fenced_off() -> float:
        raise FencedOffError

    before = wait_to_send.set(fenced_off)
    try:
        await network.fetch(robots_url(href), accept=no_body)
    except FencedOffError:
        return True  # at this point the request would have been sent
    finally:
        wait_to_send.reset(before)
    return False


def answers(result: Response | Failure) -> bool:
    """Return whether an HTTP response arrived, or another result that proves that the network works."""
    return isinstance(result, Response) or result.kind in _RESPONSES


def no_body(_: str | None) -> bool:
    """Reject all content types."""
    return False
