"""The requests of a producer to a shard, and the answers. A shard executes each request atomically.

A producer has a name, and a random *session*. In each session it numbers the requests that add keys, for each shard
from 1. A shard stores the last answer for each producer, so a request whose answer was lost can be repeated, and gets
the same answer: keys added by the first copy are not reported as seen. A request that arrives after one with a higher
number changes nothing.

A shard also stores the keys that it reported as new to a producer, until the producer's next request confirms that it
has written them: if the producer dies, the next session of the same name gets these keys (its *claims*).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from crawler.base.faults import Failure, UserFault
from crawler.seen.shared.shard_geometry import Geometry

DAY = 86_400  # seconds that a shard keeps the data of an inactive producer
RESENT = -2
NEVER = -1


class Status(IntEnum):
    """The result of a request."""

    DONE = 0
    OTHER_SLICES = 1  # the request has another number of slices than the shard
    GONE = 2  # the shard, or a part of it, is missing
    REPLACED = 3  # the producer has a later session or sent a later request
    OTHER_SET = 4


class Who(NamedTuple):
    """A producer's session on a set."""

    set: bytes
    producer: bytes
    session: bytes  # 8 random bytes
    keeps: bool  # new keys are kept until the next request


class Open(NamedTuple):
    """Open slice ``number``, from 0, unless it is open; the first one also creates the shard."""

    shard: int
    set: bytes
    number: int
    geometry: Geometry
    watched: int  # maximum number of keys that the shard watches; -1 for none


class Begin(NamedTuple):
    """Start a session."""

    shard: int
    who: Who


class Add(NamedTuple):
    """Add keys in order, until the newest slice is full. With ``number`` 0, only look them up."""

    shard: int
    who: Who
    slices: int
    number: int
    records: bytes


class End(NamedTuple):
    """End a session whose producer has written all new keys, so that the next session gets no claims."""

    shard: int
    who: Who


class Figures(NamedTuple):
    """Read the statistics. ``sample`` is the maximum number of bytes to read from each slice, ``where`` their position
    as a fraction of 2**16."""

    shard: int
    set: bytes
    slices: int
    sample: int
    where: int


class Read(NamedTuple):
    """Read bytes of a slice."""

    shard: int
    number: int
    start: int
    end: int


class Fill(NamedTuple):
    """Write bytes to a slice that is not in use yet, and set its count."""

    shard: int
    number: int
    start: int
    data: bytes
    held: int  # number of keys


Request = Open | Begin | Add | End | Figures | Read | Fill


class SliceFigures(NamedTuple):
    """Statistics of a shard's part of a slice."""

    geometry: Geometry
    held: int  # number of keys
    bits_set: int
    sample: bytes


class Answer(NamedTuple):
    """``slices`` is the current number of slices; ``new`` has a byte for each key processed, 1 if it is new."""

    status: Status
    slices: int = 0
    before: int = NEVER  # number of the producer's previous request; RESENT for a repeated answer
    new: bytes = b""
    claims: bytes = b""  # concatenated digests
    parts: tuple[SliceFigures, ...] = ()
    watched: int = 0
    wrong: int = 0
    data: bytes = b""


class SharedSetError(Failure):
    """A set cannot be reached or used. The message is a single line, for the user."""


class SharedSetRefusedError(UserFault):
    """A set is not the expected one. The message is a single line that says what the user can do."""


class Shards(Protocol):
    """Access to the shards of a set."""

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Return the answers, in order. Retries for a while before it raises SharedSetError. Even then the request may
        have been executed; it can safely be repeated."""

    def close(self) -> None: ...
