"""What can come of an exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class FailureKind(StrEnum):
    """Why there is no complete response."""

    DNS = "dns"  # the name has no address, or no name server answered
    REFUSED = "refused"  # nobody listens
    UNREACHABLE = "unreachable"  # no route, or the network or this machine is out of something
    TLS = "tls"
    CONNECT_TIMEOUT = "connect_timeout"
    HEADERS_TIMEOUT = "headers_timeout"
    BODY_TIMEOUT = "body_timeout"
    CUT_OFF = "cut_off"  # closed or reset before the response was complete
    PROTOCOL = "protocol"  # not HTTP, or headers beyond all bounds
    ENCODING = "encoding"  # the content encoding cannot be undone
    TOO_LARGE = "too_large"
    PRIVATE_ADDRESS = "private_address"
    BAD_URL = "bad_url"  # no request can be made for it

    @property
    def transient(self) -> bool:
        """Whether another try may end otherwise."""
        return self in _TRANSIENT

    @property
    def excluded(self) -> bool:
        """Whether one of our own rules ended it: outcome ``excluded``, never tried again."""
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
    )
)
_EXCLUDED = frozenset((FailureKind.TOO_LARGE, FailureKind.PRIVATE_ADDRESS))


@dataclass(frozen=True, slots=True)
class Failure:
    """No complete response: why, in one line for people, and after how many seconds."""

    kind: FailureKind
    message: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response; of some only status and headers are wanted.

    ``headers`` is case-insensitive and gives the first value of a name; a byte that is not UTF-8 becomes a
    lone surrogate (the fields below are free of them). ``content_type`` is ``type/subtype`` in
    lower case. ``body`` has its content encoding undone; it is None when it was not wanted: a type that
    was not accepted, or a redirect. ``location`` is the header of a 3xx as it came. ``seconds`` are those
    of the whole exchange, ``received`` the bytes of body that were read, after decoding, also where
    ``body`` is None.
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


class Fetches(Protocol):
    """What the crawl asks of a network: ``Fetcher``, or a simulation of one."""

    async def fetch(
        self,
        href: str,
        *,
        accept: Callable[[str | None], bool] = ...,
        max_body: int | None = None,
        truncate: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Response | Failure:
        """One exchange. ``headers`` are sent besides those of every request. ``accept`` is asked of the content type
        before the body is read; ``max_body`` bytes are read at most, more is a failure or, with ``truncate``, cut."""

    async def resolve(self, href: str) -> str | None:
        """The IP address of the href's host, the first in order where it has several; None where it has none."""
