"""Maps the exceptions of aiohttp and the operating system to a kind of failure and one readable line."""

from __future__ import annotations

import errno
import socket
import ssl

import aiohttp

from crawler.base.settings.parts import FetchSettings
from crawler.web.fetch.connector import HURRIED, Exchange
from crawler.web.fetch.content_coding import Undecodable
from crawler.web.fetch.lenient import Malformed
from crawler.web.fetch.outcome import FailureKind
from crawler.web.fetch.patience import IDLE_MOST
from crawler.web.fetch.proxies import ProxyTrouble

# All errors that a URL, a server or a network can cause. `OSError` includes `TimeoutError` and `ssl.SSLError`.
FAILURES = (aiohttp.ClientError, OSError, Undecodable)

CLOSED_IN_BODY = "connection closed before the end of the body"
_REFUSED = frozenset((errno.ECONNREFUSED,))
_ANY_PORT = 9
_NO_SERVERS = (11, 12)  # ARES_ECONNREFUSED, ARES_ETIMEOUT: no name server could be reached, or none answered
_CLOSED = frozenset((errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED))


def classify(
    error: aiohttp.ClientError | OSError | Undecodable, exchange: Exchange, settings: FetchSettings
) -> tuple[FailureKind, str]:
    """Return the kind and the message of a failed exchange."""
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return FailureKind.BAD_URL, "not a URL that can be requested"
    if exchange.proxy is not None and (exchange.unchecked or _at_proxy(error, exchange)):
        return FailureKind.PROXY, _first_line(f"{exchange.proxy.shown}: {_proxy_reason(error)}")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return FailureKind.UNREACHABLE, f"the proxy answered {error.status}"
    if isinstance(error, TimeoutError):
        return _timeout(exchange, settings)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return FailureKind.DNS, _first_line(
            f"name not found: {error.host}: {error.os_error.strerror or error.os_error}"
        )
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError, ssl.CertificateError)):
        return FailureKind.TLS, _first_line(f"TLS: {_tls_reason(error)}")
    if isinstance(error, Malformed):
        if not error.http and exchange.connection is not None and exchange.connection.kept:
            # The server has spoken HTTP on this connection. These are excess bytes after an earlier answer.
            return FailureKind.CUT_OFF, "excess bytes on a kept connection instead of an answer"
        return (FailureKind.MALFORMED if error.http else FailureKind.PROTOCOL), error.message
    if isinstance(error, Undecodable):
        return FailureKind.ENCODING, _first_line(f"content encoding: {error}")
    if isinstance(error, aiohttp.ClientResponseError):
        return FailureKind.MALFORMED, error.message.partition(":")[0]
    if isinstance(error, aiohttp.ClientPayloadError):
        return FailureKind.CUT_OFF, CLOSED_IN_BODY
    if isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError)):
        return FailureKind.CUT_OFF, "connection closed before the response"
    if isinstance(error, OSError):
        inner = getattr(error, "os_error", error)
        if exchange.phase == "connect" and isinstance(inner, ConnectionError) and inner.errno not in _REFUSED:
            return FailureKind.CUT_OFF, "connection closed in the TLS handshake"
        return _system(error, exchange)
    return FailureKind.MALFORMED, _first_line(str(error) or type(error).__name__)


_LOGIN_WANTED = 407
_NO_TLS = frozenset(("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"))


def _at_proxy(error: Exception, exchange: Exchange) -> bool:
    """Return whether the proxy itself is at fault, not the host behind it. Before the connection to the host exists, a
    malformed answer can only be the proxy's."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return error.status == _LOGIN_WANTED
    return isinstance(error, ProxyTrouble) or (isinstance(error, Malformed) and exchange.phase == "connect")


def _proxy_reason(error: Exception) -> str:
    if isinstance(error, ProxyTrouble):
        return str(error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return "it requires another login (407)"
    if isinstance(error, Malformed):
        return f"its answer to CONNECT: {error.message}"
    if isinstance(error, TimeoutError):
        return "no connection in time"
    inner = getattr(error, "os_error", None) or error
    return getattr(inner, "strerror", None) or str(inner)


def _timeout(exchange: Exchange, settings: FetchSettings) -> tuple[FailureKind, str]:
    if exchange.phase == "connect":
        return FailureKind.CONNECT_TIMEOUT, f"no connection within {settings.connect_timeout:g} s"
    kind, what, seconds = (
        (FailureKind.HEADERS_TIMEOUT, "headers", settings.headers_timeout)
        if exchange.phase == "headers"
        else (FailureKind.BODY_TIMEOUT, "body", settings.body_timeout)
    )
    if exchange.patience.silent:
        return kind, f"no byte for {IDLE_MOST:g} s"
    if exchange.hurried:
        return kind, f"{what} not complete within {HURRIED:g} s after others waited for its memory"
    return kind, f"{what} not complete within {seconds:g} s"


def _system(error: OSError, exchange: Exchange) -> tuple[FailureKind, str]:
    text = _first_line(error.strerror or str(error) or type(error).__name__)
    if error.errno in _REFUSED:
        return FailureKind.REFUSED, "connection refused"
    if error.errno in _CLOSED and exchange.phase != "connect":
        return FailureKind.CUT_OFF, "connection closed before the end of the response"
    return FailureKind.UNREACHABLE, text


def _tls_reason(error: BaseException) -> str:
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    reason = getattr(inner, "verify_message", None) or getattr(inner, "reason", None) or str(inner)
    return "the server does not speak TLS on this port; try http://" if reason in _NO_TLS else reason


def is_local(error: Exception, exchange: Exchange) -> bool:
    """Return whether this machine itself cannot reach the host: it has no route, or no name server answers."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        cares = error.os_error.__cause__  # set if c-ares is used instead of the C library
        if cares is not None:
            return bool(cares.args) and cares.args[0] in _NO_SERVERS
        return error.os_error.errno == socket.EAI_AGAIN
    number, address = getattr(error, "errno", None), exchange.address
    if exchange.phase != "connect" or address is None or ":" in address:
        return False  # many machines never have an IPv6 route, so IPv6 addresses fail one at a time
    return number == errno.ENETUNREACH or (number == errno.EHOSTUNREACH and not _has_route(address))


def _has_route(address: str) -> bool:
    """Return whether the kernel has a route to an IPv4 address. Without a route, this machine is offline. If there is a
    route, a router reported the host as unreachable, or the host is in this network and does not answer. No packet is
    sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, _ANY_PORT))
        except OSError as error:
            return error.errno not in (errno.ENETUNREACH, errno.EHOSTUNREACH)
    return True


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]
