"""The end of a crawl of many partitions, found in rounds. Pure: its user reads and writes what the carrier holds.

No partition can see alone that the crawl is over: another one may be about to send it a link. A coordinator announces a
round, each owner answers with the status of its partition, and the coordinator announces the next round when all have
answered:

    round n      all quiet: nothing is left to do, the outbox is empty, all that was sent to it is read
    round n + 1  all quiet still, with the same epochs, and no transaction was written in between

Then nothing changed in any partition from its first answer to its second. Each first answer came before the second
round was announced, each second one after that: at the moment of the announcement all were quiet at once. A link is
always in the store of a sender or, durably, in that of its receiver, so none was anywhere.

A status speaks of durable things alone: a loss of power afterwards takes nothing of it back. Whoever loses more than
that opens the partition again, under a greater epoch. A status that is lost or late only delays the end; so do two
coordinators at once, whose rounds have different names.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")

NOWHERE = ""  # the last position of a stream without entries


class Status(Struct, frozen=True, array_like=True):
    """What the owner of a partition answers in a round. ``version`` counts the transactions written in this epoch; all
    of them are durable if the partition is ``idle``, which means that nothing is left to do in it. ``read_to`` is the
    position up to which its stream is read. ``spent``: URLs are left, and the pages that the whole crawl may fetch are
    fetched."""

    round: str
    epoch: int
    version: int
    idle: bool
    outbox_empty: bool
    read_to: str
    spent: bool = False

    def is_quiet(self, last: str) -> bool:
        """Whether nothing is left to do, to be sent or to be read. ``last`` is the position of the stream's last
        entry. A carrier that has lost the stream knows no entry, and then there is none to be read."""
        return self.idle and self.outbox_empty and last in (NOWHERE, self.read_to)


class Announcement(Struct, frozen=True, array_like=True):
    """What the coordinator tells the owners: the round that they are to answer, and, once the crawl has ended, the
    epochs in which it has. It holds for a partition only in that epoch: what is opened later is another run.
    ``spent``: some partition has URLs left, that a limit forbids."""

    round: str
    ended: tuple[int, ...] = ()
    spent: bool = False

    def ends(self, partition: int, epoch: int) -> bool:
        """Whether the crawl has ended for that partition in that epoch."""
        return partition < len(self.ended) and self.ended[partition] == epoch

    def holds(self, statuses: Sequence[Status | None]) -> bool:
        """Whether the crawl has ended, and nobody has opened a partition again and answered since, by these statuses of
        all partitions."""
        answered = [(number, status) for number, status in enumerate(statuses) if status is not None]
        return bool(self.ended) and all(self.ends(number, status.epoch) for number, status in answered)


class Look(Enum):
    """What the coordinator does after a look at the statuses."""

    WAIT = auto()  # for those who have not answered
    BUSY = auto()  # something is left to do somewhere: announce the next round, later
    AGAIN = auto()  # all are quiet: announce the next round
    ENDED = auto()  # announce it


class EndRounds:
    """The rounds of one coordinator. No other one may have its ``name``."""

    def __init__(self, partitions: int, name: str) -> None:
        self._partitions = partitions
        self._name = name
        self._number = 0
        self._quiet: list[tuple[int, int]] | None = None  # epoch and version of each in the last round, if all were
        self._ended: tuple[int, ...] = ()
        self._spent = False

    @property
    def announcement(self) -> Announcement:
        """What is to be told now."""
        return Announcement(f"{self._name}-{self._number}", self._ended, self._spent)

    def look(self, statuses: Sequence[Status | None], lasts: Sequence[str]) -> Look:
        """Look at the statuses of all partitions, and then at the last positions of their streams; None: there is no
        status."""
        if self._ended:
            if all(
                status is None or epoch == status.epoch for epoch, status in zip(self._ended, statuses, strict=True)
            ):
                return Look.ENDED
            self._ended, self._quiet = (), None  # a partition was opened again since
            self._number += 1
            return Look.AGAIN
        asked, answered = self.announcement.round, list[tuple[int, int]]()
        is_quiet = len(statuses) == len(lasts) == self._partitions
        for status, last in zip(statuses, lasts, strict=True):
            if status is None or status.round != asked:
                return Look.WAIT
            answered.append((status.epoch, status.version))
            is_quiet = is_quiet and status.is_quiet(last)
        if is_quiet and answered == self._quiet:
            self._ended = tuple(epoch for epoch, _ in answered)
            self._spent = any(status is not None and status.spent for status in statuses)
            return Look.ENDED
        self._quiet = answered if is_quiet else None
        self._number += 1
        return Look.AGAIN if is_quiet else Look.BUSY


_status, _announcement = msgspec.msgpack.Decoder(Status), msgspec.msgpack.Decoder(Announcement)


def encode(told: Status | Announcement) -> bytes:
    """A value for the carrier."""
    return msgspec.msgpack.encode(told)


def decode_status(value: bytes | None) -> Status | None:
    """The inverse of ``encode``; None for what is none, such as that of another version."""
    return _decoded(_status, value)


def decode_announcement(value: bytes | None) -> Announcement | None:
    """The inverse of ``encode``; None for what is none, such as that of another version."""
    return _decoded(_announcement, value)


def _decoded(decoder: msgspec.msgpack.Decoder[T], value: bytes | None) -> T | None:
    if value is None:
        return None
    try:
        return decoder.decode(value)
    except msgspec.DecodeError:
        return None
