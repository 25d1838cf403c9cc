"""Shares the event loop fairly. Whatever takes milliseconds waits for its turn, so that one pass of the loop takes a
few hundredths of a second at most, however many pages have come in at once. Signals, limits, timers and the sockets of
all hosts have their turn between two passes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

SHARE = 0.02  # seconds of a pass after which no further piece of work begins
_LOOKING = 8  # tasks behind the first that look in each pass whether time is left for them


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True, eq=False)
class _Place:
    """A place in line. ``look`` ends when the task is to look: True if it is its turn."""

    look: asyncio.Future[bool]


class Turns:
    """The turns of all tasks of one loop. A task takes a turn before each piece of work."""

    def __init__(self, share: float = SHARE, clock: Callable[[], float] | None = None) -> None:
        """``share`` and ``clock()`` are in seconds; the default is the clock of the running loop."""
        self._share = share
        self._clock = clock or _loop_time
        self._waiting: deque[_Place] = deque()
        self._begun = 0.0  # when this pass of the loop began
        self._counting = False  # whether this pass will be noticed to end

    async def turn(self) -> None:
        """Wait until a piece of work may begin: at once, unless this pass of the loop has taken its share of time."""
        if not self._counting:
            self._counting, self._begun = True, self._clock()
            asyncio.get_running_loop().call_soon(self._next_pass)
            return
        if not self._waiting and self._clock() - self._begun < self._share:
            return
        await self._wait()

    async def _wait(self) -> None:
        place = _Place(asyncio.get_running_loop().create_future())
        self._waiting.append(place)
        try:
            while not await place.look:
                if self._clock() - self._begun < self._share:
                    break
                place.look = asyncio.get_running_loop().create_future()
        finally:
            if place in self._waiting:  # near the head
                self._waiting.remove(place)

    def _next_pass(self) -> None:
        """The tasks at the head of the line run in the pass that begins. The first has its turn; the others look
        whether time is left."""
        self._begun = self._clock()
        if self._waiting:
            first = self._waiting.popleft()
            if not first.look.done():
                first.look.set_result(True)
            for place in islice(self._waiting, _LOOKING):
                if not place.look.done():
                    place.look.set_result(False)
            asyncio.get_running_loop().call_soon(self._next_pass)
        else:
            self._counting = False
