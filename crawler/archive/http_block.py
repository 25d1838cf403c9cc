"""HTTP messages as the blocks of records.

The body has its content codings, as it came, but no transfer coding: that is how the connection carried it, and the
length of the record says where it ends. A header that still named it would make readers look for chunks, so its name
becomes ``X-Orig-Transfer-Encoding``, as the tools of Webrecorder write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

REQUEST_TYPE = "application/http; msgtype=request"
RESPONSE_TYPE = "application/http; msgtype=response"

# What logs in is nobody else's business, and an archive is made to be passed on.
SECRET = frozenset((b"authorization", b"cookie", b"proxy-authorization"))

_TRANSFER_CODING = b"transfer-encoding"
_ORIGINAL = b"X-Orig-"

Headers = Sequence[tuple[bytes, bytes]]


class Request(NamedTuple):
    """A request without a body, as it was sent. ``target``: what the request line names."""

    target: bytes
    headers: Headers
    method: bytes = b"GET"


class Answer(NamedTuple):
    """A response as it was received, less its transfer coding. ``truncated``: why the body lacks its end, in a word of
    the standard: ``length``, ``time``, ``disconnect`` or ``unspecified``; empty if it does not."""

    status: int
    reason: bytes
    headers: Headers
    body: bytes
    truncated: str = ""
    version: tuple[int, int] = (1, 1)


def request_block(request: Request) -> bytes:
    """The request, less the headers that log in."""
    first = b"%s %s HTTP/1.1\r\n" % (request.method, request.target)
    return first + _head([(name, value) for name, value in request.headers if name.lower() not in SECRET])


def response_head(answer: Answer) -> bytes:
    """The response up to its body."""
    first = b"HTTP/%d.%d %03d %s\r\n" % (*answer.version, answer.status, _line(answer.reason))
    return first + _head([(_named(name), value) for name, value in answer.headers])


def _named(name: bytes) -> bytes:
    return _ORIGINAL + name if len(name) == len(_TRANSFER_CODING) and name.lower() == _TRANSFER_CODING else name


def _head(headers: Headers) -> bytes:
    lines = [b"%s: %s\r\n" % (name, _line(value)) for name, value in headers]
    return b"".join(lines) + b"\r\n"


def _line(value: bytes) -> bytes:
    """The value on one line. (Long ago a value might go on in the next.)"""
    return b" ".join(value.splitlines()) if b"\n" in value or b"\r" in value else value
