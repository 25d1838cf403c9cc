"""The worker owns what the crawls of one process share: the fetcher, the slots, the rate limit and the monitoring of
disks. It drives any number of runs, each with its own job. Runs can be added and removed at any time.

One task hands out leases while slots are free, each to its own task. The runs take turns (``run_schedule``). An
exception means a bug or a failing disk, and stops every run.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from functools import partial
from math import inf

from crawler.base.figures import size
from crawler.base.settings.parts import Settings
from crawler.engine.context import Capacity, Context
from crawler.engine.fair_turns import Turns
from crawler.engine.lifecycle import Stop
from crawler.engine.loop_lag import LoopLag
from crawler.engine.outage_detector import OutageDetector, Surroundings, connects
from crawler.engine.rate import Rate
from crawler.engine.reading import Guarded, Reading
from crawler.engine.rendering.renderer import Renderer
from crawler.engine.run import Run
from crawler.engine.run_schedule import RunSchedule
from crawler.engine.slots import Slots
from crawler.frontier.lease import Lease
from crawler.web.extract.text_pool import EXTRACTORS, TextLimits, TextPool, Texts
from crawler.web.fetch import Fetches
from crawler.web.parsing.pages import PageParser

log = logging.getLogger("crawler")

LOOK = 5.0  # seconds between two checks of the clock, which advances while the machine sleeps; timers do not


class Worker:
    """Drives runs that were created with its ``context``."""

    def __init__(
        self,
        fetcher: Fetches,
        settings: Settings,
        clock: Callable[[], float],
        lag: LoopLag | None = None,
        slots: Slots | None = None,
        texts: Texts | None = None,
    ) -> None:
        """``clock()`` returns seconds since 1970. ``fetcher`` uses the same ``lag`` to measure stalls of the loop, and
        lends ``slots`` (usually ``crawl.concurrency``) while bodies wait. ``texts`` extracts the main text of pages."""
        self._durability = settings.durability
        self._slots = slots = slots or Slots(settings.crawl.concurrency)
        self.rate = Rate(settings.politeness.rate)
        self._stated_rate = settings.politeness.rate
        self._runs: dict[Run, asyncio.Event] = {}  # the event is set when the run is over and its tasks have ended
        self._rota = RunSchedule[Run]()
        self._group: asyncio.TaskGroup | None = None  # the group of all tasks
        self._stays = True  # keep driving when no run is left
        self._wake = asyncio.Event()
        self._interrupted = asyncio.Event()
        slots.tell = self._wake.set
        lag = lag or LoopLag()
        reading = Reading(lag.held)
        network = Guarded(fetcher, reading)
        reaches = partial(connects, network)
        text = settings.text
        ways = Surroundings(clock, self._interrupted.set, self._touch_all, slots.doubt, reaches)
        self.context = Context(
            network,
            clock,
            self._wake.set,
            OutageDetector(ways, settings.politeness.rate),
            slots,
            lag,
            reading,
            Turns(),
            PageParser(waits=slots.wait),
            texts or TextPool(TextLimits(extractor=EXTRACTORS[text.extractor])),
            Renderer(settings),
            self.rate.turn,
            self._capacity,
        )

    def change(self, settings: Settings) -> None:
        """Apply a changed rate limit."""
        rate = settings.politeness.rate
        if rate != self._stated_rate:
            self.rate.change(rate)
        self._stated_rate = rate

    @property
    def unanswered(self) -> float:
        """The seconds for which no host is known to have answered; 0 if there is no outage."""
        return self.context.line.down(self.context.clock())

    async def drive(self, *runs: Run) -> None:
        """Drive the runs until all are over.

        If any part raises an exception, all runs end: requests in flight are dropped, their URLs stay pending, and the
        exception is raised."""
        self._stays = False
        for run in runs:
            self.add(run)
        await self._drive()

    async def serve(self) -> None:
        """Drive the added runs until ``end`` is called and all have finished. Raises the errors of ``drive``."""
        await self._drive()

    def end(self) -> None:
        """Make ``serve`` return as soon as all runs are over."""
        self._stays = False
        self._wake.set()

    def add(self, run: Run) -> None:
        """Add a run, which starts at once, or when the worker starts."""
        self._runs[run] = asyncio.Event()
        if self._group is not None:
            self._begin(run, self._group)

    async def until_over(self, run: Run) -> None:
        """Wait until a run is over and its tasks have ended. If the worker fails, all runs are over, too."""
        over = self._runs.get(run)
        if over is not None:
            await over.wait()

    async def remove(self, run: Run) -> None:
        """Stop a run cleanly: it hands out no more URLs, and requests in flight get a few seconds. Afterwards its job
        can be checkpointed and closed."""
        run.stop()
        await self.until_over(run)

    async def break_off(self, run: Run) -> None:
        """Abort a run at once, because another process now owns its job. Requests in flight are dropped. When this
        returns, nothing writes to the job; it can only be closed."""
        over = self._runs.get(run)
        if over is None:
            return
        if not run.life.is_over:
            run.break_off()
        run.release_all()
        self._touch(run, True)
        await over.wait()
        await run.job.at_rest()

    async def _drive(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._group:
                group = self._group
                watches = (self.context.lag.watch(), self._watch_disks(), self.context.line.watch())
                beside = [group.create_task(watch) for watch in watches]
                try:
                    for run in self._runs:
                        self._begin(run, group)
                    await self._hand_out(group)
                finally:
                    for task in beside:
                        task.cancel()
                    for run in self._runs:
                        if not run.life.is_over:
                            run.break_off()
                    self.context.parser.close()
                    self.context.texts.close()
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        finally:
            await self.context.renderer.close()
            for over in self._runs.values():
                over.set()
            self._runs.clear()

    def _begin(self, run: Run, group: asyncio.TaskGroup) -> None:
        self._look_at_disk(run)  # check the disk before the first request
        run.begin(group, partial(self._touch, run))
        self._rota.join(run)
        self._wake.set()

    def _touch(self, run: Run, interrupt: bool) -> None:
        """Schedule a check of the run after a change in it. ``interrupt``: visits that wait for the rate limit must
        check whether to continue."""
        self._rota.touch(run)
        self._wake.set()
        if interrupt:
            self._interrupted.set()

    def _touch_all(self) -> None:
        """Schedule a check of all runs after a change that may concern any of them."""
        self._rota.touch_all()
        self._wake.set()

    async def _leave(self, run: Run) -> None:
        """Stop driving a run that is over."""
        await run.end_tasks()
        self._runs.pop(run).set()
        self._wake.set()

    # -- leases ------------------------------------------------------------------------------------------------

    async def _hand_out(self, group: asyncio.TaskGroup) -> None:
        while self._runs or self._stays:
            self._wake.clear()
            self._interrupted.clear()
            now = self.context.clock()
            self._look_at_runs(now, group)
            taken = self._take(now)
            if taken is None:
                await self._wait(self._next_event(now))
                continue
            run, lease = taken
            if run.refuse(lease):
                self._rota.touch(run)  # this URL may have been the run's last
                await asyncio.sleep(0)
            elif not self.rate.limits or lease.address or await self._turn(run, lease):
                self._slots.visits += 1
                run.visit(lease, group).add_done_callback(partial(self._visit_ended, run))

    def _look_at_runs(self, now: float, group: asyncio.TaskGroup) -> None:
        for run in self._rota.due(now):
            if run.is_over(now):
                self._rota.leave(run)
                group.create_task(self._leave(run))
            else:
                self._rota.looked(run, run.next_limit(now))

    def _take(self, now: float) -> tuple[Run, Lease] | None:
        """Take a lease from the first run that has one, and move that run to the end of the line."""
        if self._slots.free > 0:
            while (run := self._rota.first()) is not None:
                lease = run.take(now)
                if lease is not None:
                    self._rota.served(run)
                    return run, lease
                self._rota.waits(run, run.next_lease(), run.next_limit(now))
        return None

    def _visit_ended(self, run: Run, _: asyncio.Task[None]) -> None:
        self._slots.visits -= 1
        self._rota.touch(run)
        self._wake.set()

    def _capacity(self) -> Capacity:
        return Capacity(self._slots.number, max(0, self._slots.free), self.rate.a_second, self.rate.waiting)

    # -- waiting -----------------------------------------------------------------------------------------------

    def _next_event(self, now: float) -> float | None:
        """Return the seconds until the next timed event; None if only another task can change anything."""
        first = self._rota.next_time
        return None if first == inf else max(0.0, first - now)

    async def _wait(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wake.wait()
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, self._wake.set) if seconds < LOOK else loop.call_later(LOOK, self._touch_all)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _turn(self, run: Run, lease: Lease) -> bool:
        """Wait for the rate limit.

        Returns False and releases the lease if the run was stopped, the crawl or the host was paused, or time ran
        out."""
        turn = asyncio.ensure_future(self.rate.turn())
        interrupted = asyncio.ensure_future(self._interrupted.wait())
        now = self.context.clock()
        left = None if self._rota.next_limit == inf else max(0.0, self._rota.next_limit - now)
        try:
            await asyncio.wait({turn, interrupted}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            mine = turn.done() and not self._interrupted.is_set() and run.still_wants(lease)
        finally:
            turn.cancel()
            interrupted.cancel()
        if not mine:
            run.release(lease)
        return mine

    # -- disks -------------------------------------------------------------------------------------------------

    async def _watch_disks(self) -> None:
        while True:
            await asyncio.sleep(self._durability.sync_interval)
            for run in self._runs:
                self._look_at_disk(run)

    def _look_at_disk(self, run: Run) -> None:
        """Stop a run whose disk is nearly full."""
        run.gauges.disk_free = free = shutil.disk_usage(run.job.directory).free
        least = self._durability.min_free
        if free < least and run.life.serves:
            log.warning("stopping: %s free on the disk, less than durability.min_free (%s)", size(free), size(least))
            run.stop(Stop.MIN_FREE)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
