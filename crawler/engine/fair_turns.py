"""Shares the event loop fairly. Work that takes milliseconds waits for its turn, so that one pass of the loop takes a
few hundredths of a second at most, however many pages have come in at once. Signals, limits, timers and the sockets of
all hosts have their turn between two passes.

There are two lines. The first piece of work on each page waits in the first line, which is thus no longer than the
number of requests. The later pieces of large bodies (a sitemap has hundreds) are *bulk* and wait in the second line.
Bulk work runs when the first line is empty, and goes first in every fourth pass. So bulk work of many hosts does not
delay other pages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import chain, islice

from msgspec import Struct

SHARE = 0.02  # seconds of a pass after which no further piece of work starts
BULK_EVERY = 4  # every n-th pass starts with bulk work
_LOOKING = 8  # number of tasks after the first in line that check in each pass whether time is left for them


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class _Place(Struct, eq=False):
    """A place in line. ``look`` resolves when the task must check whether it may run: to True if it is its turn."""

    look: asyncio.Future[bool]
    line: deque[_Place]


class Turns:
    """The turns of all tasks of one loop. A task takes a turn before each piece of work."""

    def __init__(self, share: float = SHARE, clock: Callable[[], float] | None = None) -> None:
        """``share`` and ``clock()`` are in seconds; the default clock is that of the running loop."""
        self._share = share
        self._clock = clock or _loop_time
        self._usual: deque[_Place] = deque()
        self._bulk: deque[_Place] = deque()
        self._passes = 0
        self._begun = 0.0  # time at which this pass of the loop started
        self._counting = False  # True if a callback will record the end of this pass

    async def turn(self, *, bulk: bool = False) -> None:
        """Wait until a piece of work may start: at once, unless this pass of the loop has used its share of time.
        ``bulk``: it is a later piece of a large body."""
        if not self._counting:
            self._counting, self._begun = True, self._clock()
            asyncio.get_running_loop().call_soon(self._next_pass)
            return
        waits = self._usual or (bulk and self._bulk)
        if not waits and self._clock() - self._begun < self._share:
            return
        await self._wait(self._bulk if bulk else self._usual)

    async def _wait(self, line: deque[_Place]) -> None:
        place = _Place(asyncio.get_running_loop().create_future(), line)
        line.append(place)
        try:
            while not await place.look:
                if self._clock() - self._begun < self._share:
                    break
                place.look = asyncio.get_running_loop().create_future()
        finally:
            if place in line:  # a task that was only near the head is still in line
                line.remove(place)

    def _next_pass(self) -> None:
        """Run the tasks at the heads of the lines in the pass that starts now. The first task has its turn; the others
        check whether time is left for them."""
        self._begun = self._clock()
        self._passes += 1
        lines = (self._usual, self._bulk) if self._passes % BULK_EVERY else (self._bulk, self._usual)
        places = list(islice(chain(*lines), 1 + _LOOKING))
        if places:
            places[0].line.popleft()
            for place in places:
                if not place.look.done():
                    place.look.set_result(place is places[0])
            asyncio.get_running_loop().call_soon(self._next_pass)
        else:
            self._counting = False
