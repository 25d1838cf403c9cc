"""A process that no host has answered for a while steps aside, if others fetch: its line to the web may be cut. When a
host answers again, it comes back.

What can be reached may still not answer. Then it steps aside again, and stays so for longer each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from crawler.cluster.seats import Seated

UNANSWERED = 30.0  # seconds for which no host answers, before a process steps aside
REST_FIRST, REST_MOST = 60.0, 3_600.0  # seconds aside, if that did not help before: the time doubles


class StepAside:
    """Whether one process has stepped aside, and ``since`` when."""

    def __init__(self, name: str, boottime: Callable[[], float]) -> None:
        """``name`` is that of the process."""
        self._name = name
        self._boottime = boottime
        self._back_at = -math.inf  # from the last time
        self._rest = 0.0  # seconds to stay aside, at least
        self.since: float | None = None

    def look(self, unanswered: float, alive: Mapping[str, Seated]) -> str | None:
        """No host has answered here for so many seconds. Returns what is to be said of that."""
        now = self._boottime()
        if self.since is not None:
            if unanswered or now < self.since + self._rest:
                return None
            self.since, self._back_at = None, now
            return "a host can be reached from here again: this worker rejoins the crawl"
        others = any(each.fetches and each.name != self._name for each in alive.values())
        if unanswered < UNANSWERED or not others:
            return None
        self._rest = 0.0 if now > self._back_at + REST_MOST else min(max(REST_FIRST, 2 * self._rest), REST_MOST)
        self.since = now
        return (
            f"no host has answered here for {UNANSWERED:.0f} seconds, and others work: they go on with the "
            "partitions of this worker until a host can be reached again"
        )
