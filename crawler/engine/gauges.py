"""What a run measures besides its visits: its hosts by state, and the forecast of its seen-set."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from crawler.engine.capacity_forecast import Adviser, Progress
from crawler.engine.context import Context
from crawler.inspect.host_states import HostStates
from crawler.inspect.statistics import HostFigures
from crawler.job.job import Job
from crawler.settings import BudgetSettings


class Gauges:
    """The gauges of one run."""

    def __init__(self, job: Job, budget: BudgetSettings, adviser: Adviser, context: Context) -> None:
        self.states = HostStates(job.store, job.frontier, budget, context.clock)
        self._adviser = adviser
        self._job = job
        self._context = context

    def watches(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that keep the gauges up to date. Each runs until cancelled."""
        return [self.states.watch(), self._adviser.watch(self._job.seen, self._context.clock, self._progress)]

    def settle(self) -> None:
        """Read the gauges a last time: nothing changes after this."""
        self.states.settle()

    @property
    def hosts(self) -> HostFigures:
        return HostFigures(self._job.frontier.hosts_pending, self.states.counts)

    @property
    def advice(self) -> dict[str, Any] | None:
        return self._adviser.advice

    @property
    def lag(self) -> dict[str, float]:
        return self._context.lag.figures()

    def _progress(self) -> Progress:
        counters = self._job.counters
        return Progress(counters.done, counters.pending)
