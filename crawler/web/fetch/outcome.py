"""The results of an exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct
from multidict import MultiMapping

from crawler.url.refusal.own_rules import Refusal

REDIRECTS = frozenset({301, 302, 303, 307, 308})  # with a Location that is not empty


class FailureKind(StrEnum):
    """Why there is no complete response."""

    DNS = "dns"  # the name has no address, or no name server answered
    REFUSED = "refused"  # nobody listens there
    UNREACHABLE = "unreachable"  # no route, or the network or this machine lacks a resource
    TLS = "tls"
    CONNECT_TIMEOUT = "connect_timeout"
    HEADERS_TIMEOUT = "headers_timeout"
    BODY_TIMEOUT = "body_timeout"
    CUT_OFF = "cut_off"  # closed or reset before the response was complete
    PROTOCOL = "protocol"  # not HTTP
    MALFORMED = "malformed"  # HTTP that no browser takes, or headers larger than the limits
    ENCODING = "encoding"  # the content encoding cannot be decoded
    TOO_LARGE = "too_large"
    OWN_RULE = "own_rule"  # a rule of ours forbids the request; the refusal names it
    PROXY = "proxy"  # the proxy cannot be reached, or does not serve us: not the fault of the host
    BAD_URL = "bad_url"  # no request can be made for this URL
    INTERNAL = "internal"  # the answer could not be read because of a bug

    @property
    def transient(self) -> bool:
        """Return whether another try may succeed."""
        return self in _TRANSIENT

    @property
    def silent(self) -> bool:
        """Return whether no HTTP response came at all, or not the whole of it, as when our own line is down."""
        return self in _SILENT

    @property
    def excluded(self) -> bool:
        """Return whether one of our own rules ended it: its outcome is ``excluded``, and it is never retried."""
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
    """Why the body of an exchange is not whole, in the words of WARC-Truncated."""

    LENGTH = "length"  # it is longer than what is kept, or than what is read
    TIME = "time"  # it took too long
    DISCONNECT = "disconnect"  # the connection ended before the body did
    UNSPECIFIED = "unspecified"  # it was no body that could be read on


class RawExchange(Struct, frozen=True):
    """One exchange as it was on the wire, for archives.

    ``request``: the request line and the headers as they were sent, up to the empty line; without headers that may hold
    a secret (logins, cookies, headers of a ``[[site]]``). ``head``: the status line and the headers as they were
    received, up to the empty line; those of interim answers are left out. ``body``: what was received, its transfer
    coding removed, its content coding kept; whole unless ``truncated`` says why not. ``chunked``: it had a transfer
    coding, so its headers do not tell how long it is. ``address``: who answered; None through a proxy.
    """

    request: bytes
    head: bytes
    body: bytes = b""
    truncated: Truncation | None = None
    chunked: bool = False
    address: str | None = None


class Failure(Struct, frozen=True):
    """No complete response: the reason in one line for people, and the seconds that it took. ``refusal``: the rule of
    ours that forbids the request. ``address``: what was dialled, if that is known. ``local``: this machine knows no way
    to the host: no route, no name server. ``kept``: the connection had been used before, and was closed before the
    first byte of an answer: it may have been too old. ``proxy``: the one that was asked, without a login. ``raw``: what
    came of the answer, if that is kept and its headers were complete. ``partial``: the answer with as much of its body
    as came, if it lacks only the end."""

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
    response is a redirect. ``location`` is the target of a redirect as the header has it. ``seconds`` is the duration
    of the whole exchange. ``received`` is the number of body bytes that were read, after decoding; without it if
    ``body`` is None. ``note`` is what was wrong with the response although it could be read. ``proxy``: the one that it
    came through, without a login. ``address``: the IP address that answered; None through a proxy, which alone knows.
    ``raw``: the exchange as it was on the wire, if it is kept. ``truncated``: what says that more of the body was to
    come: its ``length``, that it is ``chunked``, or a content coding (``gzip``). ``cookies``: a digest of those that
    the request was sent with; None if none are kept. ``unsigned``: it refuses the request for want of a signature;
    the next request to its host will have one.
    """

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
        """All values of a header, in order, as text without lone surrogates."""
        headers = self.headers
        if isinstance(headers, MultiMapping):
            return tuple([browser_text(value) for value in headers.getall(name, ())])
        value = headers.get(name)
        return () if value is None else (browser_text(value),)


def browser_text(header: str) -> str:
    """Decode a header as UTF-8, or else as Latin-1. (aiohttp keeps a byte that is not UTF-8 as a lone surrogate.)"""
    if header.isascii():
        return header
    raw = header.encode("utf-8", "surrogateescape")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


class Keeps(Protocol):
    """Which exchanges are kept as they were on the wire."""

    @property
    def max_size(self) -> int:
        """Bytes of a body, with its content coding, that are kept at most."""

    def wants(self, href: str, status: int, content_type: str | None) -> bool:
        """Return whether an exchange is kept. The type is ``type/subtype`` in lower case."""


class Fetches(Protocol):
    """What the crawl needs of a network: ``Fetcher``, or a simulation of one."""

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
        the body is read. At most ``max_body`` bytes are read; a longer body is a failure or, with ``truncate``, is
        cut. What ``keep`` wants is kept as it was on the wire (``raw``), its body too if that is not accepted; such a
        body makes no failure, whatever becomes of it."""

    def cookie_state(self, href: str) -> int | None:
        """A digest of the cookies that a request for the URL would be sent with now; None if none are kept."""

    def let_go(self) -> None:
        """The running task has nothing more of the body that it fetched last: its memory is for others."""

    async def resolve(self, href: str) -> str | None:
        """Return the IP address of the href's host, or the first in order if it has several; None if it has none."""


class Through:
    """The part of a network around another one that is the same: all but ``fetch``."""

    def __init__(self, network: Fetches) -> None:
        self._network = network
        self.cookie_state = network.cookie_state
        self.let_go = network.let_go
        self.resolve = network.resolve
