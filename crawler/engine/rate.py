"""Limits the total number of requests per second to all hosts. Every request waits for its turn here, including those
without a queued URL: a redirect of a robots.txt, or a probe in an outage. Address lookups do not count as requests.

The processes of one crawl share a limit: each holds a share of it, which changes all the time (``LentRate``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from asyncio_throttle.throttler import Throttler

BURST = 0.1  # seconds for which unused turns are kept; at least one turn is kept


class LentRate:
    """A share of a limit that changes and expires: after its expiry no turns are given until it is renewed. However the
    shares of several processes change, their total number of requests exceeds the sum of the shares by at most one
    request, or a tenth of a second's requests, for each process."""

    def __init__(self) -> None:
        self._share = 0.0
        self._left: Callable[[], float] = float
        self._ready = 0.0  # requests that may start now
        self._at = asyncio.get_running_loop().time()
        self._changed = asyncio.Event()

    @property
    def share(self) -> float:
        """The number of requests a second that is permitted now."""
        return self._share if self._left() > 0 else 0.0

    def lend(self, share: float, left: Callable[[], float]) -> None:
        """Set the share. ``left()``: the seconds until it expires."""
        self._flow()
        self._share, self._left = share, left
        self._changed.set()

    async def turn(self) -> None:
        """Wait until a request may be made. Only one task may wait at a time."""
        while True:
            self._changed.clear()
            self._flow()
            if self._ready >= 1 and self.share:
                self._ready -= 1
                return
            pause = max(0.001, (1 - self._ready) / self.share) if self.share else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    def _flow(self) -> None:
        now = asyncio.get_running_loop().time()
        held = max(0.0, now - self._at + min(0.0, self._left()))
        self._at = now
        self._ready = min(max(1.0, self._share * BURST), self._ready + held * self._share)


class Rate:
    """Gives turns in order of arrival. ``rate``: requests a second; None means no limit."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._throttler = None if rate is None else _throttler(rate)
        self._lent: LentRate | None = None
        self._line = asyncio.Lock()  # the throttler polls for each waiting task, so only one waits in it at a time
        self._busy_since = 0.0
        self._waited = 0.0  # seconds in which at least one task waited
        self.waiting = 0  # requests that wait for their turn
        self.turns = 0  # turns given

    def change(self, rate: float | None) -> None:
        """Set another limit. A task that already waits in the throttler still gets its turn under the old limit."""
        self._rate = rate
        self._throttler = None if rate is None else _throttler(rate)

    def share(self, lent: LentRate | None) -> None:
        """Also limit turns by a share lent to this process; None removes that limit."""
        before, self._lent = self._lent, lent
        if before is not None and lent is None:
            before.lend(1e9, lambda: 1.0)  # let tasks that wait for a lent turn continue

    @property
    def limits(self) -> bool:
        """True if there is a limit."""
        return self._throttler is not None or self._lent is not None

    @property
    def a_second(self) -> float | None:
        """The limit in turns a second; None means no limit."""
        if self._lent is None:
            return self._rate
        return self._lent.share if self._rate is None else min(self._rate, self._lent.share)

    @property
    def waited(self) -> float:
        """The total time, in seconds, during which at least one task has waited."""
        since = asyncio.get_running_loop().time() - self._busy_since if self.waiting else 0.0
        return self._waited + since

    async def turn(self) -> None:
        """Wait until a request may be made."""
        if not self.limits:
            return
        loop = asyncio.get_running_loop()
        if not self.waiting:
            self._busy_since = loop.time()
        self.waiting += 1
        try:
            async with self._line:
                throttler = self._throttler  # the limit may have changed meanwhile
                if throttler is not None:
                    await throttler.acquire()  # type: ignore[no-untyped-call]  # the library has no types
                if self._lent is not None:
                    await self._lent.turn()
                self.turns += 1
        finally:
            self.waiting -= 1
            if not self.waiting:
                self._waited += loop.time() - self._busy_since


def _throttler(rate: float) -> Throttler:
    # Use about ten periods a second, to spread the requests over each second. The throttler counts whole requests, so a
    # slow rate needs a longer period.
    requests = max(1, round(rate / 10))
    return Throttler(rate_limit=requests, period=requests / rate)
