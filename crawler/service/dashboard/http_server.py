"""The HTTP server of the dashboard: it limits the number of connections, and its responses do not name the libraries.

A connection takes a slot until it is closed. If all slots are taken, a new connection replaces the one that has waited
longest without a request, so slow clients cannot block others. A connection whose request is being answered, such as an
event stream, keeps its slot. At most three quarters of the slots can be in that state: the rest are for new clients and
``/healthz``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError
from msgspec import Struct

from crawler.service.dashboard.access import HEALTH, Access
from crawler.service.dashboard.guard import BODY_TIMEOUT, HEADERS, Handler, guarded_application, refused


class Limits(Struct, frozen=True):
    """Limits for clients."""

    connections: int = 1_024  # at a time, including idle ones; they use file descriptors that the crawl also needs
    idle_timeout: float = 20.0  # seconds after which a connection without a complete request is closed
    write_timeout: float = 30.0  # seconds after which a stalled listener is dropped
    body_timeout: float = BODY_TIMEOUT  # seconds for the complete body of a request to arrive


def _is_ours(record: logging.LogRecord) -> bool:
    """Return True if a log line of the library belongs in the crawl's log: any line except those about invalid HTTP
    from clients."""
    theirs = (HttpProcessingError, web.RequestPayloadError)
    return record.exc_info is None or not isinstance(record.exc_info[1], theirs)


_log = logging.getLogger("crawler.service.dashboard")
_log.addFilter(_is_ours)
_no_log = logging.getLogger("crawler.service.dashboard.access")
_no_log.disabled = True


class HttpServer:
    """Serves ``routes`` to clients admitted by ``access``."""

    def __init__(self, access: Access, routes: Sequence[web.RouteDef], limits: Limits) -> None:
        self._limits = limits
        self.app = guarded_application(access, limits.body_timeout)
        self.app.add_routes(routes)
        self.runner = web.AppRunner(self.app, shutdown_timeout=0.2)
        self._server: asyncio.Server | None = None
        self._waiting: dict[_Protocol, None] = {}  # connections without a request, the longest waiting first
        self._answered = 0  # number of requests being answered
        self.app.middlewares.insert(0, self._answering)

    @property
    def address(self) -> tuple[str, int]:
        """The address on which the server listens, once started."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def start(self, listening: socket.socket) -> None:
        await self.runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, sock=listening, backlog=128)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.runner.cleanup()

    def _protocol(self) -> asyncio.BaseProtocol:
        server = self.runner.server
        assert server is not None
        if len(server.connections) >= self._limits.connections:
            if not self._waiting:
                return _Full()
            next(iter(self._waiting)).give_up()
        timeout = self._limits.idle_timeout
        return _Protocol(
            self._waiting,
            server,
            loop=asyncio.get_running_loop(),
            access_log=_no_log,
            logger=_log,
            keepalive_timeout=timeout,
        )

    @web.middleware
    async def _answering(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keep the request's connection out of `_waiting` while it is answered."""
        if self._answered >= max(1, self._limits.connections * 3 // 4) and request.path != HEALTH:
            return refused(request, 503, "Too many requests are being answered: try again later.")
        protocol = request.protocol
        assert isinstance(protocol, _Protocol)
        self._waiting.pop(protocol, None)
        self._answered += 1
        try:
            return await handler(request)
        finally:
            self._answered -= 1
            if protocol.transport is not None:
                self._waiting[protocol] = None


class _Protocol(web.RequestHandler):
    """A connection whose error responses do not reveal the libraries or their versions. It is in ``waiting`` until its
    first request arrives."""

    __slots__ = ("_waiting",)

    def __init__(self, waiting: dict[_Protocol, None], server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._waiting = waiting

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._waiting[self] = None

    def connection_lost(self, exc: BaseException | None) -> None:
        self._waiting.pop(self, None)
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close the connection immediately: another one needs its slot."""
        self._waiting.pop(self, None)
        if self.transport is not None:
            self.transport.abort()

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
    """Responds that there are too many connections, and closes without reading the request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        transport.close()
