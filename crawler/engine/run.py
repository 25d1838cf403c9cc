"""The crawl: one run over a job, from its seeds to its end. With ``discover`` and ``visit`` the only modules that know
all others; read together they are the life of one URL.

    discover   href and base -> canonical -> in scope? -> admitted if never seen
    visit      taken from the frontier -> robots.txt -> fetched -> its outlinks discovered -> its record written, done

One task hands out leases while slots are free, each to a task of its own. An exception is a bug or a failing disk, and
stops the crawl.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from enum import StrEnum
from typing import Any

from asyncio_throttle.throttler import Throttler

from crawler.engine.capacity_forecast import Adviser, Progress
from crawler.engine.discover import Discovery
from crawler.engine.injector import Injector
from crawler.engine.ledger_resolver import confirm_beside
from crawler.engine.loop_lag import LoopLag
from crawler.engine.visit import Visitor
from crawler.fetch import Fetches
from crawler.frontier import Lease
from crawler.inspect.host_states import HostStates
from crawler.inspect.statistics import HostFigures, JobFigures, RunFigures, assemble
from crawler.job.inbox import Inbox
from crawler.job.job import Job
from crawler.job.revisit import revisit_beside
from crawler.job.revisit_backfill import overtake_beside
from crawler.job.seen_compaction import compact_beside
from crawler.job.transaction import NO_CHECKPOINT
from crawler.metrics import Kind
from crawler.settings import Settings

log = logging.getLogger("crawler")

BY_REQUEST = "somebody asked for it"
GRACE = 5.0  # seconds that requests in flight are given when the crawl stops
_REST = 3.0  # times as long as it took, between two generations: the disk has others to serve


class State(StrEnum):
    """Where the crawl is."""

    RUNNING = "running"
    PAUSED = "paused"  # the disk is full, or somebody asked for it
    STOPPING = "stopping"
    ENDED = "ended"  # nothing is pending
    STOPPED = "stopped"  # by a limit, a signal or an error, with URLs left


class Stop(StrEnum):
    """Why the crawl handed out no more."""

    FINISHED = "finished"
    MAX_PAGES = "max-pages"
    MAX_TIME = "max-time"
    MIN_FREE = "min-free"
    INTERRUPTED = "interrupted"


class Crawl:
    """One run over a job."""

    def __init__(self, job: Job, fetcher: Fetches, settings: Settings, clock: Callable[[], float]) -> None:
        self.job = job
        self.settings = settings
        self.state = State.RUNNING
        self.started_at = clock()
        self._clock = clock
        rate = settings.politeness.rate
        self._throttle = None if rate is None else _throttler(rate)
        self._visits: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._discovery = Discovery(job, settings)
        self._visitor = Visitor(job, self._discovery, fetcher, settings, clock, self._wake.set)
        self.incoming = Injector(job, self._discovery, Inbox(job.directory, job.disk), self._wake.set)
        self._stopping = asyncio.Event()
        self._stop: Stop | None = None
        self._seeding = False
        self.disk_free = shutil.disk_usage(job.directory).free
        self._said_blocked = False
        self._held = False
        self._checkpoints_asked: list[asyncio.Future[str | None]] = []
        self._keep_now = asyncio.Event()
        self._stall = LoopLag()
        self._states = HostStates(job.store, job.frontier, settings.budget, clock)
        self._adviser = Adviser(
            settings.seen.compact_slices, ledger=settings.seen.ledger, endless=settings.recrawl.enabled
        )

    # -- the run -----------------------------------------------------------------------------------------------

    async def run(self, seeds: AsyncIterator[list[str]], *, finite: bool = True) -> Stop:
        """Crawl until nothing is pending and the seeds have ended, or until a limit or ``stop``. ``finite`` seeds are
        read to their end also where a limit is reached before: they are then known to the next run.

        An exception of any part ends it: what is in flight is dropped (it stays pending) and the exception raised."""
        self._seeding = True
        self._watch_disk(self.settings.durability.min_free)  # before anything is asked for
        try:
            async with asyncio.TaskGroup() as group:
                seeding = group.create_task(self._seed(seeds))
                keeping = group.create_task(self._keep())
                advising = self._adviser.watch(self.job.seen, self._clock, self._progress)
                others = (
                    self._stall.watch(),
                    self._states.watch(),
                    compact_beside(self.job.compact),
                    advising,
                    self.incoming.watch(self._clock),
                )
                beside = [group.create_task(other) for other in others]
                if self.job.ledger is not None:
                    confirming = confirm_beside(self._decide, lambda: self.job.doubted, self._is_idle)
                    beside.append(group.create_task(confirming))
                if self.settings.recrawl.enabled:
                    beside.append(group.create_task(revisit_beside(self._revisit)))
                    if self.job.revisiting.overtaking.left:
                        beside.append(group.create_task(overtake_beside(self.job.room, self._overtake)))
                try:
                    reason = await self._hand_out(group, finite)
                finally:
                    for task in (seeding, keeping, *beside):
                        task.cancel()
                    self._answer_checkpoints("the crawl ends: its last checkpoint is being written")
        except BaseExceptionGroup as errors:
            self.state = State.STOPPED
            raise _first(errors) from errors
        self.state = State.ENDED if reason is Stop.FINISHED else State.STOPPED
        self._states.settle()
        return reason

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """Hand out no more. What is in flight has a few seconds to finish, then it is released: it stays pending."""
        if self._stop is None:
            self._stop = reason
            self.state = State.STOPPING
            self._stopping.set()
            self._wake.set()
            asyncio.get_running_loop().call_later(GRACE, self._release_all)
        elif reason is Stop.INTERRUPTED:
            self._stop = reason  # whoever asks for it is told so, also where a limit was first

    def hold(self) -> None:
        """Hand out no more until ``go_on``; what is in flight comes to its end. The next run is not held."""
        self._held = True

    def go_on(self) -> None:
        self._held = False
        self.wake()

    def wake(self) -> None:
        """Look again whom to ask: something changed beside the loop."""
        self._wake.set()

    async def checkpoint_now(self) -> str | None:
        """Write a generation; returns why that cannot be done now, None when the newest is of now."""
        asked: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._checkpoints_asked.append(asked)
        self._keep_now.set()
        return await asked

    def _answer_checkpoints(self, reason: str | None, first: int | None = None) -> None:
        for asked in self._checkpoints_asked[:first]:
            if not asked.done():
                asked.set_result(reason)
        del self._checkpoints_asked[:first]

    def _release_all(self) -> None:
        for visit in self._visits:
            visit.cancel()

    def stats(self) -> dict[str, Any]:
        """What every view of the crawl shows."""
        job, now = self.job, self._clock()
        return assemble(
            JobFigures(
                job.counters,
                job.seen,
                job.manifest,
                None if job.ledger is None else job.ledger.counts,
                generations=len(job.generations.numbers()),
                disk_free=self.disk_free,
            ),
            HostFigures(job.frontier.hosts_pending, self._states.counts),
            RunFigures(
                elapsed=now - self.started_at,
                in_flight=job.counters.pending - job.frontier.queued,
                seeds_rejected=self.seeds_rejected,
                paused=self.paused,
                lag=self._stall.figures(),
                commits=job.commits,
            ),
            state=State.PAUSED if self.paused is not None and self.state is State.RUNNING else self.state,
            now=now,
            advice=self._adviser.advice,
        )

    def _progress(self) -> Progress:
        counters = self.job.counters
        finished = counters.fetched + counters.failed + counters.redirected + counters.excluded
        return Progress(finished, counters.pending)

    @property
    def paused(self) -> str | None:
        """Why nothing is handed out, when it is not the crawl's end."""
        return self.job.blocked or (BY_REQUEST if self._held else None)

    async def _hand_out(self, group: asyncio.TaskGroup, finite: bool) -> Stop:
        frontier, concurrency = self.job.frontier, self.settings.crawl.concurrency
        deadline = self._deadline()
        while True:
            self._wake.clear()
            now = self._clock()
            if deadline is not None and now >= deadline:
                self.stop(Stop.MAX_TIME)
            if self._stop is None and self._nothing_left():
                return Stop.FINISHED
            if self._stop is None and self._page_limit_reached() and not (self._seeding and finite):
                self.stop(Stop.MAX_PAGES)
            if self._stop is not None and not self._visits:
                return self._ended_meanwhile(self._stop)
            lease = frontier.take(now) if self._may_take(concurrency) else None
            if lease is None:
                await self._wait(self._next_event(now, deadline, concurrency))
            elif self._visitor.refuse(lease):
                await asyncio.sleep(0)
            elif self._throttle is None or await self._turn(lease, deadline):
                visit = group.create_task(self._visitor.visit(lease))
                self._visits.add(visit)
                visit.add_done_callback(self._visit_ended)

    def _revisit(self) -> bool:
        more = self._stop is None and self.job.revisit(self._clock())
        if more:
            self._wake.set()
        return more

    def _overtake(self) -> bool:
        return self.job.host_step(self.job.revisiting.overtaking.step)

    def _nothing_left(self) -> bool:
        if self.settings.recrawl.enabled:
            return False  # there is always a next visit
        return not self._seeding and self._is_idle() and not self.job.doubted and not self.incoming.waiting

    def _ended_meanwhile(self, reason: Stop) -> Stop:
        # A limit that was reached with the very last URL left nothing over.
        left = self._seeding or self.job.frontier.queued or self.job.doubted or self.settings.recrawl.enabled
        return reason if left or reason is Stop.INTERRUPTED else Stop.FINISHED

    def _is_idle(self) -> bool:
        return not self.job.frontier.queued and not self._visits

    def _decide(self, limit: int) -> int:
        decided = self.job.decide(limit, self._clock())
        self._wake.set()
        return decided

    def _may_take(self, concurrency: int) -> bool:
        if self._stop is not None or len(self._visits) >= concurrency or self.paused is not None:
            return False
        limit = self.settings.crawl.max_pages
        return limit is None or self.job.counters.fetched + len(self._visits) < limit

    def _page_limit_reached(self) -> bool:
        limit = self.settings.crawl.max_pages
        return limit is not None and self.job.counters.fetched >= limit

    def _deadline(self) -> float | None:
        limit = self.settings.crawl.max_time
        return None if limit is None else self.started_at + limit

    def _next_event(self, now: float, deadline: float | None, concurrency: int) -> float | None:
        """Seconds until something is due by itself; None: only another task can change anything."""
        times = [deadline] if deadline is not None and self._stop is None else []
        ready = self.job.frontier.next_ready() if self._may_take(concurrency) else None
        if ready is not None:
            times.append(ready)
        return max(0.0, min(times) - now) if times else None

    async def _wait(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _turn(self, lease: Lease, deadline: float | None) -> bool:
        """Wait for the global rate; False when the crawl or the host was held meanwhile, or time ran out. There is
        one waiter, this one: the throttler polls for each."""
        assert self._throttle is not None
        turn = asyncio.ensure_future(_acquire(self._throttle))
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            left = None if deadline is None else max(0.0, deadline - self._clock())
            await asyncio.wait({turn, stopped}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            held = self._stopping.is_set() or self.paused is not None or lease.host.paused or lease.host.blocked
            mine = turn.done() and not held
        finally:
            turn.cancel()
            stopped.cancel()
        if mine:
            return True
        self.job.frontier.release(lease)
        return False

    def _visit_ended(self, visit: asyncio.Task[None]) -> None:
        self._visits.discard(visit)
        self._wake.set()

    async def _keep(self) -> None:
        """Make steps durable every second, and write a generation every minute: later where the disk takes long."""
        settings = self.settings.durability
        next_checkpoint = self._clock() + settings.checkpoint_interval
        while True:
            await self._until_asked(settings.sync_interval)
            self._watch_disk(settings.min_free)
            if not self._has_room():
                self._answer_checkpoints(self.job.blocked)
                continue
            await self.job.sync()
            # Asked again: the disk may have been found full while the sync was under way.
            if (self._clock() >= next_checkpoint or self._checkpoints_asked) and self.job.blocked is None:
                # Who asks while it is being written wants what comes after, too.
                before, asked = len(self.job.notes), len(self._checkpoints_asked)
                began = self._clock()
                await self.job.checkpoint(began)
                refused = (note for note in self.job.notes[before:] if note.startswith(NO_CHECKPOINT))
                self._answer_checkpoints(next(refused, None), asked)
                ended = self._clock()
                next_checkpoint = ended + max(settings.checkpoint_interval, _REST * (ended - began))
            self.tell_notes(log.warning)

    async def _until_asked(self, seconds: float) -> None:
        """Sleep for so long, or until a checkpoint is asked for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._keep_now.wait()
        self._keep_now.clear()

    def _watch_disk(self, least: int) -> None:
        self.disk_free = shutil.disk_usage(self.job.directory).free
        if self.disk_free < least and self._stop is None:
            log.warning("stopping: %d bytes free on the disk, durability.min_free is %d", self.disk_free, least)
            self.stop(Stop.MIN_FREE)

    def _has_room(self) -> bool:
        """Whether steps can be written; tries the one that could not."""
        was = self.job.blocked
        if was is not None and self.job.write_again():
            log.warning("there is space again: the crawl goes on")
            self._wake.set()
        elif was is not None and not self._said_blocked:
            log.warning("paused, nothing is lost: %s; waiting for space", was)
            self.job.events.add(self._clock(), Kind.ERROR, f"the disk is full: {was}")
        self._said_blocked = self.job.blocked is not None
        return self.job.blocked is None

    def tell_notes(self, say: Callable[[str], None]) -> None:
        """Hand over what the job has noted."""
        while self.job.notes:
            note = self.job.notes.pop(0)
            self.job.events.add(self._clock(), Kind.ERROR, note)
            say(note)

    # -- seeds -------------------------------------------------------------------------------------------------

    async def _seed(self, seeds: AsyncIterator[list[str]]) -> None:
        """Admit the seeds; each widens the scope."""
        async for lines in seeds:
            found = self._discovery.seeds(lines)
            await self.job.room()
            for url in found:
                self.job.widen(url.href)
            self.job.admit(found, depth=0, seed=True)
            self._wake.set()
        self._seeding = False
        self._wake.set()

    @property
    def seeds_rejected(self) -> int:
        """Lines among the seeds of this run that are no URL."""
        return self._discovery.seeds_rejected

    @property
    def under_way(self) -> Mapping[str, float]:
        """The URLs in flight, and since when (seconds since 1970)."""
        return self._visitor.under_way

    @property
    def last_seed_error(self) -> str | None:
        """Why the last seed that could not be fetched was not."""
        return self._visitor.last_seed_error


def _throttler(rate: float) -> Throttler:
    # About ten periods a second, so that a second's requests do not come all at its start; the throttler counts in
    # whole requests, so a slow rate needs a longer period.
    requests = max(1, round(rate / 10))
    return Throttler(rate_limit=requests, period=requests / rate)


async def _acquire(throttler: Throttler) -> None:
    await throttler.acquire()  # type: ignore[no-untyped-call]  # the library has no types


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
