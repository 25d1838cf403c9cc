"""Measurements of a run that do not come from single visits: its hosts by state, its pace, and the forecast for its
seen-set."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import asdict

from crawler.base.figures import duration
from crawler.base.memory import available_memory
from crawler.base.settings.parts import SeenSettings
from crawler.base.settings.sites import Sites
from crawler.engine.context import Context
from crawler.frontier.capacity import Serving
from crawler.inspect.host_states import HostStates
from crawler.inspect.statistics import FailingProxy, HostFigures
from crawler.job.job import Job
from crawler.job.metrics.catalogue import NAMED
from crawler.job.metrics.events import Kind
from crawler.job.metrics.outlook import Look, Observed, SeenAhead, seen_at_end, seen_warning
from crawler.job.metrics.sentences import suspicion
from crawler.web.fetch import Failure, FailureKind, Response

UNNAMED = "the proxy"


class ProxyWatch:
    """Records which proxies fail. A failing proxy does not count against any host, but the operator must know about
    it."""

    def __init__(self, clock: Callable[[], float], job: Job) -> None:
        """Events go to the job's event log."""
        self._clock = clock
        self._job = job
        self._failing: dict[str, FailingProxy] = {}  # by proxy name
        self._failures = 0

    def note(self, result: Response | Failure) -> None:
        """Record the result of an exchange."""
        if isinstance(result, Failure) and result.kind is FailureKind.PROXY:
            self._failed(result)
        elif self._failing and result.proxy is not None:
            self._answered(result.proxy)

    @property
    def failing(self) -> list[FailingProxy]:
        """The proxies that failed on their last request."""
        return list(self._failing.values())

    def figures(self) -> dict[str, Any]:
        """Return the statistics of the proxies of this run."""
        named = [asdict(proxy) for proxy in self.failing[:NAMED]]
        return {"failing": len(self._failing), "failures": self._failures, "named": named}

    def _failed(self, failure: Failure) -> None:
        self._failures += 1
        name = failure.proxy or UNNAMED
        if name not in self._failing:
            now = self._clock()
            self._failing[name] = FailingProxy(name, now, failure.message)
            text = f"a proxy fails, which is not counted against any host: {failure.message}"
            self._job.events.add(now, Kind.ERROR, text)

    def _answered(self, name: str) -> None:
        proxy = self._failing.pop(name, None)
        if proxy is not None:
            now = self._clock()
            self._job.events.add(now, Kind.RUN, f"{name} answers again after {duration(now - proxy.since)}")


log = logging.getLogger("crawler")

_LOOK = 1.0  # seconds between two measurements of the pace
_BETWEEN = 5.0  # seconds between two checks of the seen-set


class Gauges:
    """The gauges of one run."""

    def __init__(
        self,
        job: Job,
        sites: Sites,
        seen: SeenSettings,
        context: Context,
        serving: Callable[[], Serving],
        proxies: ProxyWatch,
    ) -> None:
        """``serving()``: what the run can do now for a host that is due."""
        self.proxies = proxies
        self.disk_free = shutil.disk_usage(job.directory).free  # bytes, measured at the worker's last check
        self.states = HostStates(job.store, job.frontier, sites, context.clock, serving)
        self._warned: set[str] = set()  # causes for which a warning about the seen-set was logged
        self._seen = seen
        self._job = job
        self._context = context
        self.observed = Observed()
        self.ahead = SeenAhead()

    def watches(self, runs: Callable[[], bool]) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that keep the gauges up to date. Each runs until cancelled. ``runs()``: True if the run
        hands out URLs."""
        return [
            self.states.watch(),
            self._observe(runs),
            self.look_ahead(),
        ]

    def settle(self) -> None:
        """Read the gauges one last time, at the end of the run."""
        self.states.settle()
        self._look_at_seen()

    @property
    def hosts(self) -> HostFigures:
        frontier = self._job.frontier
        return HostFigures(frontier.hosts_pending, frontier.hosts_without_page, self.states.found)

    async def _observe(self, runs: Callable[[], bool]) -> None:
        while True:
            counters = self._job.counters
            if runs():
                self.observed.look(Look(self._context.clock(), counters.pending, counters.done, counters.pages_fetched))
            else:
                self.observed.forget()
            await asyncio.sleep(_LOOK)

    async def look_ahead(self) -> None:
        while True:
            self._look_at_seen()
            await asyncio.sleep(_BETWEEN)

    def _look_at_seen(self) -> None:
        """Forecast the state of the seen-set, and log each cause of trouble once."""
        job, compact_slices = self._job, self._seen.compact_slices
        statistics, parameters = job.seen.statistics(), job.seen.parameters()
        left, pace = job.counters.pending, self.observed.pace
        endless = job.revisiting.enabled
        at_end = None if endless else seen_at_end(statistics, parameters, left, pace, compact_slices)
        warning = seen_warning(statistics, parameters, available_memory(), compact_slices)
        self.ahead = SeenAhead(at_end, warning)
        said = {} if warning is None else {warning.cause: warning.text}
        if statistics["count_suspect"]:
            said["suspect"] = suspicion(statistics)
        for cause, text in said.items():
            if cause not in self._warned:
                self._warned.add(cause)
                log.warning("seen-set: %s", text)
