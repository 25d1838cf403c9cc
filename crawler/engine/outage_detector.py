"""Our own line: whether a host that gives no answer failed, or our way to all hosts.

A request without an HTTP response is not held against its host at once. The visit waits, without a slot, until it is
known whose fault it was; nothing is stored meanwhile, so a crash at any moment blames nobody.

    a host answers a request that began later      the line worked: the failure is its host's
    nobody else can tell, or not for long          the same
    eight good hosts have failed, or this          the line is in doubt: the crawl hands out nothing, and a host that
    machine knows no way to any                    was good is asked
    that host answers                              the failures are their hosts'
    it does not                                    an outage: the crawl is paused, all that failed since the last answer
                                                   is taken back, and good hosts are asked in turn until one answers

A host's failure counts from the moment at which it happened, however long the visit waited.

All runs of a worker have one line: a host that answers one of them settles the doubts of all, and an outage pauses all.
Each run has a ``RunOutage`` at it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum, auto
from itertools import chain, count
from typing import Any

from msgspec import Struct, field

from crawler.base.figures import counted, duration
from crawler.base.settings.parts import Settings
from crawler.engine.failing_seeds import FailingSeeds
from crawler.engine.judge import request_outcome
from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import AddressKnown, Lease, SideRequestDone, TakenBack
from crawler.frontier.outage import HOSTS, Failed, OutageJudge, Pace
from crawler.job.job import Job
from crawler.job.metrics.events import Kind
from crawler.url.robots.parse import robots_url
from crawler.web.fetch import Failure, FailureKind, Fetches, Response
from crawler.web.fetch.fence import FencedOffError, may_send

log = logging.getLogger("crawler")

REQUESTS = 16  # in whose usual time one should be answered
PATIENCE = (5.0, 120.0)  # seconds, at least and at most
LOOK = 0.25  # seconds between two looks at failures that wait
PROBE_FIRST, PROBE_MOST = 1.0, 30.0  # seconds between two probes: the time doubles
PROBED = 16  # hosts that are probed in turn
GATE_MOST = 5.0  # seconds that a probe waits for its host's gap; otherwise another host is asked
_RESPONSES = (FailureKind.MALFORMED, FailureKind.ENCODING, FailureKind.TOO_LARGE, FailureKind.INTERNAL)


class State(Enum):
    """The state of the line."""

    UP = auto()
    DOUBTED = auto()
    DOWN = auto()


class _Waiting(Struct, eq=False):
    """A failure whose meaning is not known yet. ``ours`` will be. ``counts``: it may show that our line is down.
    ``of_url``: it is that of a URL, not of a robots.txt or an address. ``end``: of the run that asked."""

    end: RunOutage
    host: str
    of_url: bool
    at: float
    counts: bool
    ours: asyncio.Future[bool]


class Surroundings(Struct, frozen=True):
    """What the line needs of its worker. ``interrupt``: who waits for the rate limit gives up. ``wake``: all runs may
    have something to hand out. ``doubt``: a visit lends its slot, or takes it back. ``reaches``:
    whether a connection to the host of an href can be opened."""

    clock: Callable[[], float]
    rate: Callable[[], Awaitable[None]]
    interrupt: Callable[[], None]
    wake: Callable[[], None]
    doubt: Callable[[bool], None]
    reaches: Callable[[str], Awaitable[bool]]


class _Outages(Struct):
    """What is reported of outages. ``since``, ``known_at`` and ``reason`` are about the present one."""

    number: int = 0
    seconds: float = 0.0  # of those that are over
    since: float | None = None
    known_at: float | None = None  # that there is one
    reason: str = ""


class Report(Struct):
    """What one run reports of them besides. ``before``: outages before the run, and their seconds."""

    before: tuple[int, float]
    probes: int = 0
    hosts: set[str] = field(default_factory=set)  # that failed in the present one


class OutageDetector:
    """Decides whether the line of one worker is down."""

    def __init__(self, surroundings: Surroundings, rate: float | None) -> None:
        """``rate``: requests a second at most; None: there is no limit."""
        self.state = State.UP
        self.surroundings = surroundings
        self.judge = OutageJudge()
        self.pace = Pace(REQUESTS, *PATIENCE, rate)
        self.report = _Outages()
        self._probe_least = PROBE_FIRST if rate is None else max(PROBE_FIRST, 1 / rate)
        self.ends: dict[RunOutage, None] = {}  # of the runs
        self.waiting: list[_Waiting] = []
        self._changed = asyncio.Event()  # a failure waits
        self._heard = asyncio.Event()  # a host answered, so that nothing is in doubt any more
        self._scout: Lease | bool = False  # a lease that is handed out in an outage; True: the next one may be

    # -- what its ends tell ------------------------------------------------------------------------------------

    @property
    def holds(self) -> bool:
        """Whether no URL may be handed out."""
        return self.state is not State.UP and self._scout is not True

    def taken(self, lease: Lease) -> None:
        """A lease was handed out."""
        if self.state is not State.UP:
            self._scout = lease

    def bars(self, lease: Lease) -> bool:
        """Whether a lease that had to wait may no longer be visited."""
        return self.state is not State.UP and self._scout is not lease

    def heard(self, lease: Lease, href: str, now: float) -> None:
        """The leased host gave an HTTP response."""
        self.pace.ended(now)
        if self.judge.answered(lease.host.name, href, lease.taken_at):
            self.settle(lease.taken_at)
        if self.state is State.DOWN or (self.state is State.DOUBTED and not self._in_doubt()):
            self._heard.set()

    async def is_ours(self, waiting: _Waiting) -> bool:
        """Return whether a failure was the line's, as soon as that is known."""
        self.waiting.append(waiting)
        self.surroundings.doubt(True)
        self._changed.set()
        try:
            return await waiting.ours
        finally:
            self.surroundings.doubt(False)
            if waiting in self.waiting:
                self.waiting.remove(waiting)  # cancelled

    def down(self, now: float) -> float:
        """For how many seconds it has been known that no host answers; 0 if one does."""
        known_at = self.report.known_at
        return 0.0 if known_at is None else max(0.001, now - known_at)

    # -- beside the visits -------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Decide about failures until cancelled."""
        while True:
            if not self.waiting:
                await self._changed.wait()
            self._changed.clear()
            over = self._over(self.surroundings.clock())
            if self.judge.many or (over is not None and self.judge.local):
                await self._doubt()
            elif over is not None:
                self.settle(over)
            if self.waiting:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), LOOK)

    def _over(self, now: float) -> float | None:
        """Return the time up to which failures have waited long enough; None if there are none."""
        if self._is_idle(now):
            return now
        # Failures that cannot show anything wait only for others that can, and less than the shortest back-off.
        counting = [each.at for each in self.waiting if each.counts]
        until = now - (self.pace.patience if counting else PATIENCE[0])
        return until if any(at <= until for at in counting or [each.at for each in self.waiting]) else None

    def _is_idle(self, now: float) -> bool:
        """Return whether no other host will be asked for a while, so that nobody else can tell."""
        frontiers = [end.job.frontier for end in self.ends]
        if sum(frontier.leased for frontier in frontiers) > len(self.waiting):
            return False
        ready = (frontier.next_ready() for frontier in frontiers)
        return all(at is None or at > now + PATIENCE[0] for at in ready)

    def _in_doubt(self) -> bool:
        return self.judge.many or self.judge.local

    def settle(self, until: float | None = None, of: RunOutage | None = None) -> None:
        """Hold failures until that time, or all, against their hosts; ``of``: only those of one run."""
        for each in self._decide(False, of, until):
            self.judge.blame(each.host)

    def take_back(self, of: RunOutage | None = None) -> None:
        """The failures were the line's, or those ``of`` one run."""
        for each in self._decide(True, of):
            each.end.report.hosts.add(each.host)

    def _decide(self, ours: bool, of: RunOutage | None, until: float | None = None) -> list[_Waiting]:
        """Tell failures whose fault they were, and return them: they wait no more."""
        decided = [each for each in self.waiting if of in (None, each.end) and (until is None or each.at <= until)]
        for each in decided:
            if not each.ours.done():
                each.ours.set_result(ours)
        self.waiting = [each for each in self.waiting if not each.ours.done()]
        return decided

    # -- an outage ---------------------------------------------------------------------------------------------

    async def _doubt(self) -> None:
        """Ask hosts until one answers. Nothing is handed out meanwhile."""
        self.state = State.DOUBTED
        self._heard.clear()
        self.surroundings.interrupt()
        for href in list(self.judge.untried())[:PROBED]:
            answered = await self._unless_heard(self._probe(href))
            if answered is not None:  # it was asked
                break
        else:
            answered = False
        if answered or not self._in_doubt():
            self.settle()
        else:
            self._begin_outage()
            await self._until_answered()
            self._end_outage()
        self.state = State.UP
        self.judge.forget_failures()
        self.surroundings.wake()

    async def _until_answered(self) -> None:
        wait = self._probe_least
        targets = chain.from_iterable(self.judge.targets(PROBED) for _ in count())
        for number, href in enumerate(targets):
            await self._unless_heard(asyncio.sleep(wait))
            if self._heard.is_set():
                return
            if number % 3 == 2 and self.ends:
                # Perhaps all these hosts are gone for good, and others are not: visit whatever URL is next.
                self._scout = True
                self.surroundings.wake()
            elif await self._unless_heard(self._probe(href)):
                return
            wait = min(2 * wait, max(PROBE_MOST, self._probe_least))

    async def _unless_heard(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of the work, or True as soon as a host has answered."""
        task, heard = asyncio.ensure_future(work), asyncio.ensure_future(self._heard.wait())
        try:
            await asyncio.wait({task, heard}, return_when=asyncio.FIRST_COMPLETED)
            if task.cancelled():  # by its run, which is over
                return None
            return task.result() if task.done() else True
        finally:
            for each in (task, heard):
                each.cancel()
            await asyncio.wait({task, heard})

    async def _probe(self, href: str) -> bool | None:
        """Ask the host of an href in its turn. Return whether it answered; None if it could not be asked now."""
        for end in list(self.ends):
            if end.knows(href):
                return await end.probe(href)
        # All runs may have gone on in other processes, which ask these hosts now: that one can be reached must do.
        return None if self.ends else await self.surroundings.reaches(href)

    def _begin_outage(self) -> None:
        now, report = self.surroundings.clock(), self.report
        self.state = State.DOWN
        report.number += 1
        report.since, report.known_at = self.judge.first or now, now
        self.take_back()
        hosts = counted(sum(len(end.report.hosts) for end in self.ends), "host")
        log.warning("paused: no host answers (%s; %s): hosts that answered before are asked until one does", hosts,
                    report.reason)  # fmt: skip
        for end in self.ends:
            end.job.events.add(now, Kind.ERROR, f"outage: no host answers ({hosts}; {report.reason})")

    def _end_outage(self) -> None:
        now, report = self.surroundings.clock(), self.report
        lasted = now - (report.since or now)
        report.seconds += lasted
        report.since = report.known_at = None
        self._scout = False
        log.warning("a host answers again after %s: the crawl resumes, and no host is blamed", duration(lasted))
        for end in self.ends:
            end.report.hosts.clear()
            end.job.events.add(now, Kind.RUN, f"the outage of {duration(lasted)} is over: no host is blamed for it")


class RunOutage:
    """What one run reports to the detector of its worker, and what it asks of it."""

    def __init__(
        self, line: OutageDetector, job: Job, fetcher: Fetches, settings: Settings, wake: Callable[[], None]
    ) -> None:
        """``wake``: the run may have something to hand out."""
        self.job = job
        self.report = Report((line.report.number - (line.state is State.DOWN), line.report.seconds))
        self.detector = line
        self._fetcher = fetcher
        self.seeds = FailingSeeds(job, settings)
        self._wake = wake
        self._closed = False
        self._probing: asyncio.Task[Any] | None = None

    # -- what visits tell --------------------------------------------------------------------------------------

    async def is_at_fault(self, lease: Lease, href: str, result: Response | Failure, now: float) -> bool:
        """Return whether the result of a request that ended at ``now`` is a failure of our own line, as soon as that is
        known. The lease must then be taken back, as if its request had not been made."""
        if isinstance(result, Response) or _is_response(result):
            self.detector.heard(lease, href, now)
            return False
        self.seeds.failed(lease, result, now)
        return result.kind.silent and await self._is_ours(lease, href, result, now)

    async def _is_ours(self, lease: Lease, href: str, failure: Failure, now: float) -> bool:
        host, line = lease.host, self.detector
        judge = line.judge
        line.pace.ended(now)
        # A host whose last failure was its own is no witness, nor is one that has never answered.
        witness = host.failures.in_a_row == 0 and host.tally.fetched > 0
        judge.failed(host.name, Failed(now, href, failure.address, witness, failure.local))
        if line.state is State.DOWN:
            self.report.hosts.add(host.name)
            return True
        if not self._can_tell(host, witness, failure):
            judge.blame(host.name)
            return False
        line.report.reason = failure.error
        counts = witness or failure.local or judge.is_witness(host.name)
        ours = asyncio.get_running_loop().create_future()
        self._wake()  # it leaves its place among the last pages of a limit to others
        return await line.is_ours(_Waiting(self, host.name, lease.entry is not None, now, counts, ours))

    def _can_tell(self, host: Host, witness: bool, failure: Failure) -> bool:
        """Return whether it can become known that a failure is not its host's. A host that keeps failing shows nothing:
        its failure waits only if one that does is waiting."""
        line = self.detector
        if self._closed:
            return False
        if failure.local or line.state is State.DOUBTED:
            return True
        if host.failures.in_a_row:
            return any(each.counts for each in line.waiting)
        return (witness or line.judge.answers > 0) and sum(end.job.frontier.hosts for end in line.ends) >= HOSTS

    def close(self) -> None:
        """The run stops handing out URLs: decide at once about its failures, also about those to come."""
        self._closed = True
        if self.detector.state is State.UP:
            self.detector.settle(of=self)
        else:
            self.detector.take_back(self)

    def join(self) -> None:
        """The run begins."""
        self.detector.ends[self] = None

    def leave(self) -> None:
        """The run is over: none of its hosts is asked any more."""
        self.detector.ends.pop(self, None)
        if self._probing is not None:
            self._probing.cancel()

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """What may still be under way when the run is over."""
        return [] if self._probing is None else [self._probing]

    @property
    def urls_in_doubt(self) -> int:
        """How many visits of URLs wait to learn whose fault their failure was: none of them becomes a page."""
        return sum(each.of_url and each.end is self for each in self.detector.waiting)

    # -- what is reported --------------------------------------------------------------------------------------

    @property
    def outage(self) -> str | None:
        """Why the crawl is paused; None if there is no outage."""
        report = self.detector.report
        if self.detector.state is not State.DOWN or report.since is None:
            return None
        since = datetime.fromtimestamp(report.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"no host answers since {since} ({report.reason})"

    def figures(self, now: float) -> dict[str, Any]:
        """Return the statistics of outages in this run."""
        report, is_down = self.detector.report, self.detector.state is State.DOWN
        lasts = now - report.since if is_down and report.since is not None else 0.0
        outages, seconds = self.report.before
        return {
            "now": is_down,
            "count": report.number - outages,
            "seconds": report.seconds - seconds + lasts,
            "hosts": len(self.report.hosts) if is_down else 0,
            "probes": self.report.probes,
        }

    # -- probes ------------------------------------------------------------------------------------------------

    def knows(self, href: str) -> bool:
        """Whether the run has met the host of an href."""
        frontier = self.job.frontier
        return frontier.snapshot(frontier.queue_of(href), self.detector.surroundings.clock()) is not None

    async def probe(self, href: str) -> bool | None:
        """Ask the host of an href for its robots.txt, in its turn. Return whether it answered; None if it could not be
        asked now."""
        self._probing = asyncio.current_task()
        try:
            return await self._probe(href)
        finally:
            self._probing = None

    async def _probe(self, href: str) -> bool | None:
        job, clock, name = self.job, self.detector.surroundings.clock, self.job.frontier.queue_of(href)
        ad_hoc = job.frontier.ad_hoc
        await job.room()
        lease = job.change_hosts(lambda batch: ad_hoc.borrow(name, clock(), batch))
        if lease is None or isinstance(lease, HostClosed):
            return None
        asked = False
        try:
            until = clock() + GATE_MOST
            if ad_hoc.wants_address(lease):
                return await self._probe_address(lease, href)
            while (at := ad_hoc.enter(lease, clock())) > clock():
                if at > until:
                    ad_hoc.forgo(lease)
                    return None
                await asyncio.sleep(at - clock())
            await self.detector.surroundings.rate()
            self.report.probes += 1
            asked = True
            answer = await self._fetcher.fetch(robots_url(href), accept=_nothing)
            await job.room()
        except FencedOffError:
            ad_hoc.forgo(lease)
            return None
        except asyncio.CancelledError:
            if asked:
                ad_hoc.hang_up(lease, clock())
            else:
                ad_hoc.forgo(lease)
            raise
        return self._probed(lease, href, answer)

    async def _probe_address(self, lease: Lease, href: str) -> bool | None:
        """Find the address of the host first, for politeness by address."""
        frontier = self.job.frontier
        found = await self._fetcher.resolve(href)
        await self.job.room()
        if found is None:
            frontier.ad_hoc.forgo(lease)
            return False
        now = self.detector.surroundings.clock()
        self.job.change_hosts(lambda batch: frontier.finish(lease, AddressKnown(found), now, batch))
        return await self._probe(href)

    def _probed(self, lease: Lease, href: str, answer: Response | Failure) -> bool:
        frontier, name, now = self.job.frontier, lease.host.name, self.detector.surroundings.clock()
        answered = _is_response(answer)
        end = SideRequestDone(request_outcome(answer)) if answered else TakenBack()
        self.job.change_hosts(lambda batch: frontier.finish(lease, end, now, batch))
        if answered:
            self.detector.judge.answered(name, href, lease.taken_at)
        elif isinstance(answer, Failure) and answer.kind.silent:
            self.detector.judge.failed(name, Failed(now, href, answer.address, witness=True, local=answer.local))
        return answered


async def connects(network: Fetches, href: str) -> bool:
    """Whether a connection to the host of an href can be opened. No request is sent on it."""
    before = may_send.set(lambda: False)
    try:
        await network.fetch(robots_url(href), accept=_nothing)
    except FencedOffError:
        return True  # it would have been sent now
    finally:
        may_send.reset(before)
    return False


def _is_response(result: Response | Failure) -> bool:
    """Return whether an HTTP response came, or something that shows at least that the line works."""
    return isinstance(result, Response) or result.kind in _RESPONSES


def _nothing(_: str | None) -> bool:
    return False
