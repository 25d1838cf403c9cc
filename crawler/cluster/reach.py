"""Calls to the carrier. That it cannot be reached is expected: one line is said when that begins, and one at its end.

A call that gets no answer for a while counts as one that failed. Whoever waited for it asks again, and every verb may
be called again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from crawler.carrier.verbs import Carrier, CarrierError
from crawler.figures import duration

log = logging.getLogger("crawler")

T = TypeVar("T")

PATIENCE = 4.0  # seconds for an answer; a claim is held for longer
SAID = 0.5  # seconds after the first call that failed: then it is said. A process that was stopped finds old calls
BACKOFF = (0.1, 5.0)  # seconds before a call that failed is made again, at first and at most


class Reach:
    """The carrier, as the parts of one process reach it."""

    def __init__(self, carrier: Carrier, boottime: Callable[[], float], say: Callable[[str], None] = log.warning):
        self.carrier = carrier
        self._boottime = boottime
        self._say = say
        self._lost_at: float | None = None
        self._has_said = False

    @property
    def is_lost(self) -> bool:
        """Whether the last call failed."""
        return self._lost_at is not None

    async def call(self, answer: Awaitable[T], patience: float = PATIENCE) -> T:
        """Wait for the answer to a call. Raises CarrierError, and what the verb raises besides."""
        try:
            async with asyncio.timeout(patience):
                result = await answer
        except TimeoutError:
            error = CarrierError(f"no answer in {patience:g} s")
            self._fail(error)
            raise error from None
        except CarrierError as error:
            self._fail(error)
            raise
        if self._lost_at is not None:
            if self._has_said:
                self._say(f"what carries links between partitions answers again, after {self._lasted()}")
            self._lost_at, self._has_said = None, False
        return result

    def _fail(self, error: CarrierError) -> None:
        now = self._boottime()
        if self._lost_at is None:
            self._lost_at = now
        if not self._has_said and now >= self._lost_at + SAID:
            self._has_said = True
            self._say(
                f"what carries links between partitions cannot be reached: {error}; nothing is lost, and no page is "
                "asked for until it answers"
            )

    def _lasted(self) -> str:
        return duration(self._boottime() - (self._lost_at or 0.0))


class Backoff:
    """The pauses between calls that fail: each twice as long as the one before."""

    def __init__(self) -> None:
        self._next = BACKOFF[0]

    def reset(self) -> None:
        """A call succeeded."""
        self._next = BACKOFF[0]

    async def rest(self) -> None:
        """Wait before the next try."""
        pause, self._next = self._next, min(BACKOFF[1], 2 * self._next)
        await asyncio.sleep(pause)
