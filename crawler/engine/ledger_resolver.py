"""Resolves doubted URLs while the crawl runs: looks up in the ledger each URL that the seen-set reports as seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL = 0.5  # seconds in which doubted URLs accumulate before they are looked up
MOST_INTERVAL = 1.0  # seconds; the longest time to accumulate them while pending URLs keep the crawl busy
PAUSE = 2.0  # pause after a slice, as a multiple of its duration. Lookups take at most a third of the event loop's time
MANY = 50_000  # doubted URLs above which lookups do not pause, so that their number stops growing
LEAST, MOST = 16, 1_024  # minimum and maximum URLs in a slice
SHORT, LONG = 0.001, 0.004  # target duration of a slice in seconds


async def resolve_beside(decide: Callable[[int], int], waiting: Callable[[], int], idle: Callable[[], bool]) -> None:
    """Look up doubted URLs until cancelled.

    ``decide(size)`` decides a slice of at most ``size`` URLs and returns how many it decided. ``waiting()`` returns how
    many URLs are left. ``idle()`` returns whether the crawl has nothing else to do; then lookups start at once.

    A slice reads the disk on the event loop, so slices shrink if they take long."""
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
            await asyncio.sleep(INTERVAL)  # no transaction can be written now
