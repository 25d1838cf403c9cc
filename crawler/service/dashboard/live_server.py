"""The dashboard's routes.

``/`` the page, ``/page/NAME`` its parts, ``/metrics``, ``/api/stats``, ``/api/log``, ``/api/events``, ``/healthz``.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Protocol

from aiohttp import web
from prometheus_client import ProcessCollector

from crawler.base.settings.parts import DashboardSettings
from crawler.job.metrics.prometheus import exposition
from crawler.service.dashboard.access import Access, parse_listen
from crawler.service.dashboard.event_stream import Listeners
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.guard import HEADERS, NO_STORE, answer, revalidated
from crawler.service.dashboard.http_server import HttpServer, Limits

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Ticking(Protocol):
    """The object that a server shows to its listeners and ticks at intervals."""

    def observe(self) -> None: ...

    def tick(self) -> None: ...

    def end(self) -> None: ...


class LiveServer:
    """Serves ``routes`` and ticks ``shown`` every ``settings.interval`` seconds. Raises ValueError with a one-line
    message if the settings contain no usable address."""

    def __init__(
        self,
        settings: DashboardSettings,
        shown: Ticking,
        routes: Sequence[web.RouteDef],
        access: Access,
        limits: Limits | None = None,
    ) -> None:
        self._listen = parse_listen(settings.listen or "")
        self._shown = shown
        self._interval = settings.interval
        self.server = HttpServer(access, routes, limits or Limits())
        self.ticking: asyncio.Task[None] | None = None
        self.ends = True  # False if another server will follow at this address, to which the listeners then reconnect

    async def start(self) -> str:
        """Bind, and return the URL to open (without the token). Raises OSError if it cannot bind."""
        host, port = self._listen
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
        _page_files()
        await self.server.start(listening)
        self._shown.observe()
        self.ticking = asyncio.create_task(self._tick())
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        return f"http://{shown}:{listening.getsockname()[1]}/"

    async def stop(self) -> None:
        """Stop the server. If ``ends``, first send the final statistics to all listeners. If ``stats`` fails, raises
        its exception."""
        if self.ticking is None:
            return
        ticking, self.ticking = self.ticking, None
        ticking.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await ticking
            if self.ends:
                self._shown.end()
        finally:
            await self.server.stop()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            # Ticks are due at fixed intervals. After a stall they continue from now, without a burst.
            due = max(due + self._interval, loop.time())
            await asyncio.sleep(due - loop.time())
            self._shown.tick()


class JobPage:
    """Serves one job: the page, its statistics for programs, and its events. All data comes from ``feed``; the server
    that uses these routes must tick it."""

    def __init__(self, feed: Feed, write_timeout: float = 30.0) -> None:
        self.feed = feed
        self._write_timeout = write_timeout
        self._process = ProcessCollector(registry=None)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._page),
            web.get("/page/{name}", self._page),
            web.get("/metrics", self._metrics),
            web.get("/api/stats", self._api_stats),
            web.get("/api/log", self._api_log),
            web.get("/api/events", self._api_events, allow_head=False),
            web.get("/healthz", self._healthz),
        ]

    async def _page(self, request: web.Request) -> web.Response:
        return page_file(request, request.match_info.get("name", "index.html"))

    async def _metrics(self, request: web.Request) -> web.Response:
        text, kind = exposition(self.feed.stats(), request.headers.get("Accept", ""), self._process)
        return web.Response(body=text, headers={"Content-Type": kind, "Cache-Control": "no-store", "Vary": "Accept"})

    async def _api_stats(self, request: web.Request) -> web.Response:
        return answer(self.feed.stats())

    async def _api_log(self, request: web.Request) -> web.Response:
        asked = request.query.get("after", "0")
        if not (asked.isascii() and asked.isdigit() and len(asked) < 20):
            raise web.HTTPBadRequest(text="after must be the number of an event.")
        events = self.feed.history.events
        return answer({"last": events.last, "events": events.after(int(asked))})

    async def _healthz(self, request: web.Request) -> web.Response:
        state = self.feed.stats().get("state")
        over = state in ("ended", "stopped", "copy")
        return web.Response(status=503 if over else 200, text=f"{state if over else 'ok'}\n", headers=NO_STORE)

    async def _api_events(self, request: web.Request) -> web.StreamResponse:
        return await stream(request, self.feed.listeners, self.feed.greeting, self._write_timeout)


class Dashboard(LiveServer):
    """Shows the feed of one job to all clients.

    ``routes`` are the caller's own routes, which need more than the crawl's statistics; they are guarded like all other
    routes. Raises ValueError like ``LiveServer``.
    """

    def __init__(
        self,
        settings: DashboardSettings,
        feed: Feed,
        routes: Sequence[web.RouteDef],
        access: Access,
        limits: Limits | None = None,
    ) -> None:
        limits = limits or Limits()
        super().__init__(settings, feed, [*JobPage(feed, limits.write_timeout).routes(), *routes], access, limits)
        self.feed = feed


async def stream(
    request: web.Request, listeners: Listeners, greeting: Callable[[], bytes], write_timeout: float
) -> web.StreamResponse:
    """Send the greeting and then the messages for ``listeners``, until the last message or until the client stops
    reading."""
    if listeners.full:
        raise web.HTTPServiceUnavailable(text="Too many listeners.\n")
    response = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    with listeners.join() as listener:
        listener.offer(greeting())
        last = False
        while not last:
            news, last = await listener.take()
            try:
                # This returns when the connection's buffer has room again.
                async with asyncio.timeout(write_timeout):
                    await response.write(news)
            except (ConnectionError, TimeoutError):
                # Otherwise the server would wait until the listener has read everything.
                if request.transport is not None:
                    request.transport.abort()
                break
    return response


def page_file(request: web.Request, name: str) -> web.Response:
    """Respond with a file of the page. Raises HTTPNotFound."""
    files = _page_files()
    if name not in files:
        raise web.HTTPNotFound
    body, etag = files[name]
    kind = _TYPES[name.rpartition(".")[2]]
    # The response is usually 304: browsers ask each time, so they never mix files of two program versions.
    return revalidated(request, web.Response(body=body, content_type=kind, charset="utf-8"), etag)


@cache
def _page_files() -> dict[str, tuple[bytes, str]]:
    """Return name -> content and entity tag of each file that the browser may load."""
    files, charts = {}, resources.files("crawler.job.metrics").joinpath("charts")
    parts = resources.files("crawler.service.dashboard").joinpath("page"), charts, charts.joinpath("uplot")
    for file in (file for part in parts for file in part.iterdir()):
        if file.name.rpartition(".")[2] in _TYPES:
            body = file.read_bytes()
            files[file.name] = body, f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    return files
