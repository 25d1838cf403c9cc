"""What a producer asks a shard, and what it answers. All that a shard does for one request is one step.

A producer has a name, and a *session* of chance. It numbers the requests of a session that add keys, for each shard
from 1. A shard keeps the last answer of each producer, so a request whose answer was lost is sent again and gets the
same one: no key is called seen because it is already in by the first copy. A request that arrives after a later one
changes nothing.

What a producer was told is new, and has perhaps not passed on yet, a shard keeps too, until the producer's next
request says that it has: if it dies, the next session of the same name is given it (its *claims*).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from crawler.base.faults import Failure, UserFault
from crawler.seen.shared.shard_geometry import Geometry

DAY = 86_400  # seconds that a shard keeps what belongs to a producer that is not heard of
RESENT = -2
NEVER = -1


class Status(IntEnum):
    """How a shard took a request."""

    DONE = 0
    OTHER_SLICES = 1  # the request does not name the slices that there are
    GONE = 2  # the shard, or a part of it, is not there
    REPLACED = 3  # a later session, or a later request, of the producer is known
    OTHER_SET = 4


class Who(NamedTuple):
    """A producer in a session, of a set."""

    set: bytes
    producer: bytes
    session: bytes  # 8 bytes
    keeps: bool  # whether what is new is kept until the next request


class Open(NamedTuple):
    """Open slice ``number``, from 0, unless that was done; also: make a shard of a set."""

    shard: int
    set: bytes
    number: int
    geometry: Geometry
    watched: int  # keys that the shard watches at most, and -1: none


class Begin(NamedTuple):
    """Begin a session."""

    shard: int
    who: Who


class Add(NamedTuple):
    """Add keys in order, until the newest slice is full. ``number`` 0: only look whether they are in."""

    shard: int
    who: Who
    slices: int
    number: int
    records: bytes


class End(NamedTuple):
    """The producer has passed on everything: it leaves nothing to its next session."""

    shard: int
    who: Who


class Figures(NamedTuple):
    """Count and read. ``sample``: at most so many bytes of each slice; ``where``: a fraction of 2**16, where."""

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
    """Put bytes into a slice that nobody uses yet, and set its count."""

    shard: int
    number: int
    start: int
    data: bytes
    held: int  # keys


Request = Open | Begin | Add | End | Figures | Read | Fill


class SliceFigures(NamedTuple):
    """A shard's part of a slice."""

    geometry: Geometry
    held: int  # keys
    bits_set: int
    sample: bytes


class Answer(NamedTuple):
    """``slices`` is the number there is; ``new`` has a byte for each key that was taken, 1 if it is new."""

    status: Status
    slices: int = 0
    before: int = NEVER  # the number of the request that the producer made before, RESENT for an answer given again
    new: bytes = b""
    claims: bytes = b""  # digests
    parts: tuple[SliceFigures, ...] = ()
    watched: int = 0
    wrong: int = 0
    data: bytes = b""


class SharedSetError(Failure):
    """A set cannot be reached or used. The text is one line for the user."""


class SharedSetRefusedError(UserFault):
    """A set is not what was asked for. The text is one line that says what to do."""


class Shards(Protocol):
    """Where the shards of a set are."""

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """The answers, in order. Raises SharedSetError after some patience; a request may have been done then, and is
        the same when it is sent again."""
        ...

    def close(self) -> None: ...
