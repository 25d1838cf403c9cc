"""Where a run is between its begin and its end, and what may stop it. Pure: time and counts are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from crawler.settings import CrawlSettings


class State(StrEnum):
    """Where the crawl is."""

    RUNNING = "running"
    PAUSED = "paused"  # by the user, or because the disk is full
    STOPPING = "stopping"
    ENDED = "ended"  # nothing is pending
    STOPPED = "stopped"  # by a limit, a signal or an error, with URLs left


class Stop(StrEnum):
    """Why the crawl stopped handing out URLs."""

    FINISHED = "finished"
    MAX_PAGES = "max-pages"
    MAX_TIME = "max-time"
    MIN_FREE = "min-free"
    INTERRUPTED = "interrupted"


class PausedBy(StrEnum):
    """What keeps a crawl from handing out URLs."""

    USER = "user"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Pause:
    """Why nothing is handed out although the crawl is not at its end. ``detail`` is what the system says."""

    by: PausedBy
    detail: str = ""


class Lifecycle:
    """The life of one run, from its begin at ``now`` (seconds since 1970)."""

    def __init__(self, settings: CrawlSettings, now: float) -> None:
        self.started_at = now
        self.reason: Stop | None = None  # why nothing more is handed out
        self.is_over = False
        self.held = False  # by the user
        self.max_pages = settings.max_pages
        self.deadline = None if settings.max_time is None else now + settings.max_time

    @property
    def state(self) -> State:
        if self.is_over:
            return State.ENDED if self.reason is Stop.FINISHED else State.STOPPED
        return State.RUNNING if self.reason is None else State.STOPPING

    def limit_reached(self, now: float, fetched: int) -> Stop | None:
        """The limit that ends the run now. ``fetched`` counts the job's pages, not the run's."""
        if self.deadline is not None and now >= self.deadline:
            return Stop.MAX_TIME
        if self.max_pages is not None and fetched >= self.max_pages:
            return Stop.MAX_PAGES
        return None

    def stop(self, reason: Stop) -> bool:
        """Stop handing out URLs. True if this is what stops the run. If a limit is already stopping it, an interruption
        still becomes the reason; once it is over, nothing does."""
        if self.is_over:
            return False
        first = self.reason is None
        if first or reason is Stop.INTERRUPTED:
            self.reason = reason
        return first

    def end(self, reason: Stop | None) -> None:
        """Nothing of the run is left; ``reason`` is None after an error."""
        self.reason = reason
        self.is_over = True
