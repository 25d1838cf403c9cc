"""What partitions tell each other in passing: nobody keeps it, and it may be lost or come again. Whoever needs an
answer asks once more. Arrays in MessagePack that begin with the number of their kind.

    1  Wish    how many pages a partition may fetch, and how many more it could (``quota``)
    2  Grant   what the coordinator answers
    3  Recall  the coordinator has begun: who has not told it a wish since does so now
    4  RobotsQuestion  the receiver is to fetch a robots.txt of one of its hosts, to which one of the sender redirects
    5  RobotsAnswer    what came of it
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from crawler.job.partition.quota import Allowance, Grant, Wish


class Wished(Struct, array_like=True, tag=1, frozen=True):
    """See ``Wish``."""

    version: int
    total: int
    more: int


class Granted(Struct, array_like=True, tag=2, frozen=True):
    """See ``Grant``."""

    version: int
    total: int
    left: bool


class Recall(Struct, array_like=True, tag=3, frozen=True):
    """The coordinator asks for wishes."""


class RobotsQuestion(Struct, array_like=True, tag=4, frozen=True):
    """The sender numbers its questions."""

    number: int
    address: str


class Exchange(Struct, array_like=True, frozen=True):
    """An exchange as it was on the wire; the fields are those of ``fetch.outcome.RawExchange``."""

    request: bytes
    head: bytes
    body: bytes
    truncated: str | None
    chunked: bool
    address: str | None


class RobotsAnswer(Struct, array_like=True, tag=5, frozen=True):
    """An answer of a server has a ``status``, a failed request has a ``failure``, the name of its kind. With ``wait``
    the question is to be asked again after so many seconds. ``age``: how many seconds ago the server answered.
    ``seconds``: how long that took. ``raw``: the exchange for an archive, if one is kept and there is room for it."""

    number: int
    status: int | None = None
    location: str | None = None
    body: bytes = b""
    failure: str = ""
    message: str = ""
    wait: float | None = None
    age: float = 0.0
    seconds: float = 0.0
    raw: Exchange | None = None


BODY_MOST = 2**20  # bytes of a robots.txt that are told, and of its exchange
Said = Wish | Grant | Recall | RobotsQuestion | RobotsAnswer

_Note = Wished | Granted | Recall | RobotsQuestion | RobotsAnswer
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Note).decode


def encode_note(note: Said) -> bytes:
    """The note as bytes."""
    if isinstance(note, Wish):
        return _encode(Wished(note.has.version, note.has.total, note.more))
    if isinstance(note, Grant):
        return _encode(Granted(note.gives.version, note.gives.total, note.left))
    return _encode(note)


def decode_note(data: bytes) -> Said | None:
    """The inverse of ``encode_note``; None for what this version does not know, which may be missed."""
    try:
        note: _Note = _decode(data)
    except msgspec.DecodeError:
        return None
    if isinstance(note, Wished):
        return Wish(Allowance(note.version, note.total), note.more)
    if isinstance(note, Granted):
        return Grant(Allowance(note.version, note.total), note.left)
    return note
