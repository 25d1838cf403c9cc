"""Encodes the steps of a job as bytes (docs/internals/format-steps.md).

A chunk is a MessagePack array of its fields, compressed with zstd. A step is the data that one transaction wrote: the
batch of the store, the data appended to outputs with its positions, and the bodies that became files.

Steps are numbered over the whole life of a job. Each opening of the job starts a new *line* with a random number. It
distinguishes two openings that follow the same state because one of them lost its data in a power loss. The chunk's
first step follows the preceding step of the line ``base``: the chunk's own line, except for the first steps after an
opening. A directory whose last step is exactly that one has exactly the job's state, and may apply the chunk; any other
directory has a gap.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec.msgpack

from crawler.job.records import StoredValue
from crawler.job.steps.seal import ChunkError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 1
_LARGEST = 2**30  # maximum bytes of the steps in a chunk; a body is smaller


class Mark(NamedTuple):
    """A state of a job: the number of its last step, and the line that wrote it."""

    line: int
    number: int

    def encode(self) -> bytes:
        """Return the mark as bytes for the store."""
        return _MARK.encode(self)

    @classmethod
    def decode(cls, value: bytes | None) -> Mark:
        """Decode a stored mark, the inverse of ``encode``; START if nothing is stored. Raises JournalError."""
        return START if value is None else _MARK.decode(value)


START = Mark(0, 0)
_MARK = StoredValue(Mark, "the mark of a step", 2)


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
        size = len(self.batch)
        for each in self.written:
            size += len(each.data)
        for _, data in self.bodies:
            size += len(data)
        return size


class Chunk(NamedTuple):
    """Steps of a partition from ``first`` on, all of one line. ``base`` is the line of the preceding step."""

    partition: int
    line: int
    base: int
    first: int
    steps: Sequence[Step]

    @property
    def reaches(self) -> Mark:
        """The state after the steps of the chunk."""
        return Mark(self.line, self.first - 1 + len(self.steps))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, int, int, list[Step]]).decode


def encode_chunk(chunk: Chunk) -> bytes:
    """Encode a chunk as the content of a message."""
    return zstd.compress(_encode(chunk[1:]), _LEVEL)


def decode_chunk(partition: int, content: memoryview) -> Chunk:
    """Decode a chunk: the inverse of ``encode_chunk``. Raises ChunkError."""
    try:
        return Chunk(partition, *_decode(zstd.ZstdDecompressor().decompress(content, _LARGEST)))
    except (zstd.ZstdError, msgspec.DecodeError) as error:
        raise ChunkError(f"steps cannot be read: {error}") from error
