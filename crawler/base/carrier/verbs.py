"""The contract of a carrier: eight verbs.

The partitions of a crawl use them to send each other links, and to ensure that each partition has one owner at a time.

A carrier is never authoritative. At any moment it may lose everything, or some of the data that it acknowledged. That
only costs time, because the sender keeps each entry until the receiver confirms that the entry is durable there. A
carrier must guarantee only that the entries of a stream keep their order, that a claim has one holder until it expires,
and that entries of a replaced owner are refused. Calls may arrive late, or twice. A value can therefore have an order,
so that an older value never replaces a newer one.

Names are those of partitions, ``p0`` to ``p1023``, of seats, ``w0``, ``w1``, ..., or of the crawl, ``crawl``. Each name
may have a stream, a claim and values. Everything under one name can be on one server of a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec.msgpack

from crawler.base.faults import UserFault

T = TypeVar("T")
START = ""  # the position before the first entry of a stream
CRAWL = "crawl"  # the name of the whole crawl

Position = str  # the position of an entry in its stream; opaque
Order = tuple[int, int]  # of a value: an epoch below 2^50, and a number below 2^53 that counts the values in it


class CarrierError(Exception):
    """The carrier cannot be reached, or cannot accept anything now. This is expected: try again. The text is one
    line."""


class CarrierFullError(CarrierError):
    """The carrier answers, but has no room for further entries or values now. Claims still work."""


class CarrierRefusedError(UserFault):
    """The carrier cannot be used, and trying again does not help.

    Causes are a wrong password, another version, or a setting that evicts keys. The text is one line that tells the
    user what to do.
    """


class StaleEpochError(Exception):
    """The writer has been replaced: the carrier knows a greater epoch of it."""


class Entry(NamedTuple):
    """One entry of a stream."""

    position: Position
    data: bytes


encoded = msgspec.msgpack.encode  # of a value; ``decoded`` is the inverse


def decoded(value: bytes | None, kind: type[T]) -> T | None:
    """Decode a value in MessagePack; return None if it is missing or invalid, for example because another version wrote
    it."""
    try:
        return None if value is None else msgspec.msgpack.decode(value, type=kind)
    except msgspec.DecodeError:
        return None


class Carrier(Protocol):
    """The eight verbs. All raise CarrierError; ``close`` does not."""

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        """Append the entries in order, all or none, and return the position of the last one.

        Without entries, only record the epoch. Raises StaleEpochError, and appends nothing, if the stream knows a
        greater epoch of the writer. Afterwards the stream knows the epoch given here.
        """

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        """Return, for each stream with entries after its position, the first ``most`` of them, in order.

        Waits at most ``wait`` seconds for an entry. A position that the carrier does not know, because it has lost the
        stream, counts as START.
        """

    async def trim(self, stream: str, upto: Position) -> None:
        """Drop the entries up to and including the position ``upto``. The other entries keep their positions."""

    async def last(self, streams: Sequence[str]) -> list[Position]:
        """Return the position of the last entry ever appended to each stream, even if that entry has been trimmed;
        START if nothing was ever appended.

        It equals the position that ``append`` and ``read`` returned for that entry.
        """

    async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
        """Make ``holder`` the holder of the name for ``seconds``, and return its epoch.

        The epoch is greater than ``floor`` and than each epoch that the carrier knows of this name. Returns None if the
        name has another holder. If ``holder`` already holds the name, it gets a new epoch. The stream of the name knows
        the epoch at once, as the epoch of the writer with that name.
        """

    async def renew(self, name: str, holder: str, epoch: int, seconds: float) -> bool:
        """Extend the claim to ``seconds`` from now.

        Returns False if the carrier knows another epoch of the name, or does not know this epoch. If ``seconds`` is 0,
        the name is free at once.
        """

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        """Set small values of the name, each at most 64 KB.

        If a value is always put with an ``order``, the one with the greatest order remains: if the carrier knows a
        greater order of any of these values, ``put`` sets nothing and returns False.
        """

    async def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        """Return the value of ``key`` for each name; None where there is no value."""

    async def close(self) -> None:
        """Release all resources."""
