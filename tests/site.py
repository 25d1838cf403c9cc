"""Small real sites on loopback, served from a thread, and a protocol of what they were asked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from tests.program import PATIENCE

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Asked:
    """One request: where, and from when to when (monotonic seconds)."""

    host: str
    path: str
    start: float
    end: float


@dataclass
class Site:
    """``pages`` maps a path to a page's HTML or to a handler. Every port is a host with the same pages."""

    pages: Mapping[str, str | Handler]
    ports: int = 1
    latency: float = 0.0
    robots: str | Handler | None = None
    address: tuple[str, int] = ("127.0.0.1", 0)  # port 0: one that is free
    asked: list[Asked] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the site did not come up"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_route("GET", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        for _ in range(self.ports):
            await web.TCPSite(runner, *self.address).start()
        self.hosts += [f"{self.address[0]}:{port}" for _, port, *_ in runner.addresses]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        start = time.monotonic()
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            page = self.robots if request.path == "/robots.txt" else self.pages.get(request.path_qs)
            if page is None:
                return web.Response(status=404, text="no such page", content_type="text/html")
            if isinstance(page, str):
                kind = "text/plain" if request.path == "/robots.txt" else "text/html"
                return web.Response(text=page.replace("{host}", request.host), content_type=kind)
            return await page(request)
        finally:
            self.asked.append(Asked(request.host, request.path_qs, start, time.monotonic()))

    def url(self, path: str, host: int = 0) -> str:
        return f"http://{self.hosts[host]}{path}"

    def count(self, path: str) -> int:
        """How often a path was asked for, on all hosts."""
        return sum(asked.path == path for asked in self.asked)

    def pages_asked(self) -> list[str]:
        """All requests but those for robots.txt, as URLs."""
        return [f"http://{a.host}{a.path}" for a in self.asked if a.path != "/robots.txt"]


def linked(paths: Iterable[str]) -> str:
    """A page with these links."""
    return "<!doctype html><title>page</title>" + "".join(f'<a href="{path}">x</a>' for path in paths)


def tree(pages: int, fan: int = 7) -> dict[str, str]:
    """A site of ``pages`` pages below ``/``, each linking to ``fan`` further ones, to its parent and to the start."""
    return {
        _name(n): linked(
            [_name(child) for child in range(fan * n + 1, fan * n + fan + 1) if child < pages] + ["/", _name(n // fan)]
        )
        for n in range(pages)
    }


def _name(number: int) -> str:
    return "/" if number == 0 else f"/page/{number}"
