"""The frame of a message in a log: its kind, its partition, and a seal.

    message  =  0xCB  version (1)  kind (1)  partition (2)  content  seal (16)

The seal is keyed BLAKE2b over all preceding bytes, with the secret of the crawl.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

_MAGIC, _VERSION = 0xCB, 2
_HEAD = struct.Struct(">BBBH")
_SEAL = 16


class ChunkError(ValueError):
    """The bytes are not a message of this crawl, or not a mark."""


class Kind(IntEnum):
    """The kind of a message."""

    STEPS = 1
    CLOSED = 6


class Sealed(NamedTuple):
    """An opened message."""

    kind: Kind
    partition: int
    content: memoryview


class Sealing:
    """Seals and opens the messages of one crawl."""

    def __init__(self, secret: bytes) -> None:
        self._keyed = blake2b(key=secret, digest_size=_SEAL, person=b"steps").copy

    def close(self, kind: Kind, partition: int, content: bytes) -> bytes:
        """Return the message as bytes."""
        body = _HEAD.pack(_MAGIC, _VERSION, kind, partition) + content
        return body + self._seal(body)

    def open(self, data: bytes) -> Sealed:
        """Check the seal and return the message: the inverse of ``close``. Raises ChunkError."""
        if len(data) < _HEAD.size + _SEAL or data[0] != _MAGIC:
            raise ChunkError(f"{len(data)} bytes are not a message of a log")
        _, version, kind, partition = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise ChunkError(f"a message of a log has version {version}, not {_VERSION}")
        body = memoryview(data)[:-_SEAL]
        if self._seal(body) != data[-_SEAL:]:
            raise ChunkError("a message of a log is damaged, or belongs to another crawl")
        try:
            return Sealed(Kind(kind), partition, body[_HEAD.size :])
        except ValueError as error:
            raise ChunkError(f"a message of a log has an unknown kind: {kind}") from error

    def _seal(self, body: bytes | memoryview) -> bytes:
        state = self._keyed()
        state.update(body)
        return state.digest()
