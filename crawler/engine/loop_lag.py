"""Measures how long the event loop is blocked. A blocked loop sends no requests, reads no answers and fires no
timers."""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left
from typing import Any

INTERVAL = 0.1  # seconds between two measurements
STALL = 0.25  # seconds; no page should cause a delay this long
STANDSTILL = 0.1  # seconds; a shorter delay means a busy event loop, not a blocked one
# Upper bounds of the classes of delay, in seconds: from 0.1 ms to 100 s, each 20% above the one before.
_ENDS = [0.0001 * 1.2**step for step in range(77)]


class LoopLag:
    """A histogram of the delays of a timer that should fire every ``INTERVAL`` seconds. Memory is bounded, and each
    measurement costs one addition."""

    def __init__(self) -> None:
        self._classes = [0] * (len(_ENDS) + 1)
        self._looks = 0
        self.stalls = 0  # delays of STALL or longer
        self._work: tuple[float, str | None] = (0.0, None)  # the longest piece of work, if it was a stall
        self._due = math.inf  # when the timer should fire next, in seconds of the loop's clock
        self.longest = 0.0
        self.total = 0.0  # seconds: the sum of all delays of STANDSTILL or longer

    async def watch(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._due = loop.time() + INTERVAL
            await asyncio.sleep(INTERVAL)
            self.observe(max(0.0, loop.time() - self._due))

    def observe(self, seconds: float) -> None:
        """Count one delay."""
        self._classes[bisect_left(_ENDS, seconds)] += 1
        self._looks += 1
        self.longest = max(self.longest, seconds)
        self.total += _standstill(seconds)
        if seconds >= STALL:
            self.stalls += 1

    def held(self, work: str, seconds: float) -> None:
        """Record how long a piece of work took. Work in other threads is ignored, because it does not block the
        loop."""
        if seconds >= STALL and seconds > self._work[0] and _in_loop():
            self._work = seconds, work

    def stall_figures(self) -> dict[str, Any]:
        """Return the number of delays of ``STALL`` or longer, and the piece of work that blocked the loop longest; None
        if unknown."""
        return {"count": self.stalls, "work": self._work[1]}

    def stalled(self, now: float) -> float:
        """Return the total seconds of all standstills so far, including one that has just ended and is not yet
        observed. ``now`` is the time of the loop's clock."""
        return self.total + _standstill(now - self._due)

    def figures(self) -> dict[str, float]:
        """Return, in seconds, the 99th percentile of the delays, the longest delay, and the sum of all standstills."""
        return {"p99": self.p99(), "longest": self.longest, "total": self.total}

    def p99(self) -> float:
        """Return the delay, in seconds, that 99% of the measurements did not exceed: the upper bound of its class."""
        left = self._looks * 0.01
        for number in range(len(_ENDS), -1, -1):
            left -= self._classes[number]
            if left < 0:
                return min(self.longest, _ENDS[number]) if number < len(_ENDS) else self.longest
        return 0.0


def _standstill(late: float) -> float:
    """Return the estimated stall of the loop if its timer is ``late``: on average half an interval longer."""
    return late + INTERVAL / 2 if late >= STANDSTILL else 0.0


def _in_loop() -> bool:
    """Return whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
