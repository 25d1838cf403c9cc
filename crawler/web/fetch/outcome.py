"""The results of an exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct
from multidict import MultiMapping

from crawler.url.refusal.forbidden_targets import Refusal

REDIRECTS = frozenset({301, 302, 303, 307, 308})  # statuses that redirect if their Location is not empty


class FailureKind(StrEnum):
    """Why there is no complete response."""

    DNS = "dns"  # the name has no address, or no name server answered
    REFUSED = "refused"  # no server listens on the port
    UNREACHABLE = "unreachable"  # no route, or the network or this machine lacks a resource
    TLS = "tls"
    CONNECT_TIMEOUT = "connect_timeout"
    HEADERS_TIMEOUT = "headers_timeout"
    BODY_TIMEOUT = "body_timeout"
    CUT_OFF = "cut_off"  # closed or reset before the response was complete
    PROTOCOL = "protocol"  # the answer is not HTTP
    MALFORMED = "malformed"  # HTTP that no browser accepts, or headers larger than the limits
    ENCODING = "encoding"  # the content encoding cannot be decoded
    TOO_LARGE = "too_large"
    OWN_RULE = "own_rule"  # one of our own rules forbids the request; the refusal names it
    PROXY = "proxy"  # the proxy cannot be reached, or does not serve us: not the host's fault
    BAD_URL = "bad_url"  # no request can be made for this URL
    INTERNAL = "internal"  # a bug prevented the crawler from reading the answer

    @property
    def transient(self) -> bool:
        """Return whether another attempt may succeed."""
        return self in _TRANSIENT

    @property
    def silent(self) -> bool:
        """Return whether no complete HTTP response arrived, as when our own network is down."""
        return self in _SILENT

    @property
    def excluded(self) -> bool:
        """Return whether one of our own rules ended the exchange: its outcome is ``excluded``, and it is never
        retried."""
        return self in _EXCLUDED


_TRANSIENT = frozenset(
    (
        FailureKind.DNS,
        FailureKind.REFUSED,
        FailureKind.UNREACHABLE,
        FailureKind.CONNECT_TIMEOUT,
        FailureKind.HEADERS_TIMEOUT,
        FailureKind.BODY_TIMEOUT,
        FailureKind.CUT_OFF,
        FailureKind.PROXY,
    )
)
_SILENT = _TRANSIENT - {FailureKind.PROXY}
_EXCLUDED = frozenset((FailureKind.TOO_LARGE, FailureKind.OWN_RULE))


class Truncation(StrEnum):
    """Why the body of an exchange is incomplete, in WARC-Truncated terms."""

    LENGTH = "length"  # it exceeds the limit for stored or read bytes
    TIME = "time"  # it took too long
    DISCONNECT = "disconnect"  # the connection ended before the body did
    UNSPECIFIED = "unspecified"  # the body became unreadable


class RawExchange(Struct, frozen=True):
    """One exchange as sent and received, for archives.

    ``request``: the request line and the headers as they were sent, up to the empty line; without headers that may hold
    a secret (logins, cookies, headers of a ``[[site]]``). ``head``: the status line and the headers as they were
    received, up to the empty line; those of interim answers are left out. ``body``: what was received, its transfer
    coding removed, its content coding kept; complete unless ``truncated`` gives the reason. ``chunked``: it had a
    transfer coding, so its headers do not state its length. ``address``: the address that answered; None through a
    proxy."""

    request: bytes
    head: bytes
    body: bytes = b""
    truncated: Truncation | None = None
    chunked: bool = False
    address: str | None = None


class Failure(Struct, frozen=True):
    """An exchange without a complete response: the reason in one readable line, and the seconds that it took.
    ``refusal``: the rule of the crawler that forbids the request. ``address``: the dialled address, if known.
    ``local``: this machine cannot reach the host, because it has no route or no name server. ``kept``: the connection
    was reused, and was closed before the first byte of an answer, perhaps because it had been idle for too long.
    ``proxy``: the proxy used, without a login. ``raw``: the captured part of the answer, if it is kept and its headers
    were complete. ``partial``: the answer with the received part of its body, if only its end is missing."""

    kind: FailureKind
    message: str
    seconds: float
    refusal: Refusal | None = None
    address: str | None = None
    local: bool = False
    kept: bool = False
    proxy: str | None = None
    raw: RawExchange | None = None
    partial: Response | None = None

    @classmethod
    def refused(cls, refusal: Refusal, seconds: float = 0.0) -> Failure:
        return cls(FailureKind.OWN_RULE, refusal.words, seconds, refusal)

    @property
    def error(self) -> str:
        """The ``error`` field of a record."""
        return f"{self.kind.value}: {self.message}" if self.refusal is None else self.refusal.error


class Response(Struct, frozen=True):
    """A complete response. For some responses only status and headers are wanted.

    ``headers`` is case-insensitive and returns the first value of a name. A byte that is not UTF-8 becomes a lone
    surrogate there; the fields below contain none. ``content_type`` is ``type/subtype`` in lower case. ``body`` is
    decoded from its content encoding; it is None if it was not wanted, because its type was not accepted or the
    response is a redirect. ``location`` is the target of a redirect, as in the header. ``seconds`` is the duration of
    the whole exchange. ``received`` is the number of body bytes that were read, after decoding, or before it if
    ``body`` is None. ``note`` describes faults of a response that could still be read. ``proxy``: the proxy used,
    without a login. ``address``: the IP address that answered; None through a proxy, because only the proxy knows it.
    ``raw``: the captured exchange, if it is kept. ``truncated``: what announced more of the body than arrived: its
    ``length``, ``chunked``, or a content coding (``gzip``). ``cookies``: a digest of the cookies sent; None if none are
    kept. ``unsigned``: the server refused the request because it lacks a signature; the next request to its host will
    have one."""

    status: int
    headers: Mapping[str, str]
    content_type: str | None
    charset: str | None
    body: bytes | None
    location: str | None
    retry_after: str | None
    seconds: float
    received: int
    note: str | None = None
    proxy: str | None = None
    address: str | None = None
    raw: RawExchange | None = None
    truncated: str | None = None
    cookies: int | None = None
    unsigned: bool = False

    def values(self, name: str) -> tuple[str, ...]:
        """Return all values of a header, in order, as text without lone surrogates."""
        headers = self.headers
        if isinstance(headers, MultiMapping):
            return tuple([browser_text(value) for value in headers.getall(name, ())])
        value = headers.get(name)
        return () if value is None else (browser_text(value),)


def browser_text(header: str) -> str:
    """Decode a header as UTF-8, or as Latin-1 if that fails. (aiohttp keeps a byte that is not UTF-8 as a lone
    surrogate.)"""
    if header.isascii():
        return header
    raw = header.encode("utf-8", "surrogateescape")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


class Keeps(Protocol):
    """Selects the exchanges to capture."""

    @property
    def max_size(self) -> int:
        """The maximum number of captured body bytes, counted before the content coding is removed."""

    def wants(self, href: str, status: int, content_type: str | None) -> bool:
        """Return whether to capture an exchange. The type is ``type/subtype`` in lower case."""


class Fetches(Protocol):
    """The crawl's interface to a network: ``Fetcher``, or a simulation of one."""

    async def fetch(
        self,
        href: str,
        *,
        accept: Callable[[str | None], bool] = ...,
        max_body: int | None = None,
        truncate: bool = False,
        headers: Mapping[str, str] | None = None,
        keep: Keeps | None = None,
    ) -> Response | Failure:
        """Make one exchange. ``headers`` are added to those of every request. ``accept(content_type)`` is called before
        the body is read. At most ``max_body`` bytes are read; a longer body is a failure or, with ``truncate``, is cut.
        Exchanges selected by ``keep`` are captured (``raw``), including bodies that are not accepted; errors of such a
        body are not failures."""

    def cookie_state(self, href: str) -> int | None:
        """Return a digest of the cookies that a request for the URL would send now; None if none are kept."""

    def let_go(self) -> None:
        """Release the memory of the body that the running task fetched last."""

    def signs(self, host: str, *, known: bool) -> bool:
        """Return whether a host asks for signed requests. ``known``: it asked for them in an earlier run."""

    async def resolve(self, href: str) -> str | None:
        """Return the IP address of the href's host, or the lowest if it has several; None if it has none."""


class Through:
    """A wrapper of a network that passes on all calls but ``fetch``."""

    def __init__(self, network: Fetches) -> None:
        self._network = network
        self.cookie_state = network.cookie_state
        self.let_go = network.let_go
        self.resolve = network.resolve
        self.signs = network.signs
