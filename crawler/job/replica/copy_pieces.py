"""The copy of a job as bytes on a carrier, piece by piece, and the message that hands a partition over.

    begin     =  copy (8)
    piece     =  copy (8)  number (8)  form (1)  text
    text      =  count (4) { size (2)  path  offset (8)  size (4)  data }
    end       =  copy (8)  pieces (8)
    hand over =  line (8)  number (8)

All numbers are big-endian. A copy has a random number, and its pieces are numbered from 0 on. A piece holds parts of
one file or of several small ones: the parts of a file follow each other from its start to its end. With form 1 the text
is compressed (zstd); with form 0 it is not, because it would not shrink.

A path is relative, and its names are plain: a message can name no file outside the directory of the copy.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

from crawler.job.replica.seal import ChunkError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 256 * 1024  # bytes of files in a piece
_COPY = struct.Struct(">Q")
_PIECE_HEAD = struct.Struct(">QQB")
_TWO = struct.Struct(">QQ")
_COUNT = struct.Struct(">I")
_NAME = struct.Struct(">H")
_PLACE = struct.Struct(">QI")
_LEVEL = 1
_PLAIN, _ZSTD = 0, 1
_WORTH = 8  # a piece is sent compressed if that saves an eighth of it
_LARGEST = 2**22  # bytes of the text of a piece: one of many empty files has its paths too
_PATH = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}){0,7}")
_PATH_MOST = 512


class CopyError(Exception):
    """A copy cannot go on: another must begin."""


class CopyBegin(NamedTuple):
    """A copy of the partition begins; ``copy`` is its random number."""

    partition: int
    copy: int


class FilePart(NamedTuple):
    """Bytes of a file, whose path is relative to the directory of the job, from an offset on."""

    path: str
    offset: int
    data: bytes


class Piece(NamedTuple):
    """The piece of a copy with that number."""

    partition: int
    copy: int
    number: int
    parts: Sequence[FilePart]


class CopyEnd(NamedTuple):
    """The copy has so many pieces, and no more: it is whole."""

    partition: int
    copy: int
    pieces: int


class HandOver(NamedTuple):
    """The partition is another home's from here on: its last step is ``number`` of ``line``."""

    partition: int
    line: int
    number: int


def is_path(path: str) -> bool:
    """Whether a copy can have a file of that path."""
    text = path.encode("utf-8", "surrogateescape")
    return len(text) <= _PATH_MOST and _PATH.fullmatch(text) is not None


def encode_begin(message: CopyBegin) -> bytes:
    return _COPY.pack(message.copy)


def decode_begin(partition: int, content: memoryview) -> CopyBegin:
    """Raises ChunkError."""
    return CopyBegin(partition, *_numbers(_COPY, content))


def encode_end(message: CopyEnd) -> bytes:
    return _TWO.pack(message.copy, message.pieces)


def decode_end(partition: int, content: memoryview) -> CopyEnd:
    """Raises ChunkError."""
    return CopyEnd(partition, *_numbers(_TWO, content))


def encode_hand_over(message: HandOver) -> bytes:
    return _TWO.pack(message.line, message.number)


def decode_hand_over(partition: int, content: memoryview) -> HandOver:
    """Raises ChunkError."""
    return HandOver(partition, *_numbers(_TWO, content))


def _numbers(form: struct.Struct, content: memoryview) -> tuple[int, ...]:
    if len(content) != form.size:
        raise ChunkError(f"a message of a copy has {len(content)} bytes, not {form.size}")
    return form.unpack(content)


def encode_piece(piece: Piece) -> bytes:
    """Raises ValueError for a path that no copy can have."""
    parts = [_COUNT.pack(len(piece.parts))]
    for path, offset, data in piece.parts:
        if not is_path(path):
            raise ValueError(f"{path!r} is no path of a copy")
        name = path.encode("ascii")
        parts += (_NAME.pack(len(name)), name, _PLACE.pack(offset, len(data)), data)
    text = b"".join(parts)
    if len(text) > _LARGEST:
        raise ValueError(f"a piece of {len(text)} bytes, of {_LARGEST} at most")
    shrunk = zstd.compress(text, _LEVEL)
    form, text = (_ZSTD, shrunk) if len(shrunk) <= len(text) - len(text) // _WORTH else (_PLAIN, text)
    return _PIECE_HEAD.pack(piece.copy, piece.number, form) + text


def decode_piece(partition: int, content: memoryview) -> Piece:
    """Raises ChunkError."""
    if len(content) < _PIECE_HEAD.size:
        raise ChunkError("a piece of a copy that ends too early")
    copy, number, form = _PIECE_HEAD.unpack_from(content)
    return Piece(partition, copy, number, _parts(_text(form, content[_PIECE_HEAD.size :])))


def _text(form: int, data: memoryview) -> bytes:
    if form not in (_PLAIN, _ZSTD):
        raise ChunkError(f"a piece of a copy in the unknown form {form}")
    if len(data) > _LARGEST:
        raise ChunkError(f"a piece of a copy of {len(data)} bytes")
    if form == _PLAIN:
        return bytes(data)
    reading = zstd.ZstdDecompressor()
    try:
        text = reading.decompress(data, _LARGEST)
    except zstd.ZstdError as error:
        raise ChunkError(f"a piece of a copy that cannot be read: {error}") from error
    if not reading.eof or reading.unused_data:
        raise ChunkError("a piece of a copy that is too large, or has bytes after its end")
    return text


def _parts(text: bytes) -> list[FilePart]:
    parts: list[FilePart] = []
    try:
        (count,) = _COUNT.unpack_from(text)
        at = _COUNT.size
        for _ in range(count):
            (size,) = _NAME.unpack_from(text, at)
            at += _NAME.size
            name = text[at : at + size]
            at += size
            offset, size = _PLACE.unpack_from(text, at)
            at += _PLACE.size
            data = text[at : at + size]
            at += size
            if len(name) > _PATH_MOST or not _PATH.fullmatch(name) or len(data) != size:
                raise ChunkError(f"a piece of a copy with a part that is none: {name[:80]!r}")
            parts.append(FilePart(name.decode("ascii"), offset, data))
    except struct.error as error:
        raise ChunkError("a piece of a copy that ends too early") from error
    if at != len(text):
        raise ChunkError("a piece of a copy with bytes after its last part")
    return parts
