"""The limit of requests a second, for all hosts together. Whatever makes a request waits for its turn here, also what
has no queued URL: the redirect of a robots.txt, the probe in an outage. A look-up of an address is no request."""

from __future__ import annotations

import asyncio

from asyncio_throttle.throttler import Throttler


class Rate:
    """Turns in order of arrival. ``rate``: requests a second; None: no limit."""

    def __init__(self, rate: float | None) -> None:
        self._throttler = None if rate is None else _throttler(rate)
        self._line = asyncio.Lock()  # the throttler polls for each one that waits, so one does at a time
        self.waiting = 0  # requests that wait for their turn

    def change(self, rate: float | None) -> None:
        """Set another limit. Who waits for a turn already has it by the old one."""
        self._throttler = None if rate is None else _throttler(rate)

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return self._throttler is not None

    async def turn(self) -> None:
        """Wait until a request may be made."""
        if self._throttler is None:
            return
        self.waiting += 1
        try:
            async with self._line:
                throttler = self._throttler  # another one, if the limit was changed meanwhile
                if throttler is not None:
                    await throttler.acquire()  # type: ignore[no-untyped-call]  # the library has no types
        finally:
            self.waiting -= 1


def _throttler(rate: float) -> Throttler:
    # About ten periods a second, so that the requests of a second do not all come at its start. The throttler counts
    # whole requests, so a slow rate needs a longer period.
    requests = max(1, round(rate / 10))
    return Throttler(rate_limit=requests, period=requests / rate)
