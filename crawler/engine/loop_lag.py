"""Measures how long the event loop is blocked. While it is, no request is sent, no answer is read and no timer
fires."""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left

INTERVAL = 0.02  # seconds between two looks at the clock
STANDSTILL = 0.1  # seconds; a shorter delay means a busy event loop, not a blocked one
# Upper bounds of the classes of delay, in seconds: from 0.1 ms to 100 s, each a fifth above the one before.
_ENDS = [0.0001 * 1.2**step for step in range(77)]


class LoopLag:
    """A histogram of the delays of a timer that should fire every ``INTERVAL`` seconds: bounded memory, one addition
    per look."""

    def __init__(self) -> None:
        self._classes = [0] * (len(_ENDS) + 1)
        self._looks = 0
        self._due = math.inf  # when the next look should be, in seconds of the loop's clock
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
        if seconds >= STANDSTILL:
            self.total += seconds

    def stalled(self) -> float:
        """Return the seconds of all standstills so far. One that has just ended is counted before it is observed."""
        late = asyncio.get_running_loop().time() - self._due
        return self.total + late if late >= STANDSTILL else self.total

    def figures(self) -> dict[str, float]:
        """Return, in seconds, the 99th percentile, the longest delay, and the sum of all standstills."""
        return {"p99": self.p99(), "longest": self.longest, "total": self.total}

    def p99(self) -> float:
        """Return the delay, in seconds, that 99% of the looks did not exceed: the upper bound of its class."""
        left = self._looks * 0.01
        for number in range(len(_ENDS), -1, -1):
            left -= self._classes[number]
            if left < 0:
                return min(self.longest, _ENDS[number]) if number < len(_ENDS) else self.longest
        return 0.0
