"""Encodes the steps of a job as bytes (docs/internals/format-steps.md).

    chunk   =  line (8)  base (8)  first (8)  count (4)  zstd of { step }
    step    =  batch  count (2) { file (4)  start (8)  bytes }  count (2) { SHA-256 (32)  bytes }
    bytes   =  size (4)  data;  a batch is also preceded by a size

All numbers are big-endian, except inside a batch (docs/internals/format-batch.md). A step is the data that one
transaction wrote: the batch of the store, the data appended to outputs with its positions, and the bodies that became
files.

Steps are numbered over the whole life of a job. Each opening of the job is a separate *line* with a random number,
which distinguishes two openings that follow the same state, one of which lost its data in a power loss. The chunk's
first step follows the preceding step of the line ``base``: the chunk's own line, except for the first steps after an
opening. A directory with exactly that step has exactly the job's state, and may apply the chunk; any other has a gap.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

from crawler.job.steps.seal import ChunkError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_HEAD = struct.Struct(">QQQI")
_SIZE = struct.Struct(">I")
_COUNT = struct.Struct(">H")
_PLACE = struct.Struct(">IQ")
_DIGEST = 32
_LEVEL = 1
_MARK = struct.Struct(">BQQ")
_MARK_VERSION = 1
_LARGEST = 2**30  # limit for the steps in a chunk in bytes: a body is smaller


class Mark(NamedTuple):
    """A state of a job: the number of its last step, and the line that wrote it."""

    line: int
    number: int

    def encode(self) -> bytes:
        """Return the mark as bytes for the store."""
        return _MARK.pack(_MARK_VERSION, *self)

    @classmethod
    def decode(cls, value: bytes | None) -> Mark:
        """Inverse of ``encode``; START if nothing is stored. Raises ChunkError."""
        if value is None:
            return START
        if len(value) != _MARK.size or value[0] != _MARK_VERSION:
            raise ChunkError(f"not a mark of a step: {len(value)} bytes")
        return cls(*_MARK.unpack(value)[1:])


START = Mark(0, 0)


class Written(NamedTuple):
    """Bytes of an output: the number of the file in positions, the offset of the first byte, and the data."""

    file: int
    start: int
    data: bytes


class Step(NamedTuple):
    """The data that one transaction wrote: its encoded batch, the data appended to outputs, and bodies by SHA-256."""

    batch: bytes
    written: Sequence[Written] = ()
    bodies: Sequence[tuple[bytes, bytes]] = ()

    @property
    def size(self) -> int:
        """The size of the step in bytes."""
        written = sum(len(each.data) for each in self.written)
        return len(self.batch) + written + sum(len(data) for _, data in self.bodies)


class Chunk(NamedTuple):
    """Steps of a partition from ``first`` on, all of one line. ``base`` is the line of the preceding step."""

    partition: int
    line: int
    base: int
    first: int
    steps: Sequence[Step]

    @property
    def follows(self) -> Mark:
        """The state before the steps."""
        return Mark(self.base, self.first - 1)

    @property
    def reaches(self) -> Mark:
        """The state after the steps."""
        return Mark(self.line, self.first - 1 + len(self.steps))


def encode_chunk(chunk: Chunk) -> bytes:
    """Encode a chunk as the content of a message."""
    parts: list[bytes] = []
    for step in chunk.steps:
        parts += (_SIZE.pack(len(step.batch)), step.batch, _COUNT.pack(len(step.written)))
        for file, start, data in step.written:
            parts += (_PLACE.pack(file, start), _SIZE.pack(len(data)), data)
        parts.append(_COUNT.pack(len(step.bodies)))
        for digest, data in step.bodies:
            parts += (digest, _SIZE.pack(len(data)), data)
    return _HEAD.pack(*chunk[1:4], len(chunk.steps)) + zstd.compress(b"".join(parts), _LEVEL)


def decode_chunk(partition: int, content: memoryview) -> Chunk:
    """Inverse of ``encode_chunk``. Raises ChunkError."""
    if len(content) < _HEAD.size:
        raise ChunkError("steps are truncated")
    line, base, first, count = _HEAD.unpack_from(content)
    try:
        text = zstd.ZstdDecompressor().decompress(content[_HEAD.size :], _LARGEST)
    except zstd.ZstdError as error:
        raise ChunkError(f"steps cannot be decompressed: {error}") from error
    return Chunk(partition, line, base, first, _steps(text, count))


class _Text:
    """Reads pieces of a text in order. Raises ChunkError if the text is too short."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.at = 0

    def take(self, size: int) -> bytes:
        piece = self._text[self.at : self.at + size]
        if len(piece) != size:
            raise ChunkError("steps are truncated")
        self.at += size
        return piece

    def sized(self) -> bytes:
        return self.take(_SIZE.unpack(self.take(_SIZE.size))[0])

    def count(self) -> int:
        return int(_COUNT.unpack(self.take(_COUNT.size))[0])

    def place(self) -> tuple[int, int]:
        file, start = _PLACE.unpack(self.take(_PLACE.size))
        return file, start


def _steps(text: bytes, count: int) -> list[Step]:
    reading, steps = _Text(text), []
    for _ in range(count):
        batch = reading.sized()
        written = [Written(*reading.place(), reading.sized()) for _ in range(reading.count())]
        bodies = [(reading.take(_DIGEST), reading.sized()) for _ in range(reading.count())]
        steps.append(Step(batch, written, bodies))
    if reading.at != len(text):
        raise ChunkError("data after the last step")
    return steps
