"""The limit of requests a second, for all hosts together. Whatever makes a request waits for its turn here, also what
has no queued URL: the redirect of a robots.txt, the probe in an outage. A look-up of an address is no request."""

from __future__ import annotations

import asyncio
from collections import deque


class Rate:
    """Turns in order of arrival. ``rate``: requests a second; None: no limit."""

    def __init__(self, rate: float | None) -> None:
        # About ten periods a second, so that the requests of a second do not all come at its start. A period has whole
        # requests, so a slow rate has longer ones.
        self._most = 0 if rate is None else max(1, round(rate / 10))  # turns in a period
        self._period = 0.0 if rate is None else self._most / rate  # seconds
        self._line = asyncio.Lock()
        self._turns: deque[float] = deque(maxlen=self._most)  # times of the latest, by the clock of the loop

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return self._most > 0

    async def turn(self) -> None:
        """Wait until a request may be made."""
        if not self._most:
            return
        loop, turns = asyncio.get_running_loop(), self._turns
        async with self._line:
            if len(turns) == self._most and (wait := turns[0] + self._period - loop.time()) > 0:
                await asyncio.sleep(wait)
            turns.append(loop.time())
