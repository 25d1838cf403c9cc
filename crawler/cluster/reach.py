"""Makes the calls to the carrier. Outages are expected: one line is logged when an outage starts, and one when it ends.
A full carrier is a separate case, in which claims and requests continue. One line is logged when the carrier becomes
full, and another once it has accepted everything for a while.

A call that is not answered in time counts as failed. The caller retries it, and every verb may safely be called again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from msgspec import Struct

from crawler.base.carrier.verbs import Carrier, CarrierError, CarrierFullError
from crawler.base.figures import duration

log = logging.getLogger("crawler")

T = TypeVar("T")

PATIENCE = 4.0  # seconds to wait for an answer; claims last longer
ROOM = 10.0  # seconds without a refusal after which the carrier counts as having room
SAID = 0.5  # failures are logged after this many seconds: calls also fail if this process itself was stopped
BACKOFF = (0.1, 5.0)  # minimum and maximum seconds before a failed call is retried


class Span(Struct):
    """The times of the first and the last refusal in a row, and whether they were logged."""

    first: float
    last: float
    has_said: bool = False

    def lasted(self) -> str:
        """Return the time from the first refusal to the last one as text."""
        return duration(self.last - self.first)


class Reach:
    """Access to the carrier for the parts of one process."""

    def __init__(self, carrier: Carrier, boottime: Callable[[], float], say: Callable[[str], None] = log.warning):
        self.carrier = carrier
        self._boottime = boottime
        self._say = say
        self._lost_at: float | None = None
        self._has_said = False
        self._full: Span | None = None

    async def call(self, answer: Awaitable[T], patience: float = PATIENCE) -> T:
        """Wait for the answer to a call. Raises CarrierError, and the verb's other errors."""
        try:
            async with asyncio.timeout(patience):
                result = await answer
        except TimeoutError:
            error = CarrierError(f"no answer within {patience:g} s")
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
                self._say(f"the crawl's engine answers again after {self._lasted()}")
            self._lost_at, self._has_said = None, False
        if self._full is not None and self._boottime() >= self._full.last + ROOM:
            if self._full.has_said:
                self._say(f"the crawl's engine has room again after {self._full.lasted()}")
            self._full = None

    def _fill(self, error: CarrierFullError) -> None:
        now = self._boottime()
        full = self._full = self._full or Span(now, now)
        full.last = now
        if not full.has_said and now >= full.first + SAID:
            full.has_said = True
            self._say(f"the crawl's engine is full: {error}; nothing is lost, links wait until it has room")

    def _fail(self, error: CarrierError) -> None:
        now = self._boottime()
        if self._lost_at is None:
            self._lost_at = now
        if not self._has_said and now >= self._lost_at + SAID:
            self._has_said = True
            self._say(
                f"cannot reach the crawl's engine: {error}; nothing is lost, but no page is fetched until it answers"
            )

    def _lasted(self) -> str:
        return duration(self._boottime() - (self._lost_at or 0.0))


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Make the calls concurrently, so that a carrier can answer them together, and return their results. Raises the
    first error once all calls have ended."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for each in answers:
        if isinstance(each, BaseException):
            raise each
    return [each for each in answers if not isinstance(each, BaseException)]


class Backoff:
    """Pauses between failing calls; each is twice as long as the one before."""

    def __init__(self) -> None:
        self._next = BACKOFF[0]

    def reset(self) -> None:
        """Reset to the shortest pause, after a successful call."""
        self._next = BACKOFF[0]

    async def rest(self) -> None:
        """Wait before the next try."""
        pause, self._next = self._next, min(BACKOFF[1], 2 * self._next)
        await asyncio.sleep(pause)
