"""One stored piece of a seen-set: a header that describes it, the bytes, and a checksum over both.

    segment  =  magic  version  header_size  payload_size  header  payload  checksum

    magic         8 bytes   89 53 45 45 4E 0D 0A 1A   ("SEEN", marked as PNG does, so that text mode or a
                            seven-bit path leave a trace)
    version       u32       1, or 2 for a segment whose state names the hash of its keys
    header_size   u32       bytes of the header, at most 1 MiB
    payload_size  u64       bytes of the payload
    header        JSON object, UTF-8
    payload       the buffer as it is in memory (words are little-endian)
    checksum      16 bytes  MurmurHash3 x64 128, seed 0, of everything before it

All numbers are little-endian. The checksum detects damage, not tampering: anybody can compute it.

The codec opens no files: it works on binary file objects. It reads and writes pieces of a mebibyte, so that a thread
that stores a gigabyte blocks the interpreter only for one piece at a time. The checksum is computed over the bytes that
were written, even if the buffer changes at the same time.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, Protocol

import mmh3
from msgspec import Struct

from crawler.seen.slices.bit_storage import zeroed_bytes
from crawler.seen.slices.errors import JSON

MAGIC = b"\x89SEEN\r\n\x1a"
VERSION = 1
NAMES_HASH = 2  # the version of the first segment of a filter file: a program that knows only 1 would use another hash
_VERSIONS = (VERSION, NAMES_HASH)
_PREFIX = struct.Struct("<8sIIQ")
_CHECKSUM_BYTES = 16
_PIECE = 2**20
_MAX_HEADER = 2**20


class FormatError(ValueError):
    """The bytes are not a segment, or of another version. The text says what is wrong, and at which offset."""


class SegmentSum(Struct, frozen=True):
    """A written segment: its whole ``size`` in bytes, and the checksum in hexadecimal."""

    size: int
    checksum: str


class Output(Protocol):
    """The target of a written segment."""

    def write(self, data: bytes, /) -> object: ...


def write_segment(out: Output, header: dict[str, JSON], buffer: memoryview, version: int = VERSION) -> SegmentSum:
    """Write one segment at ``out``'s position.

    Raises ``ValueError`` for a header beyond 1 MiB, and whatever ``out.write`` raises.
    """
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    if len(text) > _MAX_HEADER:
        raise ValueError(f"the header of a segment has at most {_MAX_HEADER} bytes, not {len(text)}")
    payload = buffer.cast("B")
    checksum = mmh3.mmh3_x64_128()
    head = _PREFIX.pack(MAGIC, version, len(text), len(payload)) + text
    checksum.update(head)
    out.write(head)
    for start in range(0, len(payload), _PIECE):
        piece = bytes(payload[start : start + _PIECE])
        checksum.update(piece)
        out.write(piece)
    total = checksum.digest()
    out.write(total)
    return SegmentSum(len(head) + len(payload) + len(total), total.hex())


def check_version(inp: BinaryIO) -> None:
    """Check the version of the segment at ``inp``'s position, which stays. Nothing behind the version is
    looked at: what another version means by it is not known here. Raises ``FormatError``."""
    prefix = inp.read(_PREFIX.size)
    inp.seek(-len(prefix), 1)
    if prefix[: len(MAGIC)] == MAGIC and len(prefix) == _PREFIX.size:
        _check_version(_PREFIX.unpack(prefix)[1])


def _check_version(version: int) -> None:
    if version not in _VERSIONS:
        known = " and ".join(map(str, _VERSIONS))
        raise FormatError(f"a segment of version {version} at offset 8; this program reads versions {known}")


def read_segment(inp: BinaryIO, *, limit: int) -> tuple[dict[str, Any], memoryview]:
    """Read the header and the payload of the segment at ``inp``'s position; ``inp`` is then positioned after it.

    The payload is writable and page-aligned. ``limit`` bounds its size in bytes (the size of the file is a good
    choice), so that a damaged length raises an error instead of a huge allocation. Raises ``FormatError``, and the
    errors of ``inp.read``.
    """
    prefix = _exactly(inp, _PREFIX.size, 0, "its first bytes")
    magic, version, header_size, payload_size = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise FormatError(f"not a segment of a seen-set: it begins with {magic.hex(' ')} at offset 0")
    _check_version(version)
    if header_size > _MAX_HEADER:
        raise FormatError(f"a header of {header_size} bytes at offset 12; at most {_MAX_HEADER} are possible")
    if payload_size > limit:
        raise FormatError(
            f"a payload of {payload_size} bytes at offset 16; at most {limit} are possible here: cut off, or damaged"
        )
    text = _exactly(inp, header_size, _PREFIX.size, "its header")
    checksum = mmh3.mmh3_x64_128()
    checksum.update(prefix)
    checksum.update(text)
    offset = _PREFIX.size + header_size
    payload = zeroed_bytes(payload_size)
    for start in range(0, payload_size, _PIECE):
        size = min(_PIECE, payload_size - start)
        piece = _exactly(inp, size, offset + start, f"its payload of {payload_size} bytes")
        checksum.update(piece)
        payload[start : start + size] = piece
    offset += payload_size
    stored = _exactly(inp, _CHECKSUM_BYTES, offset, "its checksum")
    if stored != checksum.digest():
        raise FormatError(
            f"damaged: the checksum at offset {offset} is {stored.hex()}, the bytes before it give "
            f"{checksum.digest().hex()}"
        )
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise FormatError(f"the header at offset {_PREFIX.size} is not JSON: {problem}") from None
    if not isinstance(header, dict):
        raise FormatError(f"the header at offset {_PREFIX.size} is not a JSON object")
    return header, payload


def _exactly(inp: BinaryIO, size: int, offset: int, what: str) -> bytes:
    pieces: list[bytes] = []
    left = size
    while left:
        piece = inp.read(left)
        if not piece:
            raise FormatError(f"cut off at offset {offset + size - left}, within {what}")
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
