"""Notes between partitions: messages that are not stored, and may be lost or repeated. A sender that needs an answer
asks again. A note is a MessagePack array that starts with the number of its kind:

    1  Wish            how many pages a partition may fetch, and how many more it could fetch (``quota``)
    2  Grant           the coordinator's answer to a wish
    3  Recall          the coordinator has started, and requests a wish
    4  RobotsQuestion  asks the receiver to fetch a robots.txt to which a host of the sender redirects
    5  RobotsAnswer    the result of that fetch
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from crawler.job.partition.quota import Grant, Recall, Wish


class RobotsQuestion(Struct, array_like=True, tag=4, frozen=True):
    """A question that its sender has numbered; the answer has the same number."""

    number: int
    address: str


class Exchange(Struct, array_like=True, frozen=True):
    """An HTTP exchange as sent and received; the fields are those of ``fetch.outcome.RawExchange``."""

    request: bytes
    head: bytes
    body: bytes
    truncated: str | None
    chunked: bool
    address: str | None


class RobotsAnswer(Struct, array_like=True, tag=5, frozen=True):
    """The result of a robots.txt fetch. A server's response has a ``status``; a failed request has a ``failure``, the
    name of its kind. If ``wait`` is set, the sender of the question should repeat it after that many seconds. ``age``:
    seconds since the response. ``seconds``: how long the request took. ``raw``: the exchange for an archive, if the
    crawl keeps one and the exchange is not too long."""

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


BODY_MOST = 2**20  # maximum bytes sent of a robots.txt, and of its exchange
Said = Wish | Grant | Recall | RobotsQuestion | RobotsAnswer
_decoder: msgspec.msgpack.Decoder[Said] = msgspec.msgpack.Decoder(Said)
encode_note = msgspec.msgpack.Encoder().encode


def decode_note(data: bytes) -> Said | None:
    """Decode a note; None if this version does not know its kind: the caller may safely ignore it."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return None
