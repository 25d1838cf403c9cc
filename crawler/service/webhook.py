"""Posts JSON to one URL, beside a crawl: nothing waits for it, and nothing of it stops the crawl.

What is to be posted waits in a short queue; if that is full, the oldest is dropped. Each is tried a few times, one
after the other; at the end of the crawl all at once, so that one that is not taken keeps none from its try. A redirect
is not followed: the URL is the operator's own, and may be an address of a private network, but where it leads
to is not theirs to say. The URL may be a secret, so messages name only its host.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct

log = logging.getLogger("crawler")

MOST_WAITING = 32


class Patience(Struct, frozen=True):
    """Seconds: ``timeout`` of one try, ``waits`` between tries, ``last`` for all that is left when the crawl ends."""

    timeout: float = 10.0
    waits: tuple[float, ...] = (2.0, 15.0)
    last: float = 5.0


class Webhook:
    """The endpoint ``url``. Use ``keep`` and ``close`` from one event loop."""

    def __init__(self, url: str, patience: Patience) -> None:
        self._url = url
        self._patience = patience
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=MOST_WAITING)
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ending = asyncio.Event()

    @property
    def host(self) -> str:
        """The part of the URL that is no secret."""
        return urlsplit(self._url).netloc

    def post(self, content: Mapping[str, Any]) -> None:
        """Have something posted."""
        if len(self._waiting) == MOST_WAITING:
            log.warning("%s takes no notices: the oldest is dropped", self.host)
        self._waiting.append(content)
        self._idle.clear()
        self._news.set()

    async def keep(self) -> None:
        """Post until cancelled."""
        timeout = aiohttp.ClientTimeout(total=self._patience.timeout)
        async with aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": "crawler"}) as session:
            ending = asyncio.create_task(self._ending.wait())
            sending = set[asyncio.Task[None]]()
            try:
                while True:
                    await self._news.wait()
                    while self._waiting or sending:
                        if self._waiting and (not sending or ending.done()):
                            sending.add(asyncio.create_task(self._deliver(session, self._waiting.popleft())))
                            continue
                        end = set() if ending.done() else {ending}
                        await asyncio.wait(sending | end, return_when=asyncio.FIRST_COMPLETED)
                        for sent in [each for each in sending if each.done()]:
                            sending.remove(sent)
                            sent.result()
                    self._news.clear()
                    self._idle.set()
            finally:
                for task in (ending, *sending):
                    task.cancel()
                await asyncio.gather(ending, *sending, return_exceptions=True)

    async def settle(self) -> None:
        """Wait until all is posted or given up, but not for long."""
        self._ending.set()
        try:
            async with asyncio.timeout(self._patience.last):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%s did not take the last notice in %g s", self.host, self._patience.last)

    async def _deliver(self, session: aiohttp.ClientSession, content: Mapping[str, Any]) -> None:
        why = ""
        for wait in (*self._patience.waits, None):
            why, lasting = await self._try(session, content)
            if not why:
                return
            if lasting or wait is None:
                break
            await asyncio.sleep(wait)
        log.warning("%s did not take a notice: %s", self.host, why)

    async def _try(self, session: aiohttp.ClientSession, content: Mapping[str, Any]) -> tuple[str, bool]:
        """Return why it was not taken, empty if it was; and whether another try would end in the same way."""
        try:
            async with session.post(self._url, json=content, allow_redirects=False) as answer:
                if 200 <= answer.status < 300:
                    return "", False
                lasting = answer.status < 500 and answer.status not in (408, 425, 429)
                return f"it answered {answer.status}", lasting
        except TimeoutError:
            return f"no answer within {self._patience.timeout:g} s", False
        except aiohttp.InvalidURL:
            return "its URL cannot be used", True
        except aiohttp.ClientConnectorError as error:
            return f"it cannot be reached: {error.os_error.strerror or type(error.os_error).__name__}", False
        except (aiohttp.ClientError, OSError) as error:
            return f"{type(error).__name__}", False
