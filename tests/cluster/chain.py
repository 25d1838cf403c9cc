"""Chains of pages across hosts. One page links to each, on another host: with a link, all behind it is lost."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Self

from aiohttp import web

from tests.program import PATIENCE

HOSTS = 6  # addresses: each is a registrable domain of its own


class Chain:
    """``length`` pages in each of ``chains`` chains. The answer to a request takes ``latency`` seconds."""

    def __init__(self, chains: int, length: int, latency: float = 0.0) -> None:
        self._chains = chains
        self._length = length
        self._latency = latency
        self.asked = Counter[str]()
        self.begun = 0  # requests
        self.begins = list[float]()  # when each of them came

    @property
    def seeds(self) -> list[str]:
        """The first page of each chain."""
        return [self.url(chain, 0) for chain in range(self._chains)]

    @property
    def pages(self) -> set[str]:
        """All pages."""
        return {self.url(chain, step) for chain in range(self._chains) for step in range(self._length)}

    def url(self, chain: int, step: int) -> str:
        """A page."""
        return f"http://127.0.7.{1 + (chain + step) % HOSTS}:{self._port}/{chain}/{step}"

    def __enter__(self) -> Self:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the web did not come up"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_route("GET", "/{chain:\\d+}/{step:\\d+}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self._port = 0
        for number in range(HOSTS):
            await web.TCPSite(runner, f"127.0.7.{1 + number}", self._port).start()
            self._port = runner.addresses[0][1]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.begun += 1
        self.begins.append(self._loop.time())
        await asyncio.sleep(self._latency)
        chain, step = int(request.match_info["chain"]), int(request.match_info["step"])
        self.asked[self.url(chain, step)] += 1
        link = f'<a href="{self.url(chain, step + 1)}">next</a>' if step + 1 < self._length else ""
        return web.Response(text=f"<title>{chain}/{step}</title>{link}", content_type="text/html")
