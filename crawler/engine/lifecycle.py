"""The states of a run from start to end, and the reasons why it stops. Pure: time and counts are arguments."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from crawler.base.settings.parts import CrawlSettings


class State(StrEnum):
    """The state of the crawl."""

    RUNNING = "running"
    PAUSED = "paused"  # by the user, a full disk, or an outage
    STOPPING = "stopping"
    ENDED = "ended"  # no URLs are left
    STOPPED = "stopped"  # by a limit, a signal or an error, with URLs left


class Stop(StrEnum):
    """Why the crawl stopped handing out URLs."""

    FINISHED = "finished"
    MAX_PAGES = "max-pages"
    MAX_TIME = "max-time"
    MIN_FREE = "min-free"
    READER_LEFT = "reader-left"  # the reader of standard output has closed it
    CODE = "code"  # user code failed and is set to stop the crawl
    INTERRUPTED = "interrupted"


class PausedBy(StrEnum):
    """The cause of a pause."""

    USER = "user"
    DISK = "disk"
    OUTAGE = "outage"
    SCHEDULE = "schedule"  # the time is outside the hours of its schedule
    ROUND = "round"  # everything is done until the next round of the schedule
    HOURS = "hours"  # all waiting hosts are outside their hours


class Pause(Struct, frozen=True):
    """Why the crawl hands out no URLs although it is not over. ``detail``: the system's message, the full reason of an
    outage, or the time at which hours start."""

    by: PausedBy
    detail: str = ""


class Lifecycle:
    """The life of one run that starts at ``now`` (seconds since 1970)."""

    def __init__(self, settings: CrawlSettings, now: float) -> None:
        self.started_at = now
        self.reason: Stop | None = None  # why the run hands out no more URLs
        self.is_over = False
        self.held = False  # True while the run is paused by the user
        self.change(settings)

    def change(self, settings: CrawlSettings) -> None:
        """Apply changed limits. The time limit counts from the start of the run."""
        self.max_pages = settings.max_pages
        self.deadline = None if settings.max_time is None else self.started_at + settings.max_time

    @property
    def state(self) -> State:
        if self.is_over:
            return State.ENDED if self.reason is Stop.FINISHED else State.STOPPED
        return State.RUNNING if self.reason is None else State.STOPPING

    @property
    def serves(self) -> bool:
        """True if the run has neither stopped nor ended."""
        return self.reason is None and not self.is_over

    def limit_reached(self, now: float, fetched: int) -> Stop | None:
        """Return the limit that ends the run now, if any. ``fetched`` counts the job's pages, not only the run's."""
        if self.deadline is not None and now >= self.deadline:
            return Stop.MAX_TIME
        if self.max_pages is not None and fetched >= self.max_pages:
            return Stop.MAX_PAGES
        return None

    def stop(self, reason: Stop) -> bool:
        """Stop handing out URLs, and return whether it was this call that stopped the run.

        If a limit is already stopping the run, an interruption still replaces the reason. Once the run is over, the
        reason does not change."""
        if self.is_over:
            return False
        first = self.reason is None
        if first or reason is Stop.INTERRUPTED:
            self.reason = reason
        return first

    def end(self, reason: Stop | None) -> None:
        """Mark the run as over. ``reason`` is None if it was aborted."""
        self.reason = reason
        self.is_over = True
