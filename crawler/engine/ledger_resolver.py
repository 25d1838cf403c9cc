"""Resolves doubted URLs, those that the seen-set calls seen: looks each up in the ledger, beside the running crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL = 0.25  # seconds in which doubted URLs gather before they are looked up
MOST_INTERVAL = 1.0  # as long as URLs that are pending give the crawl something to do anyway
PAUSE = 2.0  # times as long as the slice before it: a third of the loop's time at most goes into looking up
MANY = 50_000  # doubted URLs from which on they must not become more
LEAST, MOST = 16, 1_024  # URLs in a slice
SHORT, LONG = 0.001, 0.004  # seconds that a slice should take


async def resolve_beside(decide: Callable[[int], int], waiting: Callable[[], int], idle: Callable[[], bool]) -> None:
    """Call ``decide`` with the size of a slice until cancelled; it returns how many URLs it decided. ``waiting``
    returns how many are left; if the crawl is ``idle``, it waits for nothing else.

    A slice reads the disk on the event loop, so it is made smaller where that takes long."""
    loop = asyncio.get_running_loop()
    size = LEAST
    while True:
        gathered = 0.0
        while not waiting() or (gathered < MOST_INTERVAL and not idle() and waiting() < MOST):
            await asyncio.sleep(INTERVAL)
            gathered += INTERVAL
        left = decided = waiting()
        while left > 0 and decided:
            began = loop.time()
            decided = decide(min(size, left))
            left -= decided
            took = loop.time() - began
            size = min(2 * size, MOST) if took < SHORT else max(size // 2, LEAST) if took > LONG else size
            await asyncio.sleep(0 if waiting() > MANY else PAUSE * took)
        if not decided:
            await asyncio.sleep(INTERVAL)  # no step can be written for now
