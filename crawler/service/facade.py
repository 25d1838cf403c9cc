"""Gives the rest of the program access to a run: its statistics, commands and notices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.base.figures import count
from crawler.base.settings.parts import Settings
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.job.directory import holds_job
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.events import Kind
from crawler.job.metrics.sentences import came, working
from crawler.service.commands import performing
from crawler.service.notices import Notices
from crawler.service.reloading import Reloading


class Result(Struct, frozen=True):
    """How the run ended."""

    reason: Stop
    stats: dict[str, Any]
    before: dict[str, Any] | None  # statistics at the start of the run; None for the first run of a job
    seeds_fetched: int
    last_seed_error: str | None
    address: str | None = None  # the address of the run's dashboard
    signalled: bool = False  # True if a signal stopped the run
    unstored: bool = False  # True if the store of the crawl lacks its last steps

    @property
    def no_seed(self) -> str | None:
        """The reason, in one line, why no seed could be fetched; None if one was fetched, or if seeds are pending."""
        is_tried = self.reason is Stop.FINISHED or (self.reason is Stop.MAX_TIME and self.last_seed_error)
        if not is_tried or self.seeds_fetched:
            return None
        counts = self.stats.get("urls_held_back", {}).items()
        why = self.last_seed_error or ", ".join(
            f"{count(number)} excluded by {rule}" for rule, number in counts if number
        )
        return f"no seed could be fetched{why and f': {why}'}"


class Facade:
    """Gives access to the run: its statistics, commands and notices. The facade exists before the run does."""

    def __init__(
        self,
        directory: Path,
        history: CrawlHistory,
        reloading: Reloading,
        settings: Settings,
        clock: Callable[[], float],
    ) -> None:
        self.run: Run | None = None
        self.result: Result | None = None  # set once the run has ended
        self.signalled = False  # True if a signal stops the run
        self.directory = directory
        self.history = history
        self.clock = clock
        self.perform = performing(lambda: self.run, history.events, clock, reloading.reload)
        self.notices = Notices(settings.notify, directory, clock)

    def begin(self, word: str) -> None:
        """Record the start of the run."""
        self.history.observe(self.clock(), self.stats())
        self.history.events.add(self.clock(), Kind.RUN, word)

    def stats(self) -> dict[str, Any]:
        """Return the statistics of the run; empty before the run exists."""
        return {} if self.run is None else self.run.stats()

    def status(self, stats: dict[str, Any]) -> str:
        """Return what the crawl is doing, in one line; empty while there are no statistics."""
        return f"{came(stats)}. {working(stats)['text']}" if stats else ""

    def is_gone(self) -> bool:
        """True if the job's directory was deleted or moved."""
        return not holds_job(self.directory)
