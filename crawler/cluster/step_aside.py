"""A process that gets no answer from any host for a while steps aside if other processes can fetch, because its own
connection may be down. When a host answers again, the process rejoins.

If that host can be reached but answers no requests, the process steps aside again, for longer each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from crawler.cluster.seats import Seated

UNANSWERED = 30.0  # seconds without an answer from any host before a process steps aside
REST_FIRST, REST_MOST = 60.0, 3_600.0  # seconds to stay aside after rejoining has failed; doubles each time


class StepAside:
    """Tracks whether this process has stepped aside, and ``since`` when."""

    def __init__(self, name: str, boottime: Callable[[], float]) -> None:
        """``name``: the process's name."""
        self._name = name
        self._boottime = boottime
        self._back_at = -math.inf  # when it last rejoined
        self._rest = 0.0  # minimum seconds to stay aside
        self.since: float | None = None

    def look(self, unanswered: float, alive: Mapping[str, Seated]) -> str | None:
        """Decide whether to step aside or rejoin; no host has answered for ``unanswered`` seconds. Returns a line for
        the user if the decision changes."""
        now = self._boottime()
        if self.since is not None:
            if unanswered or now < self.since + self._rest:
                return None
            self.since, self._back_at = None, now
            return "a host is reachable from here again: this worker rejoins the crawl"
        others = any(each.fetches and each.name != self._name for each in alive.values())
        if unanswered < UNANSWERED or not others:
            return None
        self._rest = 0.0 if now > self._back_at + REST_MOST else min(max(REST_FIRST, 2 * self._rest), REST_MOST)
        self.since = now
        return (
            f"no host has answered here for {UNANSWERED:.0f} seconds, but other workers fetch: they take over the "
            "partitions of this worker until a host is reachable again"
        )
