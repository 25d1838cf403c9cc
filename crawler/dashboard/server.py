"""The dashboard's HTTP side.

``/`` the page, ``/page/NAME`` its parts, ``/metrics``, ``/api/stats``, ``/api/log``, ``/api/events``, ``/healthz``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import resources
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError
from prometheus_client import ProcessCollector

from crawler.dashboard.access import Access
from crawler.dashboard.event_stream import Listeners, message
from crawler.dashboard.guard import HEADERS, guarded_application
from crawler.dashboard.listen import is_loopback, parse_listen
from crawler.metrics import Course
from crawler.metrics.prometheus import exposition
from crawler.settings import DashboardSettings

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# What the page drops while it is open (points between thinned ones) it gets back this often, in ticks.
_HISTORY_EVERY = 60
_NEWS_MOST = 50  # events in a message; who wants them all asks for them
# A listener that takes nothing for so many seconds is gone.
_WRITE_TIMEOUT = 30.0
# A connection that brings no whole request for so many seconds is closed.
_IDLE_TIMEOUT = 20.0
# Open at a time, idle ones among them; they take file descriptors that the crawl needs too.
MOST_CONNECTIONS = 1_024


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line of the library's is worth the crawl's log: not what strangers send that is no HTTP."""
    theirs = (HttpProcessingError, web.RequestPayloadError)
    return record.exc_info is None or not isinstance(record.exc_info[1], theirs)


_log = logging.getLogger("crawler.dashboard")
_log.addFilter(_is_ours)


