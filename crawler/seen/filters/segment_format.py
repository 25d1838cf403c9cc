"""One stored piece of a seen-set: a header that describes it, the payload, and a checksum over both.

    segment  =  magic  version  header_size  payload_size  header  payload  checksum

    magic         8 bytes   89 53 45 45 4E 0D 0A 1A   ("SEEN", marked as in PNG, so that damage by text mode or a
                            seven-bit transfer is detected)
    version       u32       1, or 2 for a segment whose state names the hash of its keys
    header_size   u32       bytes of the header, at most 1 MiB
    payload_size  u64       bytes of the payload
    header        JSON object, UTF-8
    payload       the buffer as in memory (words are little-endian)
    checksum      16 bytes  MurmurHash3 x64 128, seed 0, of everything before it

All numbers are little-endian. The checksum detects damage, not tampering: anyone can compute it.

The codec opens no files: it works on binary file objects. It reads and writes pieces of 1 MiB, so that a thread
that stores a gigabyte blocks the interpreter only for one piece at a time. The checksum covers the bytes that
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
NAMES_HASH = 2  # version of the first segment of a filter file: programs that know only 1 would use the wrong hash
_VERSIONS = (VERSION, NAMES_HASH)
_PREFIX = struct.Struct("<8sIIQ")
_CHECKSUM_BYTES = 16
_PIECE = 2**20
_MAX_HEADER = 2**20


class FormatError(ValueError):
    """The bytes are not a segment, or are one of an unknown version. The message names the problem and its offset."""


class SegmentSum(Struct, frozen=True):
    """The ``size`` of a written segment in bytes, and its checksum in hexadecimal."""

    size: int
    checksum: str


class Output(Protocol):
    """An object to which a segment can be written."""

    def write(self, data: bytes, /) -> object: ...


def write_segment(out: Output, header: dict[str, JSON], buffer: memoryview, version: int = VERSION) -> SegmentSum:
    """Write one segment at ``out``'s position.

    Raises ``ValueError`` for a header of more than 1 MiB, and any error of ``out.write``.
    """
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    if len(text) > _MAX_HEADER:
        raise ValueError(f"the header of a segment may have at most {_MAX_HEADER} bytes, not {len(text)}")
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
    """Check the version of the segment at ``inp``'s position, which does not change. The bytes after the version are
    not read, because another version may use them differently. Raises ``FormatError``."""
    prefix = inp.read(_PREFIX.size)
    inp.seek(-len(prefix), 1)
    if prefix[: len(MAGIC)] == MAGIC and len(prefix) == _PREFIX.size:
        _check_version(_PREFIX.unpack(prefix)[1])


def _check_version(version: int) -> None:
    if version not in _VERSIONS:
        known = " and ".join(map(str, _VERSIONS))
        raise FormatError(f"the segment has version {version} at offset 8; this program reads versions {known}")


def read_segment(inp: BinaryIO, *, limit: int) -> tuple[dict[str, Any], memoryview]:
    """Read the header and the payload of the segment at ``inp``'s position, and leave ``inp`` positioned after it.

    The payload is writable and page-aligned. ``limit`` bounds its size in bytes (the size of the file is a good
    choice), so that a damaged length raises an error instead of a huge allocation. Raises ``FormatError``, and the
    errors of ``inp.read``.
    """
    prefix = _exactly(inp, _PREFIX.size, 0, "its first bytes")
    magic, version, header_size, payload_size = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise FormatError(f"not a segment of a seen-set: it starts with {magic.hex(' ')} at offset 0")
    _check_version(version)
    if header_size > _MAX_HEADER:
        raise FormatError(f"the header size at offset 12 is {header_size} bytes; at most {_MAX_HEADER} are possible")
    if payload_size > limit:
        raise FormatError(
            f"the payload size at offset 16 is {payload_size} bytes; at most {limit} are possible: truncated or damaged"
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
            f"damaged: the checksum at offset {offset} is {stored.hex()}, but that of the bytes before it is "
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
            raise FormatError(f"truncated at offset {offset + size - left}, in {what}")
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
