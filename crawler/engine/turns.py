"""Shares the event loop fairly. Whatever takes milliseconds waits for its turn, so that one pass of the loop takes a
few hundredths of a second at most, however many pages have come in at once. Signals, limits, timers and the sockets of
all hosts have their turn between two passes.

There are two lines. The first pieces of each page are in one; there are only as many as requests. The later pieces of
large bodies, a sitemap has hundreds, are *bulk* and in the other. It is served when nothing waits in the first, and in
one pass of four. So bulk work of many hosts holds up nobody's next page.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import chain, islice

from msgspec import Struct

SHARE = 0.02  # seconds of a pass after which no further piece of work begins
BULK_EVERY = 4  # passes, of which one begins with bulk work
_LOOKING = 8  # tasks behind the first that look in each pass whether time is left for them


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class _Place(Struct, eq=False):
    """A place in line. ``look`` ends when the task is to look: True if it is its turn."""

    look: asyncio.Future[bool]
    line: deque[_Place]


class Turns:
    """The turns of all tasks of one loop. A task takes a turn before each piece of work."""

    def __init__(self, share: float = SHARE, clock: Callable[[], float] | None = None) -> None:
        """``share`` and ``clock()`` are in seconds; the default is the clock of the running loop."""
        self._share = share
        self._clock = clock or _loop_time
        self._usual: deque[_Place] = deque()
        self._bulk: deque[_Place] = deque()
        self._passes = 0
        self._begun = 0.0  # when this pass of the loop began
        self._counting = False  # whether this pass will be noticed to end

    async def turn(self, *, bulk: bool = False) -> None:
        """Wait until a piece of work may begin: at once, unless this pass of the loop has taken its share of time.
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
            if place in line:  # near the head
                line.remove(place)

    def _next_pass(self) -> None:
        """The tasks at the heads of the lines run in the pass that begins. The first has its turn; the others look
        whether time is left."""
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
