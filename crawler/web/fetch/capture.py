"""Captures an exchange as sent and received, for archives, while it takes place.

Exchanges that are not archived cost nothing. The request is captured where it is passed to the transport, the head of
the answer where it is parsed, and the body where it is read, after its transfer coding is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import hdrs

from crawler.web.fetch.content_coding import Undecodable
from crawler.web.fetch.outcome import FailureKind, Keeps, RawExchange, Response, Truncation

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.client_proto import ResponseHandler

_SECRET = (b"authorization", b"proxy-authorization", b"cookie")
_WHY = {
    FailureKind.TOO_LARGE: Truncation.LENGTH,
    FailureKind.BODY_TIMEOUT: Truncation.TIME,
    FailureKind.CUT_OFF: Truncation.DISCONNECT,
}
_BROKEN = frozenset((FailureKind.BODY_TIMEOUT, FailureKind.CUT_OFF))


class Capture:
    """The captured parts of one exchange. The parser sets ``head``."""

    __slots__ = (
        "_answer",
        "_chunks",
        "_href",
        "_keep",
        "_secrets",
        "_sent",
        "cut",
        "head",
        "response",
        "size",
        "undecodable",
    )

    def __init__(self, href: str, keep: Keeps) -> None:
        self.head = b""
        self.size = 0  # captured bytes of the body
        self.cut = False  # True if the body is longer than the captured part
        self.response: Response | None = None  # the result of the exchange, even if reading the rest of its body fails
        self.undecodable: Undecodable | None = None  # why the body is not decoded, even if reading its rest fails
        self._href = href
        self._keep = keep
        self._sent = bytearray()
        self._secrets: tuple[bytes, ...] = _SECRET
        self._chunks: list[bytes] = []
        self._answer: aiohttp.ClientResponse | None = None

    def hide(self, headers: Iterable[str]) -> None:
        """Hide these request headers, whose values are secret."""
        self._secrets += tuple([name.lower().encode("ascii") for name in headers])

    def sent(self, data: bytes) -> None:
        """Capture bytes of the request that are passed to the transport."""
        self._sent += data

    def begin(self, answer: aiohttp.ClientResponse, content_type: str | None) -> bool:
        """Start capturing the body, when the head of the answer is known. Returns whether the exchange is captured."""
        if not self._keep.wants(self._href, answer.status, content_type):
            return False
        self._answer = answer
        return True

    @property
    def most(self) -> int:
        """The maximum number of captured body bytes."""
        return self._keep.max_size

    def take(self, chunk: bytes) -> None:
        """Capture a part of the body, after its transfer coding is removed."""
        room = self.most - self.size
        if len(chunk) > room:
            self.cut, chunk = True, chunk[:room]
        self._chunks.append(chunk)
        self.size += len(chunk)

    def is_body(self, body: bytes) -> None:
        """If all of ``body`` was captured, keep it instead of the chunks, so that it is in memory only once."""
        if len(body) == self.size:
            self._chunks = [body]

    def raw(self, address: str | None, failed: FailureKind | None = None) -> RawExchange | None:
        """Return the captured exchange, or None if it is not captured. ``failed``: why reading its body failed, if it
        did."""
        answer = self._answer
        if answer is None:
            return None
        truncated = None
        if self.cut:
            truncated = Truncation.LENGTH
        elif failed in _BROKEN or not answer.content.at_eof():
            truncated = Truncation.LENGTH if failed is None else _WHY.get(failed, Truncation.UNSPECIFIED)
        chunked = hdrs.TRANSFER_ENCODING in answer.headers
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        return RawExchange(self._request(), self.head, body, truncated, chunked, address)

    def _request(self) -> bytes:
        """Return the request without secrets. We wrote it, so its lines are well-formed."""
        sent = bytes(self._sent)
        lower = sent.lower()
        if not any(b"\n" + name in lower for name in self._secrets):  # true for nearly all requests
            return sent
        lines = sent.split(b"\r\n")
        return b"\r\n".join([line for line in lines if line.partition(b":")[0].lower() not in self._secrets])


class _SeenTransport:
    """A transport that captures the bytes written to it."""

    __slots__ = ("_capture", "_transport", "is_closing")

    def __init__(self, transport: Any, capture: Capture) -> None:
        self._transport = transport
        self._capture = capture
        self.is_closing = transport.is_closing  # aiohttp reads it before each write

    def write(self, data: bytes) -> None:
        self._capture.sent(bytes(data))
        self._transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@contextmanager
def seen(protocol: ResponseHandler, capture: Capture) -> Iterator[None]:
    """Capture the bytes sent on a connection in this context."""
    transport = protocol.transport
    seeing: Any = _SeenTransport(transport, capture)
    protocol.transport = seeing
    try:
        yield
    finally:
        if protocol.transport is seeing:  # unless the connection was lost
            protocol.transport = transport
