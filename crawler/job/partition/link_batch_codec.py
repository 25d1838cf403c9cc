"""Encodes batches, acknowledgements and notes as bytes on a carrier.

    batch            =  head  count (4)  { size (4)  message }  seal (8)
    acknowledgement  =  head  seal (8)
    note             =  head  message  seal (8)
    head             =  0xCA  version (1)  kind (1)  sender (2)  target (2)  epoch (8)  number (8)

All numbers are big-endian. Sender and target are partitions; an acknowledgement has the sender and target of its
batches, and is sent in the opposite direction. The number of a note is 0: it is neither kept nor acknowledged. The seal
is keyed BLAKE2b of all preceding bytes, with the secret of the crawl. Bytes that are damaged, belong to another crawl,
or were written by someone who can reach the carrier but does not know the secret are rejected.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

BATCH_BYTES = 64 * 1024  # bytes of messages per batch, unless a single message is larger

_MAGIC, _VERSION = 0xCA, 1
_LINK_BATCH, _ACK, _NOTE = 1, 2, 3
_HEAD = struct.Struct(">BBBHHQQ")
_SIZE = struct.Struct(">I")
_SEAL = 8


class LinkBatchError(ValueError):
    """The bytes are not a batch, acknowledgement or note of this crawl."""


class LinkBatch(NamedTuple):
    """Messages from one partition to another. A sender numbers its batches for each target from 1 in each epoch."""

    sender: int
    target: int
    epoch: int
    number: int
    messages: list[bytes]


class Ack(NamedTuple):
    """All batches from ``sender`` to ``target`` up to that number, in that epoch of the sender, are durable at the
    target."""

    sender: int
    target: int
    epoch: int
    number: int


class Note(NamedTuple):
    """A message between partitions that may be lost (``notes``)."""

    sender: int
    target: int
    epoch: int
    number: int
    message: bytes


class LinkBatchCodec:
    """Encodes and decodes the batches of one crawl."""

    def __init__(self, secret: bytes) -> None:
        self._sealing = blake2b(key=secret, digest_size=_SEAL, person=b"batch").copy

    def encode(self, link_batch: LinkBatch | Ack | Note) -> bytes:
        """Encode the bytes for the carrier."""
        kind = _LINK_BATCH if isinstance(link_batch, LinkBatch) else _NOTE if isinstance(link_batch, Note) else _ACK
        parts = [_HEAD.pack(_MAGIC, _VERSION, kind, *link_batch[:4])]
        if isinstance(link_batch, LinkBatch):
            parts.append(_SIZE.pack(len(link_batch.messages)))
            for message in link_batch.messages:
                parts += (_SIZE.pack(len(message)), message)
        elif isinstance(link_batch, Note):
            parts.append(link_batch.message)
        body = b"".join(parts)
        return body + self._seal(body)

    def decode(self, data: bytes) -> LinkBatch | Ack | Note:
        """Decode the bytes from the carrier. Raises LinkBatchError."""
        if len(data) < _HEAD.size + _SEAL or data[0] != _MAGIC:
            raise LinkBatchError(f"{len(data)} bytes are not a batch")
        _, version, kind, sender, target, epoch, number = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise LinkBatchError(f"a batch of version {version}, not {_VERSION}")
        body = data[:-_SEAL]
        if self._seal(body) != data[-_SEAL:]:
            raise LinkBatchError("a batch is damaged, or belongs to another crawl")
        if kind == _ACK and len(body) == _HEAD.size:
            return Ack(sender, target, epoch, number)
        if kind == _LINK_BATCH:
            return LinkBatch(sender, target, epoch, number, _messages(body))
        if kind == _NOTE:
            return Note(sender, target, epoch, number, body[_HEAD.size :])
        raise LinkBatchError(f"a batch of unknown kind {kind}")

    def _seal(self, body: bytes) -> bytes:
        state = self._sealing()
        state.update(body)
        return state.digest()


def _messages(body: bytes) -> list[bytes]:
    messages, at = [], _HEAD.size + _SIZE.size
    try:
        for _ in range(_SIZE.unpack_from(body, _HEAD.size)[0]):
            end = at + _SIZE.size + _SIZE.unpack_from(body, at)[0]
            messages.append(body[at + _SIZE.size : end])
            at = end
    except struct.error as error:
        raise LinkBatchError("a batch ends too early") from error
    if at != len(body):
        raise LinkBatchError("a batch has too few or too many bytes")
    return messages
