"""The time that a host takes. The time in which our own event loop stood still is not the host's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from crawler.fetch.body_memory import Waits

Stalled = Callable[[], float]


def never() -> float:
    """The stalls of a loop that nobody measures."""
    return 0.0


class OwnDelays(NamedTuple):
    """What takes time and is not the host's. ``stalled()`` returns the seconds in which the event loop stood still so
    far. Bodies wait for memory in a context of ``waits``."""

    stalled: Stalled = never
    waits: Waits = nullcontext


NO_DELAYS = OwnDelays()


class Patience:
    """Counts the seconds of one exchange, and ends it when one of its phases takes too long.

    While the loop stands still, answers wait unread in their sockets. When it goes on, time limits would strike before
    the answers are read. So each limit is extended by the stalls since it was set."""

    __slots__ = ("_begun", "_due", "_handle", "_limit", "_stalled")

    def __init__(self, limit: asyncio.Timeout, stalled: Stalled) -> None:
        """``limit`` ends the exchange; nothing else may reschedule it. ``stalled()`` returns the seconds, since any
        moment, in which the loop stood still."""
        self._limit = limit
        self._stalled = stalled
        self._begun = self._now()
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def _now(self) -> float:
        """Seconds of a clock that stops while the loop does."""
        return asyncio.get_running_loop().time() - self._stalled()

    @property
    def seconds(self) -> float:
        """Seconds since the exchange began."""
        return max(0.0, self._now() - self._begun)

    def allow(self, seconds: float) -> None:
        """Begin a phase that may take so long."""
        self.end()
        self._due = self._now() + seconds
        self._handle = asyncio.get_running_loop().call_later(seconds, self._judge)

    def at_most(self, seconds: float) -> None:
        """Let the phase that has begun take no longer than this from now on."""
        if self._handle is not None and self._now() + seconds < self._due:
            self.allow(seconds)

    def end(self) -> None:
        """The exchange is over."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def pause(self) -> float:
        """Stop the time limit; the exchange waits for us. Returns what ``go_on`` needs."""
        self.end()
        return self._now()

    def go_on(self, paused: float) -> None:
        """The wait that ``pause`` began is over; it does not count."""
        now = self._now()
        self._begun += now - paused
        left = self._due - paused
        self.allow(max(0.0, left))

    def _judge(self) -> None:
        loop, left = asyncio.get_running_loop(), self._due - self._now()
        if left > 0:
            self._handle = loop.call_later(left, self._judge)
        else:
            self._handle = None
            self._limit.reschedule(loop.time())
