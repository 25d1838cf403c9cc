"""The protocol on the socket between the processes on one machine and the carrier that one of them serves.

Each side first sends ``crawler-carrier VERSION`` and a line feed, 26 bytes, and continues only if the other side sends
the same. Frames follow: the length of the body (4 bytes, big-endian), and a request or an answer in MessagePack, an
array whose first item is its kind. A request has a number, which its answer repeats. Answers may arrive in a different
order from their requests. A cancelled read is not answered.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from crawler.base.carrier.memory_carrier import check_values

SOCKET_NAME = "carrier.sock"  # the socket's name in the crawl's directory
VERSION = 1
MOST_FRAME = 128 * 2**20  # maximum bytes of a frame: more than a carrier holds
PATIENCE = 5.0  # seconds to wait for an answer
_LENGTH = struct.Struct(">I")
_GREETING = b"crawler-carrier %09d\n"
_GREETING_SIZE = len(_GREETING % 0)
_SHORT = 100  # maximum bytes of a path; the address of a socket has room for 107

Number = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Names = Annotated[Sequence[str], Meta(max_length=4_096)]


class Append(Struct, tag="append", array_like=True, frozen=True):
    """Request to append entries to a stream."""

    call: Number
    stream: str
    writer: str
    epoch: Number
    entries: Sequence[bytes]


class Read(Struct, tag="read", array_like=True, frozen=True):
    """Request to read entries of streams."""

    call: Number
    after: Mapping[str, str]
    most: Number
    wait: Seconds


class Trim(Struct, tag="trim", array_like=True, frozen=True):
    """Request to drop entries of a stream."""

    call: Number
    stream: str
    upto: str


class Last(Struct, tag="last", array_like=True, frozen=True):
    """Request for the last positions of streams."""

    call: Number
    streams: Names


class Claim(Struct, tag="claim", array_like=True, frozen=True):
    """Request to claim a name."""

    call: Number
    name: str
    holder: str
    floor: Number
    seconds: Seconds


class Renew(Struct, tag="renew", array_like=True, frozen=True):
    """Request to renew a claim."""

    call: Number
    name: str
    holder: str
    epoch: Number
    seconds: Seconds


class Put(Struct, tag="put", array_like=True, frozen=True):
    """Request to set values under a name."""

    call: Number
    name: str
    values: Mapping[str, bytes]
    order: tuple[Number, Number] | None = None


class Get(Struct, tag="get", array_like=True, frozen=True):
    """Request for the value of one key under several names."""

    call: Number
    names: Names
    key: str


class Cancel(Struct, tag="cancel", array_like=True, frozen=True):
    """Cancels the read request with this number."""

    call: Number


class Done(Struct, tag="done", array_like=True, frozen=True):
    """Answer: the result of the requested verb."""

    call: Number
    result: Raw


class Failed(Struct, tag="failed", array_like=True, frozen=True):
    """Answer: the requested verb raised StaleEpochError if ``stale``, CarrierFullError if ``full``, otherwise
    CarrierError."""

    call: Number
    stale: bool
    text: str
    full: bool = False


Verb = Append | Read | Trim | Last | Claim | Renew | Put | Get
Request = Verb | Cancel
Answer = Done | Failed

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


class NonsenseError(Exception):
    """Raised when the other side does not follow the protocol."""


def encode(value: Any) -> bytes:
    """Encode a result in MessagePack."""
    return _encoder.encode(value)


def framed(message: Request | Answer) -> bytes:
    """Encode a message, preceded by its length."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


def decode_request(frame: bytes) -> Request:
    """Decode a request. Raises NonsenseError."""
    try:
        request: Request = _requests.decode(frame)
        if isinstance(request, Put):
            check_values(request.values)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NonsenseError(f"not a request: {error}") from error
    if isinstance(request, Read) and math.isnan(request.wait):
        raise NonsenseError("the wait is not a number")
    if isinstance(request, Claim | Renew) and math.isnan(request.seconds):
        raise NonsenseError("the time is not a number")
    return request


def decode_answer(frame: bytes) -> Answer:
    """Decode an answer. Raises NonsenseError."""
    try:
        return _answers.decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NonsenseError(f"not an answer: {error}") from error


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read the body of a frame. Raises NonsenseError, and the exceptions of the reader."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > MOST_FRAME:
        raise NonsenseError(f"a frame of {length} bytes")
    return await reader.readexactly(length)


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Send this program's version and return that of the other side. Raises NonsenseError, TimeoutError, and the
    exceptions of the reader."""
    async with asyncio.timeout(PATIENCE):
        writer.write(_GREETING % VERSION)
        said = await reader.readexactly(_GREETING_SIZE)
    magic, _, version = said.decode("latin-1").partition(" ")
    if magic.encode() != _GREETING.split()[0] or not version.endswith("\n") or not version[:-1].isdecimal():
        raise NonsenseError("not a greeting")
    return int(version)


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """Yield a name for the file that fits into a socket address. On Linux, such a name exists however long the file's
    path is. Raises OSError."""
    if len(os.fsencode(path)) <= _SHORT:
        yield str(path)
        return
    if sys.platform != "linux":
        raise OSError(errno.ENAMETOOLONG, "the path of a socket is longer than 100 bytes", str(path))
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