class Dashboard:
    """Shows what ``stats()`` returns, once every ``settings.interval`` seconds, to whoever looks.

    ``stats`` is called in the event loop and must be quick; ``clock()`` is in seconds since 1970. ``routes`` are those
    that need more of the crawl than its statistics: they come from above, and stand behind the same guard. ``course``
    is what was seen before; what is seen from now on is added to it. Raises ValueError with one line when the settings
    name no usable address, or one beyond this machine where everybody may look.
    """

    def __init__(
        self,
        settings: DashboardSettings,
        stats: Callable[[], dict[str, Any]],
        clock: Callable[[], float],
        routes: Sequence[web.RouteDef] = (),
        access: Access | None = None,
        course: Course | None = None,
    ) -> None:
        self._host, self._port = parse_listen(settings.listen or "")
        self._access = access or Access(settings.token or None, to_look=bool(settings.token))
        if not is_loopback(self._host) and not (self._access.to_look and self._access.token):
            raise ValueError(f"a dashboard on {self._host} can be reached by others: it needs a token")
        self._interval = settings.interval
        self._stats = stats
        self._clock = clock
        self._routes = routes
        self._process = ProcessCollector(registry=None)
        self._course = course or Course()
        self._told = self._course.events.last
        self._greets: bytes | None = None
        self._listeners = Listeners()
        self._runner: web.AppRunner | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._files: dict[str, tuple[bytes, str]] = {}

    async def start(self) -> str:
        """Binds, and returns the URL to open (without the token). Raises OSError when it cannot bind."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.create_server((self._host, self._port), family=family)
        self._files = _page_files()
        app = guarded_application(self._access)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/page/{name}", self._page),
                web.get("/metrics", self._metrics),
                web.get("/api/stats", self._api_stats),
                web.get("/api/log", self._api_log),
                web.get("/api/events", self._api_events, allow_head=False),
                web.get("/healthz", self._healthz),
                *self._routes,
            ]
        )
        self._runner = web.AppRunner(
            app, access_log=None, logger=_log, shutdown_timeout=0.2, keepalive_timeout=_IDLE_TIMEOUT
        )
        await self._runner.setup()
        await _BoundedSite(self._runner, listening).start()
        self._course.observe(self._clock(), self._stats())
        self._ticking = asyncio.create_task(self._tick())
        host = f"[{self._host}]" if family == socket.AF_INET6 else self._host
        return f"http://{host}:{listening.getsockname()[1]}/"

    async def stop(self) -> None:
        """Tells all listeners the final statistics and goes away; raises what ``stats`` raised, if it did."""
        if self._runner is None or self._ticking is None:
            return
        self._ticking.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._ticking
            self._listeners.close(self._news("end"))
        finally:
            await self._runner.cleanup()
            self._runner = None

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due, ticks = loop.time(), 0
        while True:
            # Due times lie on a grid; after a stall they go on from now, without a burst.
            due = max(due + self._interval, loop.time())
            await asyncio.sleep(due - loop.time())
            ticks += 1
            news = self._news("tick")
            if len(self._listeners) and ticks % _HISTORY_EVERY == 0:
                news = message("history", self._course.history.series()) + news
            self._listeners.tell(news)

    def _news(self, event: str) -> bytes:
        stats = self._stats()
        self._course.observe(self._clock(), stats)
        since, self._told = self._told, self._course.events.last
        self._greets = None
        if not len(self._listeners):
            return b""
        return self._now(event, stats, since)

    def _greeting(self) -> bytes:
        """What a new listener hears first. The same for all who come between two ticks: after a restart they come at
        once, and the past takes some 30 ms to put into words."""
        if self._greets is None:
            past = message("history", self._course.history.series())
            self._greets = past + self._now("tick", self._stats(), self._course.events.last)
        return self._greets

    def _now(self, event: str, stats: dict[str, Any], since: int) -> bytes:
        """A message of what is, and of what happened after event number ``since``: the last of it, where it is much."""
        news = self._course.events.after(since)
        if len(news) > _NEWS_MOST:
            news = news[-_NEWS_MOST:]
            since = news[0]["number"] - 1
        log = {"last": self._course.events.last, "after": since, "events": news}
        content = {"stats": stats, "point": self._course.history.point(), **self._course.words(stats), "log": log}
        return message(event, content)

    async def _page(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        if name not in self._files:
            raise web.HTTPNotFound
        body, etag = self._files[name]
        # Asked for again each time, and answered with 304: a new version of the program is never mixed with an old.
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        kind = _TYPES[name.rpartition(".")[2]]
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)

    async def _metrics(self, request: web.Request) -> web.Response:
        text, kind = exposition(self._stats(), request.headers.get("Accept", ""), self._process)
        return web.Response(body=text, headers={"Content-Type": kind, "Cache-Control": "no-store", "Vary": "Accept"})

    async def _api_stats(self, request: web.Request) -> web.Response:
        text = json.dumps(self._stats(), allow_nan=False)
        return web.Response(text=text, content_type="application/json", headers={"Cache-Control": "no-store"})

    async def _api_log(self, request: web.Request) -> web.Response:
        asked = request.query.get("after", "0")
        if not (asked.isascii() and asked.isdigit() and len(asked) < 20):
            raise web.HTTPBadRequest(text="after must be the number of an event.")
        events = self._course.events
        text = json.dumps({"last": events.last, "events": events.after(int(asked))})
        return web.Response(text=text, content_type="application/json", headers={"Cache-Control": "no-store"})

    async def _healthz(self, request: web.Request) -> web.Response:
        state = self._stats().get("state")
        over = state in ("ended", "stopped")
        return web.Response(
            status=503 if over else 200, text=f"{state if over else 'ok'}\n", headers={"Cache-Control": "no-store"}
        )

    async def _api_events(self, request: web.Request) -> web.StreamResponse:
        if self._listeners.full:
            raise web.HTTPServiceUnavailable(text="Too many listeners.\n")
        response = web.StreamResponse(
            headers=HEADERS | {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        with self._listeners.join() as listener:
            listener.offer(self._greeting())
            last = False
            while not last:
                news, last = await listener.take()
                try:
                    # Returns when the connection's buffer has room again.
                    async with asyncio.timeout(_WRITE_TIMEOUT):
                        await response.write(news)
                except (ConnectionError, TimeoutError):
                    # What it has not taken would be waited for.
                    if request.transport is not None:
                        request.transport.abort()
                    break
        return response


class _BoundedSite(web.SockSite):
    """Connections beyond ``MOST_CONNECTIONS`` are told so and closed, before anything is read of them."""

    async def start(self) -> None:
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None

        def protocol() -> asyncio.BaseProtocol:
            if len(server.connections) >= MOST_CONNECTIONS:
                return _Full()
            return _Protocol(server, loop=loop, **server._kwargs)

        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(protocol, sock=self._sock, backlog=self._backlog)


class _Protocol(web.RequestHandler):
    """Answers what is no HTTP, and a bug, without the names and versions of the libraries."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        response.headers.update(HEADERS)
        return response


class _Full(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        transport.close()


def _page_files() -> dict[str, tuple[bytes, str]]:
    """Name -> content and entity tag of everything the browser may load."""
    files = {}
    for file in resources.files("crawler.dashboard").joinpath("page").iterdir():
        body = file.read_bytes()
        files[file.name] = body, f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    return files
