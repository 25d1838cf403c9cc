"""What a run measures besides its visits: its hosts by state, and the forecast of its seen-set."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Coroutine
from typing import Any

from crawler.base.settings import Sites
from crawler.engine.capacity_forecast import Adviser, Progress
from crawler.engine.context import Context
from crawler.engine.proxy_watch import ProxyWatch
from crawler.frontier import Serving
from crawler.inspect.host_states import HostStates
from crawler.inspect.statistics import HostFigures
from crawler.job.job import Job
from crawler.job.metrics import Countdown, Kind, Look

log = logging.getLogger("crawler")

OVERLOOKED = "is due and has a free slot, but is not asked: a fault of the program. A restart asks it again"
_LOOK = 1.0  # second between two looks at how long the crawl takes
_BETWEEN = 5.0  # seconds between two looks for hosts to name
_NAMED_MOST = 100  # hosts named in one run: a fault that stops all of a million hosts need not be told a million times


class Gauges:
    """The gauges of one run."""

    def __init__(
        self,
        job: Job,
        sites: Sites,
        adviser: Adviser,
        context: Context,
        serving: Callable[[], Serving],
        proxies: ProxyWatch,
    ) -> None:
        """``serving()``: what the run can do now for a host that is due."""
        self.proxies = proxies
        self.disk_free = shutil.disk_usage(job.directory).free  # bytes, at the worker's last look
        self.states = HostStates(job.store, job.frontier, sites, context.clock, serving)
        self._told: set[str] = set()  # hosts that were named as overlooked
        self._adviser = adviser
        self._job = job
        self._context = context
        self.countdown = Countdown()

    def watches(self, ahead: Callable[[], dict[str, Any] | None]) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that keep the gauges up to date. Each runs until cancelled. ``ahead()`` are those
        statistics that tell how long the crawl takes; None while it stands still."""
        return [
            self.states.watch(),
            self._name_overlooked(),
            self._count_down(ahead),
            self._adviser.watch(self._job.seen, self._context.clock, self._progress),
        ]

    def settle(self) -> None:
        """Read the gauges a last time: nothing changes after this."""
        self.states.settle()

    @property
    def hosts(self) -> HostFigures:
        states = self.states
        return HostFigures(
            self._job.frontier.hosts_pending, states.counts, states.slowest, states.overlooked, states.slot_seconds
        )

    @property
    def advice(self) -> dict[str, Any] | None:
        return self._adviser.advice

    @property
    def lag(self) -> dict[str, float]:
        return self._context.lag.figures()

    @property
    def stalls(self) -> dict[str, Any]:
        return self._context.lag.stall_figures()

    def _progress(self) -> Progress:
        counters = self._job.counters
        if not self._job.revisiting.enabled:
            return Progress(counters.done, counters.pending)
        again, waiting = counters.revisits - counters.returned, counters.revisits_pending
        return Progress(counters.done - (again - waiting), counters.pending - waiting)

    async def _count_down(self, ahead: Callable[[], dict[str, Any] | None]) -> None:
        while True:
            stats, progress = ahead(), self._progress()
            if stats is None:
                self.countdown.forget()
            else:
                self.countdown.look(Look(self._context.clock(), progress.left, progress.finished), stats)
            await asyncio.sleep(_LOOK)

    async def _name_overlooked(self) -> None:
        while True:
            await asyncio.sleep(_BETWEEN)
            for name in self.states.overlooked:
                if name not in self._told and len(self._told) < _NAMED_MOST:
                    self._told.add(name)
                    log.warning("%s %s", name, OVERLOOKED)
                    self._job.events.add(self._context.clock(), Kind.ERROR, OVERLOOKED, name)
