"""The one clock of a job."""

from __future__ import annotations

import time


class SteadyClock:
    """Seconds since 1970 that never jump.

    Read off the wall once, at the start, and carried on by the monotonic clock: a wall clock that is set an hour
    forward or back while the crawl runs makes neither a burst nor a stall, and what is stored is still a time of day.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        """The time now, in seconds since 1970."""
        return self._offset + time.monotonic()
