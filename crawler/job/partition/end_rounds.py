"""Detects the end of a partitioned crawl in rounds. Pure: the caller reads and writes the carrier's values.

No partition can tell alone that the crawl is over: another one may be about to send it a link. A coordinator announces
a round, each owner answers with the status of its partition, and once all have answered, the coordinator announces the
next round:

    round n      all are quiet: each has no work left and an empty outbox, and has read everything sent to it
    round n + 1  all are still quiet, in the same epochs, and no transaction was written in between

Then nothing changed in any partition between its two answers. All first answers came before the second round was
announced, and all second answers after that, so at the moment of the announcement all partitions were quiet. A link is
always in its sender's store or, durably, in its receiver's; therefore none was left.

A status covers durable state only, so a later loss of power does not invalidate it. A process that loses more than that
reopens the partition under a greater epoch. A lost or late status only delays the end; so do two concurrent
coordinators, whose rounds have different names.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

NOWHERE = ""  # the last position of a stream without entries


class Status(Struct, frozen=True, array_like=True):
    """An owner's answer for its partition in a round. ``version`` counts the transactions written in this epoch; all
    are durable if the partition is ``idle``, that is, has no work left. The partition has read its stream up to
    ``read_to``. ``spent``: URLs are left, but the crawl's page limit is reached."""

    round: str
    epoch: int
    version: int
    idle: bool
    outbox_empty: bool
    read_to: str
    spent: bool = False

    def is_quiet(self, last: str) -> bool:
        """Return True if the partition has nothing left to do, send or read. ``last`` is the position of the stream's
        last entry. If the carrier has lost the stream, there is no entry left to read."""
        return self.idle and self.outbox_empty and last in (NOWHERE, self.read_to)


class Announcement(Struct, frozen=True, array_like=True):
    """The coordinator's message to the owners: the round to answer and, once the crawl has ended, the epoch of each
    partition at the end. The end holds for a partition only in that epoch: a partition opened later belongs to another
    run. ``spent``: some partition has URLs left that a limit forbids it to fetch."""

    round: str
    ended: tuple[int, ...] = ()
    spent: bool = False

    def ends(self, partition: int, epoch: int) -> bool:
        """Return True if the crawl has ended for that partition in that epoch."""
        return partition < len(self.ended) and self.ended[partition] == epoch

    def holds(self, statuses: Sequence[Status | None]) -> bool:
        """Return True if the crawl has ended and, according to the statuses of all partitions, none has been reopened
        since."""
        answered = [(number, status) for number, status in enumerate(statuses) if status is not None]
        return bool(self.ended) and all(self.ends(number, status.epoch) for number, status in answered)


class Look(Enum):
    """The coordinator's next action after checking the statuses."""

    WAIT = auto()  # some partitions have not answered: wait for them
    BUSY = auto()  # some partition has work left: announce the next round later
    AGAIN = auto()  # all are quiet: announce the next round now
    ENDED = auto()  # the crawl is over: announce the end


class EndRounds:
    """The rounds of one coordinator, whose ``name`` is unique."""

    def __init__(self, partitions: int, name: str) -> None:
        self._partitions = partitions
        self._name = name
        self._number = 0
        self._quiet: list[tuple[int, int]] | None = None  # epoch and version of each, if all were quiet
        self._ended: tuple[int, ...] = ()
        self._spent = False

    @property
    def announcement(self) -> Announcement:
        """The current announcement."""
        return Announcement(f"{self._name}-{self._number}", self._ended, self._spent)

    def look(self, statuses: Sequence[Status | None], lasts: Sequence[str]) -> Look:
        """Check the statuses of all partitions (None: no status). They must be read before ``lasts``, the last
        positions of the streams."""
        if self._ended:
            if all(
                status is None or epoch == status.epoch for epoch, status in zip(self._ended, statuses, strict=True)
            ):
                return Look.ENDED
            self._ended, self._quiet = (), None  # a partition has been reopened since
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
