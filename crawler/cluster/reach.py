"""Calls to the carrier. That it cannot be reached is expected: one line is said when that begins, and one at its end.
That it is full is another matter: claims go on, and so do requests. One line is said then too, and one when it has
taken everything for a while.

A call that gets no answer for a while counts as one that failed. Whoever waited for it asks again, and every verb may
be called again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from crawler.base.carrier.verbs import Carrier, CarrierError, CarrierFullError
from crawler.base.figures import duration

log = logging.getLogger("crawler")

T = TypeVar("T")

PATIENCE = 4.0  # seconds for an answer; a claim is held for longer
ROOM = 10.0  # seconds in which it refuses nothing: then it has room again
SAID = 0.5  # seconds after the first call that failed: then it is said. A process that was stopped finds old calls
BACKOFF = (0.1, 5.0)  # seconds before a call that failed is made again, at first and at most


class Span(Struct):
    """From the first to the last time that something was refused, and whether that was said."""

    first: float
    last: float
    has_said: bool = False

    def lasted(self) -> str:
        """In words."""
        return duration(self.last - self.first)


class Reach:
    """The carrier, as the parts of one process reach it."""

    def __init__(self, carrier: Carrier, boottime: Callable[[], float], say: Callable[[str], None] = log.warning):
        self.carrier = carrier
        self._boottime = boottime
        self._say = say
        self._lost_at: float | None = None
        self._has_said = False
        self._full: Span | None = None

    async def call(self, answer: Awaitable[T], patience: float = PATIENCE) -> T:
        """Wait for the answer to a call. Raises CarrierError, and what the verb raises besides."""
        try:
            async with asyncio.timeout(patience):
                result = await answer
        except TimeoutError:
            error = CarrierError(f"no answer in {patience:g} s")
            self._fail(error)
            raise error from None
        except CarrierFullError as error:
            self._answered()
            self._fill(error)
            raise
        except CarrierError as error:
            self._fail(error)
            raise
        self._answered()
        return result

    def _answered(self) -> None:
        if self._lost_at is not None:
            if self._has_said:
                self._say(f"the carrier of the crawl answers again, after {self._lasted()}")
            self._lost_at, self._has_said = None, False
        if self._full is not None and self._boottime() >= self._full.last + ROOM:
            if self._full.has_said:
                self._say(f"the carrier of the crawl has room again, after {self._full.lasted()}")
            self._full = None

    def _fill(self, error: CarrierFullError) -> None:
        now = self._boottime()
        full = self._full = self._full or Span(now, now)
        full.last = now
        if not full.has_said and now >= full.first + SAID:
            full.has_said = True
            self._say(f"the carrier of the crawl is full: {error}; nothing is lost, links wait until it has room")

    def _fail(self, error: CarrierError) -> None:
        now = self._boottime()
        if self._lost_at is None:
            self._lost_at = now
        if not self._has_said and now >= self._lost_at + SAID:
            self._has_said = True
            self._say(
                f"cannot reach the carrier of the crawl: {error}; nothing is lost, no page is fetched until it answers"
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
