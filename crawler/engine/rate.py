"""The limit of requests a second, for all hosts together. Whatever makes a request waits for its turn here, also what
has no queued URL: the redirect of a robots.txt, the probe in an outage. A look-up of an address is no request.

The processes of one crawl share a limit: each is lent a part of it, which changes all the time (``LentRate``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from asyncio_throttle.throttler import Throttler

BURST = 0.1  # seconds for which what was not used may be used later; one request at least


class LentRate:
    """A limit that changes, and that holds for some time only: then there are no turns until it is lent again. Whatever
    the shares of several processes are, all of them together make no more requests than the sum of the shares permits,
    but for one request, or those of a tenth of a second, of each."""

    def __init__(self) -> None:
        self._share = 0.0
        self._left: Callable[[], float] = float
        self._ready = 0.0  # requests that may begin now
        self._at = asyncio.get_running_loop().time()
        self._changed = asyncio.Event()

    @property
    def share(self) -> float:
        """Requests a second that are permitted now."""
        return self._share if self._left() > 0 else 0.0

    def lend(self, share: float, left: Callable[[], float]) -> None:
        """``left()``: the seconds for which the share still holds."""
        self._flow()
        self._share, self._left = share, left
        self._changed.set()

    async def turn(self) -> None:
        """Wait until a request may be made. One may wait at a time."""
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
    """Turns in order of arrival. ``rate``: requests a second; None: no limit."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._throttler = None if rate is None else _throttler(rate)
        self._lent: LentRate | None = None
        self._line = asyncio.Lock()  # the throttler polls for each one that waits, so one does at a time
        self._busy_since = 0.0
        self._waited = 0.0  # seconds in which somebody waited
        self.waiting = 0  # requests that wait for their turn
        self.turns = 0  # that were given

    def change(self, rate: float | None) -> None:
        """Set another limit. Who waits for a turn already has it by the old one."""
        self._rate = rate
        self._throttler = None if rate is None else _throttler(rate)

    def share(self, lent: LentRate | None) -> None:
        """Give turns by a limit that is lent, and by the other one too; None: by the other one alone."""
        before, self._lent = self._lent, lent
        if before is not None and lent is None:
            before.lend(1e9, lambda: 1.0)  # who waits goes on

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return self._throttler is not None or self._lent is not None

    @property
    def a_second(self) -> float | None:
        """How many turns there are a second; None: as many as are wanted."""
        if self._lent is None:
            return self._rate
        return self._lent.share if self._rate is None else min(self._rate, self._lent.share)

    @property
    def waited(self) -> float:
        """The seconds in which somebody has waited."""
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
                throttler = self._throttler  # another one, if the limit was changed meanwhile
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
    # About ten periods a second, so that the requests of a second do not all come at its start. The throttler counts
    # whole requests, so a slow rate needs a longer period.
    requests = max(1, round(rate / 10))
    return Throttler(rate_limit=requests, period=requests / rate)
