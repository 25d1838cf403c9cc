"""Encodes batches, acknowledgements and notes as bytes on a carrier.

    0xCA  version (1)  kind (1)  MessagePack array of the fields  seal (8)

Sender and target are partitions; an acknowledgement has the sender and target of its
batches, and is sent in the opposite direction. The number of a note is 0: it is neither kept nor acknowledged. The seal
is keyed BLAKE2b of all preceding bytes, with the secret of the crawl. Bytes are rejected if they are damaged, belong to
another crawl, or were written by someone who can reach the carrier but does not know the secret.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import msgspec.msgpack

BATCH_BYTES = 64 * 1024  # bytes of messages per batch, unless a single message is larger

_MAGIC, _VERSION = 0xCA, 2
_HEAD_SIZE, _SEAL = 3, 8


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
    """An acknowledgement: all batches from ``sender`` to ``target`` up to ``number``, in that ``epoch`` of the sender,
    are durable at the target."""

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


Content = LinkBatch | Ack | Note  # the content of an entry on a carrier

_KINDS: dict[type[Content], int] = {LinkBatch: 1, Ack: 2, Note: 3}
_TYPES = {kind: of for of, kind in _KINDS.items()}
_encode = msgspec.msgpack.Encoder().encode


class LinkBatchCodec:
    """Encodes and decodes the batches of one crawl."""

    def __init__(self, secret: bytes) -> None:
        self._sealing = blake2b(key=secret, digest_size=_SEAL, person=b"batch").copy

    def encode(self, link_batch: Content) -> bytes:
        """Encode the bytes for the carrier."""
        body = bytes((_MAGIC, _VERSION, _KINDS[type(link_batch)])) + _encode(link_batch)
        return body + self._seal(body)

    def decode(self, data: bytes) -> Content:
        """Decode the bytes from the carrier. Raises LinkBatchError."""
        body = data[:-_SEAL]
        if len(body) < _HEAD_SIZE or body[0] != _MAGIC:
            raise LinkBatchError(f"{len(data)} bytes are not a batch")
        _, version, kind = body[:_HEAD_SIZE]
        if version != _VERSION:
            raise LinkBatchError(f"a batch has version {version}, not {_VERSION}")
        if self._seal(body) != data[-_SEAL:]:
            raise LinkBatchError("a batch is damaged, or belongs to another crawl")
        try:
            return msgspec.msgpack.decode(body[_HEAD_SIZE:], type=_TYPES[kind])
        except (KeyError, msgspec.DecodeError) as error:
            raise LinkBatchError(f"a batch of kind {kind} cannot be read: {error}") from error

    def _seal(self, body: bytes) -> bytes:
        state = self._sealing()
        state.update(body)
        return state.digest()
