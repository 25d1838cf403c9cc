"""The contract of a carrier: eight verbs. By them the partitions of one crawl tell each other of links, and each has
one owner at a time.

A carrier is never the truth. It may lose everything at any moment, or a part of what it acknowledged: that costs time,
because whoever appended an entry keeps it until its receiver says that it is durable there. What a carrier must do by
itself is small: entries of a stream keep their order, a claim has one holder until its time runs out, and an entry of
an owner that has been replaced is refused. Calls may arrive late, or twice: so a value can have an order, and then an
older one never takes the place of a newer one.

Names are those of partitions, ``p0`` to ``p1023``, of seats, ``w0``, ``w1``, ..., or of the crawl, ``crawl``. Of each
name there may be a stream, a claim and values. Everything of one name can live on one server of a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawler.base.faults import UserFault

START = ""  # the position before the first entry of a stream
CRAWL = "crawl"  # the name of the whole crawl

Position = str  # of an entry in its stream; opaque
Order = tuple[int, int]  # of a value: an epoch below 2^50, and a number below 2^53 of what was said in it


class CarrierError(Exception):
    """The carrier cannot be reached, or cannot take anything now: expected, try again. The text is one line."""


class CarrierFullError(CarrierError):
    """The carrier answers, and has no room for more entries or values now. Claims go on."""


class CarrierRefusedError(UserFault):
    """The carrier cannot be used as it is, and trying again does not help: a wrong password, another version, a setting
    that drops keys. The text is one line that says what to do."""


class StaleEpochError(Exception):
    """The writer has been replaced: a greater epoch of it is known."""


class Entry(NamedTuple):
    """One entry of a stream."""

    position: Position
    data: bytes


class Carrier(Protocol):
    """The eight verbs. All raise CarrierError; ``close`` does not."""

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        """Append the entries in order, all or none, and return the position of the last one; without entries, only let
        the stream know the epoch. Raises StaleEpochError, and appends nothing, if the stream knows a greater epoch of
        the writer. From then on it knows this one."""

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        """For each stream that has entries after its position: the first ``most`` of them, in order. Waits at most
        ``wait`` seconds for one. A position that the carrier does not know any more, because it has lost the stream
        since, counts as START."""

    async def trim(self, stream: str, upto: Position) -> None:
        """Drop the entries up to and including that position. Others keep their positions."""

    async def last(self, streams: Sequence[str]) -> list[Position]:
        """The position of the last entry that was ever appended to each stream, trimmed or not; START if there was
        none. It equals what ``append`` and ``read`` returned for that entry."""

    async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
        """Make ``holder`` the holder of the name for so long, and return its epoch: greater than ``floor`` and than
        each epoch that the carrier knows of this name. None if another one holds it. Who holds it already gets a new
        epoch. The stream of the name knows the epoch at once, as one of the writer with that name."""

    async def renew(self, name: str, holder: str, epoch: int, seconds: float) -> bool:
        """Hold the name for so long from now. False if another epoch of it is known, or the carrier does not know this
        one any more. With 0 ``seconds`` the name is free at once."""

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        """Set small values of the name, each at most 64 KB. Of a value that is put with an ``order``, always, the
        greatest stays: returns False, and sets nothing, if the carrier knows a greater one of any of these."""

    async def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        """The value of that key of each name."""

    async def close(self) -> None:
        """Give up what is open."""
