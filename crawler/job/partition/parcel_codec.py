"""Parcels, their acknowledgements and notes, as bytes on a carrier.

    parcel           =  head  count (4)  { size (4)  message }  seal (8)
    acknowledgement  =  head  seal (8)
    note             =  head  message  seal (8)
    head             =  0xCA  version (1)  kind (1)  sender (2)  target (2)  epoch (8)  number (8)

All numbers are big-endian. Sender and target are partitions; an acknowledgement names those of the parcels that it is
about, and goes the other way. The number of a note is 0: it is neither kept nor acknowledged. The seal is keyed BLAKE2b
of all before it, with the secret of the crawl: bytes that are damaged, that belong to another crawl, or that somebody
wrote who can reach the carrier but does not know the crawl, are no parcel.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

PARCEL_BYTES = 64 * 1024  # of messages in a parcel, unless one message alone has more

_MAGIC, _VERSION = 0xCA, 1
_PARCEL, _ACK, _NOTE = 1, 2, 3
_HEAD = struct.Struct(">BBBHHQQ")
_SIZE = struct.Struct(">I")
_SEAL = 8


class ParcelError(ValueError):
    """The bytes are neither a parcel nor an acknowledgement of this crawl."""


class Parcel(NamedTuple):
    """Messages of one partition for another. The parcels of a sender for a target are numbered from 1 in each epoch of
    the sender."""

    sender: int
    target: int
    epoch: int
    number: int
    messages: list[bytes]


class Ack(NamedTuple):
    """The parcels of ``sender`` for ``target`` up to that number, of that epoch of the sender, are durable at the
    target."""

    sender: int
    target: int
    epoch: int
    number: int


class Note(NamedTuple):
    """What one partition tells another in passing (``notes``)."""

    sender: int
    target: int
    epoch: int
    number: int
    message: bytes


class ParcelCodec:
    """Writes and reads the parcels of one crawl."""

    def __init__(self, secret: bytes) -> None:
        self._sealing = blake2b(key=secret, digest_size=_SEAL, person=b"parcel").copy

    def encode(self, parcel: Parcel | Ack | Note) -> bytes:
        """The bytes on the carrier."""
        kind = _PARCEL if isinstance(parcel, Parcel) else _NOTE if isinstance(parcel, Note) else _ACK
        parts = [_HEAD.pack(_MAGIC, _VERSION, kind, *parcel[:4])]
        if isinstance(parcel, Parcel):
            parts.append(_SIZE.pack(len(parcel.messages)))
            for message in parcel.messages:
                parts += (_SIZE.pack(len(message)), message)
        elif isinstance(parcel, Note):
            parts.append(parcel.message)
        body = b"".join(parts)
        return body + self._seal(body)

    def decode(self, data: bytes) -> Parcel | Ack | Note:
        """The inverse of ``encode``. Raises ParcelError."""
        if len(data) < _HEAD.size + _SEAL or data[0] != _MAGIC:
            raise ParcelError(f"{len(data)} bytes are no parcel")
        _, version, kind, sender, target, epoch, number = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise ParcelError(f"a parcel of version {version}, not {_VERSION}")
        body = data[:-_SEAL]
        if self._seal(body) != data[-_SEAL:]:
            raise ParcelError("a parcel that is damaged, or of another crawl")
        if kind == _ACK and len(body) == _HEAD.size:
            return Ack(sender, target, epoch, number)
        if kind == _PARCEL:
            return Parcel(sender, target, epoch, number, _messages(body))
        if kind == _NOTE:
            return Note(sender, target, epoch, number, body[_HEAD.size :])
        raise ParcelError(f"a parcel of the unknown kind {kind}")

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
        raise ParcelError("a parcel that ends too early") from error
    if at != len(body):
        raise ParcelError("a parcel with too few or too many bytes")
    return messages
