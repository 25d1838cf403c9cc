"""The worker owns what the crawls of one process share: the fetcher, the slots, the rate limit and the watch on the
disks. It drives one or more runs to their ends, each over a job of its own.

One task hands out leases while slots are free, each to a task of its own. The runs take turns. An exception means a bug
or a failing disk, and stops every run.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.engine.context import Capacity, Context
from crawler.engine.lifecycle import Stop
from crawler.engine.loop_lag import LoopLag
from crawler.engine.put_aside import Suspects
from crawler.engine.rate import Rate
from crawler.engine.reading import Guarded, Reading
from crawler.engine.run import Run
from crawler.engine.slots import Slots
from crawler.engine.turns import Turns
from crawler.extract.text_pool import TextLimits, TextPool, Texts, default_processes
from crawler.fetch import Fetches
from crawler.frontier import Lease
from crawler.parsing import PageParser
from crawler.settings import Settings

log = logging.getLogger("crawler")

LOOK = 5.0  # seconds between two looks at the clock: it goes on while the machine sleeps, and timers do not


class WorkerSettings(Struct, frozen=True):
    """The settings that all runs of a worker share."""

    concurrency: int  # URLs in flight
    rate: float | None = None  # requests per second
    min_free: int = 0  # free bytes on a job's disk below which its run stops
    disk_interval: float = 1.0  # seconds between two looks at the disks
    text: TextLimits = field(default_factory=TextLimits)

    @classmethod
    def of(cls, settings: Settings) -> WorkerSettings:
        durability, output = settings.durability, settings.output
        text = TextLimits(output.text_processes or default_processes(), output.text_seconds)
        rate = settings.politeness.rate
        return cls(settings.crawl.concurrency, rate, durability.min_free, durability.sync_interval, text)


class Worker:
    """Drives runs that were made with its ``context``."""

    def __init__(
        self,
        fetcher: Fetches,
        settings: WorkerSettings,
        clock: Callable[[], float],
        lag: LoopLag | None = None,
        slots: Slots | None = None,
        texts: Texts | None = None,
    ) -> None:
        """``clock()`` returns seconds since 1970. ``lag`` is what ``fetcher`` asks for the stalls of the loop, and
        ``slots``, as many as ``settings.concurrency``, is what it tells of bodies that wait. ``texts`` extracts the
        main text of pages."""
        self._settings = settings
        self._slots = slots = slots or Slots(settings.concurrency)
        self._rate = Rate(settings.rate)
        self._suspects = Suspects[Run]()
        self._runs: deque[Run] = deque()  # runs that are not over; the first is next to get a slot
        self._wake = asyncio.Event()
        self._interrupted = asyncio.Event()
        slots.tell = self._wake.set
        lag = lag or LoopLag()
        reading = Reading(lag.held)
        network = Guarded(fetcher, reading)
        self.context = Context(
            network,
            clock,
            self._wake.set,
            self._interrupted.set,
            slots,
            lag,
            reading,
            Turns(),
            PageParser(waits=slots.wait),
            texts or TextPool(settings.text),
            self._rate.turn,
            self._capacity,
        )

    def change(self, settings: WorkerSettings) -> None:
        """Go on with another rate."""
        if settings.rate != self._settings.rate:
            self._rate.change(settings.rate)
        self._settings = replace(self._settings, rate=settings.rate)

    async def drive(self, *runs: Run) -> None:
        """Drive the runs until all are over.

        If any part raises an exception, all runs end: requests in flight are dropped, their URLs stay pending, and the
        exception is raised."""
        self._runs.extend(runs)
        self._look_at_disks()  # before the first request
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self.context.lag.watch()), group.create_task(self._watch_disks())]
                try:
                    for run in runs:
                        run.begin(group)
                    await self._hand_out(group)
                finally:
                    for task in beside:
                        task.cancel()
                    while self._runs:
                        self._runs.pop().break_off()
                    self.context.parser.close()
                    self.context.texts.close()
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors

    # -- leases ------------------------------------------------------------------------------------------------

    async def _hand_out(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._wake.clear()
            self._interrupted.clear()
            now = self.context.clock()
            for run in [run for run in self._runs if run.is_over(now)]:
                self._runs.remove(run)
            self._suspects.give_back(now)
            if not self._runs:
                return
            taken = self._take(now)
            if taken is None:
                await self._wait(self._next_event(now))
                continue
            run, lease = taken
            if run.refuse(lease):
                await asyncio.sleep(0)
            elif self._suspects.holds(run, lease, now):
                continue
            elif not self._rate.limits or lease.address or await self._turn(run, lease):
                self._slots.visits += 1
                run.visit(lease, group).add_done_callback(partial(self._visit_ended, lease))
                continue
            self._suspects.ended(lease)

    def _take(self, now: float) -> tuple[Run, Lease] | None:
        """Take a lease from the first run that has one, and move that run to the end of the line; or else one that had
        to wait until there is no other."""
        if self._slots.free > 0 and not self._suspects.bars(now):
            for run in self._runs:
                lease = run.take(now)
                if lease is not None:
                    self._runs.remove(run)
                    self._runs.append(run)
                    return run, lease
        if self._slots.visits:
            return None
        others = [time for run in self._runs for time in run.next_leases()]
        return self._suspects.turn(now, [*others, *(now for run in self._runs if run.reads_seeds)])

    def _visit_ended(self, lease: Lease, _: asyncio.Task[None]) -> None:
        self._slots.visits -= 1
        self._suspects.ended(lease)
        self._wake.set()

    def _capacity(self) -> Capacity:
        alone, settings = self._suspects.bars(self.context.clock()), self._settings
        return Capacity(settings.concurrency, max(0, self._slots.free), settings.rate, self._rate.waiting, alone)

    # -- waiting -----------------------------------------------------------------------------------------------

    def _next_event(self, now: float) -> float | None:
        """Return the seconds until the next timed event; None if only another task can change anything."""
        may_take = self._slots.free > 0 and not self._suspects.bars(now)
        times = [time for run in self._runs for time in run.next_times(may_take=may_take)]
        times += self._suspects.next_time(now)
        return max(0.0, min(times) - now) if times else None

    async def _wait(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(min(seconds, LOOK), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _turn(self, run: Run, lease: Lease) -> bool:
        """Wait for the rate limit.

        Returns False and releases the lease if the run was stopped, the crawl or the host was paused, or time ran
        out."""
        turn = asyncio.ensure_future(self._rate.turn())
        interrupted = asyncio.ensure_future(self._interrupted.wait())
        now = self.context.clock()
        deadlines = [time for each in self._runs for time in each.next_times(may_take=False)]
        left = max(0.0, min(deadlines) - now) if deadlines else None
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
            await asyncio.sleep(self._settings.disk_interval)
            self._look_at_disks()

    def _look_at_disks(self) -> None:
        """Stop the runs whose disk is nearly full."""
        for run in self._runs:
            run.disk_free = free = shutil.disk_usage(run.job.directory).free
            if free < self._settings.min_free and run.life.reason is None:
                least = self._settings.min_free
                log.warning("stopping: %d bytes free on the disk, durability.min_free is %d", free, least)
                run.stop(Stop.MIN_FREE)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
