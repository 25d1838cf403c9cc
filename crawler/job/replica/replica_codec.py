"""Every message to or about a replica as sealed bytes, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from crawler.job.replica.copy_pieces import (
    CopyBegin,
    CopyEnd,
    HandOver,
    Piece,
    decode_begin,
    decode_end,
    decode_hand_over,
    decode_piece,
    encode_begin,
    encode_end,
    encode_hand_over,
    encode_piece,
)
from crawler.job.replica.seal import ChunkError, Kind, Sealing
from crawler.job.replica.step_codec import Chunk, decode_chunk, encode_chunk

Message: TypeAlias = Chunk | CopyBegin | Piece | CopyEnd | HandOver

_ENCODERS: dict[type[Message], tuple[Kind, Callable[[Any], bytes]]] = {
    Chunk: (Kind.STEPS, encode_chunk),
    CopyBegin: (Kind.COPY_BEGIN, encode_begin),
    Piece: (Kind.PIECE, encode_piece),
    CopyEnd: (Kind.COPY_END, encode_end),
    HandOver: (Kind.HAND_OVER, encode_hand_over),
}
_DECODERS: dict[Kind, Callable[[int, memoryview], Message]] = {
    Kind.STEPS: decode_chunk,
    Kind.COPY_BEGIN: decode_begin,
    Kind.PIECE: decode_piece,
    Kind.COPY_END: decode_end,
    Kind.HAND_OVER: decode_hand_over,
}


class ReplicaCodec:
    """Writes and reads the messages of one crawl."""

    def __init__(self, secret: bytes) -> None:
        self._sealing = Sealing(secret)

    def encode(self, message: Message) -> bytes:
        """The bytes on the carrier. Raises ValueError for a file that a copy cannot have."""
        kind, encode = _ENCODERS[type(message)]
        return self._sealing.close(kind, message.partition, encode(message))

    def decode(self, data: bytes) -> Message:
        """The inverse of ``encode``. Raises ChunkError."""
        kind, partition, content = self._sealing.open(data)
        if kind not in _DECODERS:
            raise ChunkError(f"a message of a replica of kind {kind}, which only a log in a bucket has")
        return _DECODERS[kind](partition, content)
