"""Time limits of exchanges. Time in which our own event loop stood still does not count against the host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from math import inf
from typing import NamedTuple, Protocol

from crawler.web.fetch.body_memory import Waits

Stalled = Callable[[float], float]

IDLE_MOST = 20.0  # maximum seconds without a byte
SLACK = 0.05  # seconds by which a limit may be exceeded, if another limit was just checked
_CLOCK = 1e-6  # seconds by which timers may fire early


def never(_: float) -> float:
    """Return 0.0: the default if the stalls of the loop are not measured."""
    return 0.0


class OwnDelays(NamedTuple):
    """Delays that the host does not cause. ``stalled(now)`` returns the seconds in which the event loop has stood still
    so far; ``now`` is the time on the loop's clock. Bodies wait for memory in a context of ``waits``."""

    stalled: Stalled = never
    waits: Waits = nullcontext


NO_DELAYS = OwnDelays()


class Heard(Protocol):
    """A connection: when its last byte arrived, by the loop's clock, and whether reading is paused."""

    heard: float

    @property
    def paused(self) -> bool: ...


class Alarm:
    """Checks the limits of all exchanges with one timer of the loop.

    Nearly all exchanges end long before their limits. Separate timers for each phase of an exchange, restarted at each
    byte, would cost more than all other bookkeeping of the exchange."""

    def __init__(self, stalled: Stalled = never) -> None:
        """``stalled(now)`` returns the seconds in which the loop has stood still since some fixed moment."""
        self._loop = asyncio.get_running_loop()
        self.time = self._loop.time
        self.stalled = stalled
        self._limited: dict[Patience, None] = {}
        self._at = inf  # time at which the timer fires
        self._timer: asyncio.TimerHandle | None = None

    def look(self, patience: Patience, at: float) -> None:
        """Check this exchange at ``at``, at most ``SLACK`` late, and then at each time that its ``judge`` returns."""
        self._limited[patience] = None
        if at < self._at:
            self._ring_at(at)

    def forget(self, patience: Patience) -> None:
        """Stop checking this exchange."""
        self._limited.pop(patience, None)

    def looks_at(self, patience: Patience) -> bool:
        """Return whether this exchange is checked."""
        return patience in self._limited

    def close(self) -> None:
        """Stop checking all exchanges."""
        self._limited.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer, self._at = None, inf
        now = self.time()
        following = inf
        for patience in tuple(self._limited):
            at = patience.judge(now)
            if at is None:
                self.forget(patience)
            else:
                following = min(following, at)
        if following < inf:
            self._ring_at(max(following, now + SLACK))


class Patience:
    """Counts the seconds of one exchange, and ends it when one of its phases takes too long.

    While the loop stands still, answers wait unread in their sockets. When it resumes, time limits would expire before
    the answers are read. So each limit is extended by the stalls since it was set."""

    __slots__ = ("_alarm", "_begun", "_due", "_limit", "_silence", "_since", "connection", "silent")

    def __init__(self, limit: asyncio.Timeout, alarm: Alarm) -> None:
        """``limit`` is the timeout that ends the exchange; only this object may reschedule it."""
        self._limit = limit
        self._alarm = alarm
        self._begun = self._now()
        self._due = self._since = 0.0
        self._silence = inf
        self.connection: Heard | None = None  # the connection of the exchange
        self.silent = False  # True if it ended because no byte arrived for too long

    def _now(self) -> float:
        """Return the seconds of a clock that stops while the loop does."""
        now = self._alarm.time()
        return now - self._alarm.stalled(now)

    @property
    def seconds(self) -> float:
        """The seconds since the exchange started."""
        return max(0.0, self._now() - self._begun)

    def allow(self, seconds: float, silence: float = inf) -> None:
        """Start a phase with these limits in seconds: for the whole phase, and for the time without a byte."""
        alarm = self._alarm
        now = self._since = alarm.time()
        self._due = now - alarm.stalled(now) + seconds
        self._silence = silence
        alarm.look(self, now + min(seconds, silence))

    def at_most(self, seconds: float) -> None:
        """Limit the current phase to this many seconds from now on."""
        if self._alarm.looks_at(self) and self._now() + seconds < self._due:
            self.allow(seconds, self._silence)

    def end(self) -> None:
        """End the exchange."""
        self._alarm.forget(self)

    def pause(self) -> float:
        """Suspend the time limit while the exchange waits for the crawler. Returns the value to pass to ``go_on``."""
        self._alarm.forget(self)
        return self._now()

    def go_on(self, paused: float) -> None:
        """Resume the time limit after ``pause``; the wait does not count."""
        now = self._now()
        self._begun += now - paused
        left = self._due - paused
        self.allow(max(0.0, left), self._silence)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which the time limit is suspended."""
        at = self.pause()
        try:
            yield
        finally:
            self.go_on(at)

    def judge(self, now: float) -> float | None:
        """Return when to check again; None if the time is over and the exchange has been ended."""
        left = self._due - (now - self._alarm.stalled(now))
        quiet = self._heard(now) + self._silence - now
        if left > _CLOCK and quiet > _CLOCK:
            return now + min(left, quiet)
        self.silent = left > _CLOCK
        self._limit.reschedule(now)
        return None

    def _heard(self, now: float) -> float:
        """Return when the last byte arrived. While reading is paused, return ``now``, because silence does not
        count."""
        connection = self.connection
        return now if connection is None or connection.paused else max(self._since, connection.heard)
