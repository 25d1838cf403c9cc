"""The connections of a fetcher: which addresses may be dialled, within which time, and how many connections stay open
while idle."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from contextvars import ContextVar
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.base.settings.parts import FetchSettings
from crawler.url.refusal.forbidden_targets import Permits, Refusal, refusal_of_address
from crawler.web.fetch.body_memory import BodyMemory
from crawler.web.fetch.capture import Capture, seen
from crawler.web.fetch.fence import pass_fence, sending
from crawler.web.fetch.kept import Kept
from crawler.web.fetch.lenient import LenientHandler
from crawler.web.fetch.patience import IDLE_MOST, Patience
from crawler.web.fetch.proxies import Proxy
from crawler.web.fetch.socks import connect_through
from crawler.web.fetch.tls_sessions import Opening, ResumingContext, current_opening, verifying_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace
    from multidict import CIMultiDict

_DNS_TTL = 60  # seconds for which a resolved address is reused
_DNS_ENTRIES = 10_000
HURRIED = 15.0  # seconds that a body may still take when other bodies wait for its memory
_SILENCE = frozenset(("headers", "body"))  # phases in which we wait for bytes from the host
_AT_ONCE = struct.pack("ii", 1, 0)  # values of SO_LINGER: on, 0 s
_NO_LIMITS = aiohttp.ClientTimeout(total=None)  # the time limit of the exchange applies


class UsedConnection(NamedTuple):
    """The connection of a request. ``kept``: it was reused."""

    key: ConnectionKey
    protocol: LenientHandler
    kept: bool


HEAD_MOST = 256 * 1024  # bytes of all headers of an answer; the limit of Chromium


class Exchange:
    """The progress of one fetch. Its time limit applies to the current phase."""

    __slots__ = (
        "address",
        "capture",
        "connection",
        "cookies",
        "dialled",
        "hurried",
        "limits",
        "patience",
        "phase",
        "proxy",
        "refused",
        "share",
        "unchecked",
    )

    def __init__(self, patience: Patience, memory: BodyMemory, limits: FetchSettings) -> None:
        self.patience = patience
        self.limits = limits  # its time limits come from these settings
        self.share = memory.share(self._hurry)
        self.hurried = False  # True if other fetches wait for the memory that its body uses
        self.cookies: int | None = None  # a digest of the cookies sent, if any are kept
        self.phase = "headers"  # "connect", "headers", "body", "drop"
        self.connection: UsedConnection | None = None
        self.capture: Capture | None = None
        self.dialled = False  # True if at least one address was allowed
        self.address: str | None = None  # the last IPv4 address that was dialled; if none, the first IPv6 address
        self.refused: Refusal | None = None  # set if the address was refused
        self.proxy: Proxy | None = None
        self.unchecked = False  # True if the dialled address belongs to the user's proxy and not to a URL

    def enter(self, phase: str, seconds: float) -> None:
        self.phase = phase
        self.patience.allow(seconds, IDLE_MOST if phase in _SILENCE else inf)

    def _hurry(self) -> None:
        self.hurried = True
        self.patience.at_most(HURRIED)

    def uses(self, key: ConnectionKey, protocol: LenientHandler, *, kept: bool) -> None:
        """Set the connection that the request will be sent on."""
        self.connection = UsedConnection(key, protocol, kept)
        self.patience.connection = protocol
        protocol.capture = self.capture

    def keep(self, kept: Capture | None) -> None:
        """Replace the capture of the exchange; None stops capturing."""
        before, self.capture = self.capture, kept
        if self.connection is not None and self.connection.protocol.capture is before:
            self.connection.protocol.capture = kept

    @property
    def peer(self) -> str | None:
        """The address of the host that the request was sent to; None through a proxy, because only the proxy
        knows it."""
        return None if self.connection is None or self.proxy is not None else self.connection.protocol.address

    @property
    def cut(self) -> str | None:
        """The header or coding that announced more of the body than arrived before the connection ended, or None."""
        return None if self.connection is None else self.connection.protocol.cut

    async def room(self, size: int) -> None:
        """Wait until reading may continue for a body that has reached ``size`` bytes."""
        if not self.share.take(size):
            await self.wait()

    async def begin_large(self) -> None:
        """Wait until a body that will be large may be read."""
        if not self.share.expect():
            await self.wait()

    async def wait(self, *, empty: bool = False) -> None:
        """Wait until reading the body may continue. ``empty``: the decoded bytes have been dropped, and will be decoded
        again."""
        paused = self.patience.pause()
        await self.share.wait(empty=empty)
        self.patience.go_on(paused)


current_exchange: ContextVar[Exchange] = ContextVar("current_exchange")


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector, with the address check, the time limit of the exchange, and a bound on idle connections. It
    resumes TLS sessions, and sends the GET itself, without a ``ClientSession``.

    The caller of ``fetch`` bounds the connections in use. If the connector bounded them, the wait for a connection
    would count against a host that is not responsible for it."""

    def __init__(
        self,
        settings: FetchSettings,
        *,
        idle_hosts: int,
        resolver: AbstractResolver | None = None,
        trust: ResumingContext | None = None,
    ) -> None:
        super().__init__(
            limit=0,
            limit_per_host=0,
            ttl_dns_cache=_DNS_TTL,
            dns_cache_max_size=_DNS_ENTRIES,
            resolver=resolver,
            socket_factory=partial(_checked_socket, Permits.of(settings)),
        )
        handler = partial(LenientHandler, loop=self._loop, max_head=HEAD_MOST)
        self._factory = cast("partial[ResponseHandler]", handler)
        self._idle_hosts = idle_hosts
        self._trust = trust
        self._kept: Kept[ConnectionKey] = Kept()
        self._reading = {
            "read_until_eof": True,
            "auto_decompress": False,
            "max_line_size": HEAD_MOST,
            "max_field_size": HEAD_MOST,
            "max_headers": HEAD_MOST,
        }

    async def get(
        self,
        url: yarl.URL,
        headers: CIMultiDict[str],
        proxy: yarl.URL | None = None,
        proxy_headers: CIMultiDict[str] | None = None,
        sign: Callable[[], Mapping[str, str]] = dict,
    ) -> aiohttp.ClientResponse:
        """Send a request (``sending``) with these headers, through an HTTP proxy if there is one, and return the answer
        when its head is complete. ``sign`` adds headers in the step that sends the request. The caller must close the
        answer. Raises FencedOffError.

        A ``ClientSession`` would also handle cookies, logins and redirects, which are handled elsewhere. It would also
        repeat a request whose reused connection ends without an answer, although the server may have read it, and
        without waiting for the host's gap. Raises the exceptions of aiohttp."""
        method, body, _ = sending.get()
        request = aiohttp.ClientRequest(
            method,
            url,
            headers=headers,
            data=body,
            loop=self._loop,
            proxy=proxy,
            proxy_headers=proxy_headers,
        )
        try:
            connection = await self.connect(request, [], _NO_LIMITS)
            try:
                protocol: Any = connection.protocol
                protocol.set_response_params(**self._reading, skip_payload=method == "HEAD")
                await pass_fence(current_exchange.get().patience.paused)
                # From here on, everything must be in the step that writes the request.
                request.headers.update(sign())
                return await self._answer(request, connection)
            except BaseException:
                connection.close()
                raise
        except aiohttp.ClientError:
            raise
        except OSError as error:
            if error.errno is None and isinstance(error, TimeoutError):
                raise
            raise aiohttp.ClientOSError(*error.args) from error

    async def _answer(self, request: aiohttp.ClientRequest, connection: Connection) -> aiohttp.ClientResponse:
        protocol: Any = connection.protocol
        if protocol.capture is None:
            answer = await request.send(connection)
        else:
            with seen(protocol, protocol.capture):
                answer = await request.send(connection)
        try:
            return await answer.start(connection)
        except BaseException:
            if not protocol.begun:
                _take_back(connection.transport)
            answer.close()
            raise

    async def _resolve_host(self, host: str, port: int, traces: Sequence[Trace] | None = None) -> list[ResolveResult]:
        """Resolve names below ``localhost`` to this machine (RFC 6761, 6.3), as browsers do; not every system does."""
        if host.rstrip(".").endswith(".localhost"):
            return [_loopback(host, port, family) for family in (socket.AF_INET, socket.AF_INET6)]
        return await super()._resolve_host(host, port, traces)

    async def resolve(self, host: str, port: int) -> str | None:
        """Return the host's address, or its lowest address if it has several. Raises the exceptions of aiohttp and the
        resolver."""
        found = await self._resolve_host(host, port)
        return min((each["host"] for each in found), default=None)

    async def _get(self, key: ConnectionKey, traces: list[Any]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            protocol: Any = connection.protocol
            if not protocol.has_ended():
                current_exchange.get().uses(key, protocol, kept=True)
                return connection
            connection.close()
        return None

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if self._kept.any and not should_close:
            self._kept.served(key)
            should_close = not self._kept.keeps(key)
        super()._release(key, protocol, should_close=should_close)

    def lost(self, connection: UsedConnection) -> None:
        """Record that a kept connection was closed before the first byte of an answer."""
        self._kept.lost(connection.key)
        for protocol, _ in self._conns.pop(connection.key, ()):  # the host's other idle connections may be just as old
            protocol.close()

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109, aiohttp's signature
    ) -> ResponseHandler:
        exchange = current_exchange.get()
        self._close_idle()
        exchange.enter("connect", exchange.limits.connect_timeout)
        current_opening.set(None)
        try:
            connection = await self._open(req, traces, timeout)
        except BaseException as error:
            opening = current_opening.get()
            if opening is None or not opening.offered or self._trust is None:
                raise
            self._trust.refused(opening)
            if not _may_be_the_sessions_fault(error):
                raise
            connection = await self._open(req, traces, timeout)
        exchange.uses(req.connection_key, cast("LenientHandler", connection), kept=False)
        exchange.enter("headers", exchange.limits.headers_timeout)
        return connection

    def _get_ssl_context(self, req: aiohttp.ClientRequest) -> ResumingContext | None:
        if not req.is_ssl():
            return None
        proxy = current_exchange.get().proxy
        # The place includes the proxy's login: users of a proxy with different logins must not share sessions.
        current_opening.set(Opening((req.host, req.port, None if proxy is None else proxy.url)))
        if self._trust is None:  # loaded lazily, because this reads all authorities of the system
            self._trust = verifying_context()
        return self._trust

    async def _open(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109, aiohttp's signature
    ) -> ResponseHandler:
        proxy = current_exchange.get().proxy
        if proxy is not None and proxy.socks:
            return await self._create_socks_connection(req, proxy, timeout)
        return await super()._create_connection(req, traces, timeout)

    async def _create_socks_connection(
        self,
        req: aiohttp.ClientRequest,
        proxy: Proxy,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109, aiohttp's signature
    ) -> ResponseHandler:
        context = self._get_ssl_context(req)
        _, protocol = await self._wrap_existing_connection(
            self._factory,
            timeout=timeout,
            ssl=context,
            sock=await connect_through(proxy, req.host, req.port or 0),
            server_hostname=req.host.rstrip(".") if context else None,
            req=req,
        )
        return protocol

    async def _create_direct_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109, aiohttp's signature
        *,
        client_error: type[Exception] = aiohttp.ClientConnectorError,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        exchange = current_exchange.get()
        exchange.unchecked = client_error is aiohttp.ClientProxyConnectionError
        connection = await super()._create_direct_connection(req, traces, timeout, client_error=client_error)
        exchange.unchecked = False
        return connection

    def _close_idle(self) -> None:
        """Limit the idle connections, and so their file descriptors, in a crawl of many hosts: close those of the
        oldest hosts."""
        while len(self._conns) >= self._idle_hosts:
            for protocol, _ in self._conns.pop(next(iter(self._conns))):
                protocol.close()


def _take_back(transport: asyncio.Transport | None) -> None:
    """Discard the unsent data of an aborted request. After an orderly close, the system would resend it for minutes, so
    after a network outage the host would get it late, without the required gap before our next request."""
    if transport is not None and not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        transport.abort()


def _may_be_the_sessions_fault(error: BaseException) -> bool:
    """Return whether a handshake failed, or was cut off, in a way that a full handshake may avoid."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return False
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError))


def _loopback(host: str, port: int, family: socket.AddressFamily) -> ResolveResult:
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)


def _checked_socket(permits: Permits, address_info: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket for an address, which is checked here because an earlier lookup may have returned another
    address. Raises PermissionError."""
    family, kind, protocol, _, address = address_info
    exchange = current_exchange.get()
    refused = None if exchange.unchecked else refusal_of_address(str(address[0]), permits)
    if refused is not None:
        exchange.refused = refused
        raise PermissionError(refused.why)
    exchange.dialled = True
    if not exchange.unchecked and (exchange.address is None or family == socket.AF_INET):
        exchange.address = str(address[0])
    return socket.socket(family, kind, protocol)
