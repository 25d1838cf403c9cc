"""Turns of groups whose hosts are in several partitions, as one process handles them: for each partition that is open
here, what it has of each owner, and what it lends of the groups that it owns (``crawler.job.partition.group_turns``).

Partitions of one process ask each other without a carrier. All time is that of CLOCK_BOOTTIME, which goes on while the
process is stopped; a stopped process finds its leases run out. An owner lends only while its claim holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from crawler.base.carrier.verbs import CarrierError
from crawler.base.settings import Settings
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.ownership import Ownership, boot_time
from crawler.frontier import Frontier
from crawler.job.partition.group_turns import Lessee, Lessor, TurnsAnswer, TurnsCall, TurnsQuestion
from crawler.job.partition.notes import encode_note
from crawler.job.partition.parcel_codec import Note
from crawler.job.partition.placement import Placement
from crawler.seen.slices import entropy

LOOK = 0.1  # seconds between two looks
GATHER = 0.02  # seconds for which questions are gathered
LATE = 0.25  # seconds between two looks at what has run out
CALL = 1.0  # seconds between two calls of an owner that begins

Tell = Callable[[OpenPartition, int, bytes], Awaitable[None]]


def clock_name(home: str) -> str:
    """A name of CLOCK_BOOTTIME here, which no other clock has; empty if there is none. A machine that was copied while
    it ran has the boot id of the other, but not its directory with that ``home``."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/time')} {home}"
    except OSError:
        return ""


def has_groups(settings: Settings, *, by_host: bool) -> bool:
    """Whether hosts of several partitions may share a gap. ``by_host``: hosts of one domain may be in several."""
    politeness = settings.politeness
    shared = politeness.host_key == "address" or (by_host and politeness.host_key == "domain")
    return shared or politeness.address_delay is not None or any(table.group for table in settings.site.tables)


class Times(Struct):
    """The clocks of a process: since 1970, and of its leases, which has a ``name`` if others have it too."""

    clock: Callable[[], float]
    boottime: Callable[[], float]
    name: str


class PartitionTurns:
    """The turns of one partition that is open here, as its frontier asks for them."""

    def __init__(self, frontier: Frontier, placement: Placement, times: Times, due: asyncio.Event) -> None:
        """``due`` is set when owners are to be asked."""
        self.by_host = placement.by_host
        self._frontier = frontier
        self._times = times
        self._due = due
        asker = int.from_bytes(entropy.random_bytes(7), "big")
        self.lessee = Lessee(asker, placement.of_group, self._free_at, times.name, frontier.is_group_kept)

    def _free_at(self, group: str) -> float:
        # The process may be interrupted between two looks at clocks: in this order that makes the time later.
        left = self._frontier.group_free_at(group) - self._times.clock()
        return self._times.boottime() + left

    def lent(self, groups: list[str]) -> None:
        """These groups are lent newly."""
        for group in groups:
            self._frontier.lent(group, self._times.clock())

    # -- see ``Turns`` -----------------------------------------------------------------------------------------

    def wait(self, group: str, gap: float, *, inside: bool = False) -> float | None:
        """See ``Turns``."""
        wait = self.lessee.wait(group, gap, self._times.boottime(), inside=inside)
        if wait is None:
            self._due.set()
        return wait

    def keep(self, group: str, seconds: float) -> None:
        """See ``Turns``."""
        self.lessee.keep(group, self._times.boottime() + seconds)

    def began(self, group: str) -> None:
        """See ``Turns``."""
        self.lessee.began(group)

    def ended(self, group: str, *, more: bool) -> None:
        """See ``Turns``."""
        if self.lessee.ended(group, self._times.boottime(), more=more):
            self._due.set()

    def may_send(self, group: str) -> bool:
        """See ``Turns``."""
        return self.lessee.may_send(group, self._times.boottime())

    def gap(self, group: str) -> float:
        """See ``Turns``."""
        return self.lessee.gap(group)


class _Lending(Struct):
    """The owner of groups that is open here."""

    partition: OpenPartition
    lessor: Lessor
    looked_at: float
    called_at: float


class TurnDesk:
    """The desk of one process. Unless it is ``needed`` it does nothing."""

    def __init__(
        self, placement: Placement, opened: Mapping[int, OpenPartition], tell: Tell, ownership: Ownership, home: str
    ) -> None:
        """``opened`` are the partitions that are open here, ``tell`` sends notes. ``home`` is that of the crawl's
        directory here."""
        self._placement = placement
        self._opened = opened
        self._tell = tell
        self._ownership = ownership
        self._clock = clock_name(home) if ownership.boottime is boot_time else ""
        self._due = asyncio.Event()
        self._turns: dict[int, PartitionTurns] = {}
        self._lendings: dict[int, _Lending] = {}
        self._notes: list[tuple[OpenPartition, int, bytes]] = []  # that are to be sent
        self.needed = False

    def join(self, number: int, frontier: Frontier, clock: Callable[[], float]) -> PartitionTurns | None:
        """The turns of a partition that is about to be opened; None if it needs none."""
        if not self.needed:
            return None
        times = Times(clock, self._ownership.boottime, self._clock)
        turns = self._turns[number] = PartitionTurns(frontier, self._placement, times, self._due)
        return turns

    async def leave(self, partition: OpenPartition) -> None:
        """A partition makes no requests any more: give back what it has."""
        turns = self._turns.pop(partition.number, None)
        if turns is None or not self._ownership.may_request(partition.name):
            return  # what it has runs out
        turns.lessee.stop()
        self._ask(partition, turns, self._ownership.boottime())
        await self._send()

    async def keep(self) -> None:
        """Ask and lend until cancelled."""
        while self.needed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._due.wait()
                    await asyncio.sleep(GATHER)
            self._due.clear()
            self._look()
            await self._send()

    def heard(self, partition: OpenPartition, note: Note, said: TurnsQuestion | TurnsAnswer | TurnsCall) -> None:
        """A note has come for the partition."""
        now = self._ownership.boottime()
        if isinstance(said, TurnsQuestion):
            self._answer(partition, note.sender, said, now)
        elif (turns := self._turns.get(partition.number)) is None:
            return
        elif isinstance(said, TurnsAnswer):
            self._take(turns, partition, note.sender, said)
        else:
            turns.lessee.called(note.sender, said.epoch)
        self._due.set()

    # -- looks -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        now = self._ownership.boottime()
        usable = [each for each in self._opened.values() if self._is_usable(each)]
        for partition in usable:
            lending = self._lending(partition, now)
            if now >= lending.looked_at + LATE:
                lending.looked_at = now
                self._say(partition, lending.lessor.look(now))
            if now >= lending.called_at + CALL and (unheard := lending.lessor.to_call(now)):
                lending.called_at = now
                self._call(lending, unheard)
        for partition in usable:
            if (turns := self._turns.get(partition.number)) is not None:
                self._ask(partition, turns, now)

    def _is_usable(self, partition: OpenPartition) -> bool:
        """Whether the partition may speak: it is surely ours, and its epoch is known."""
        settled = not partition.is_closing and not partition.is_rising and partition.epoch > 0
        return settled and self._ownership.may_request(partition.name)

    def _lending(self, partition: OpenPartition, now: float) -> _Lending:
        """The owner that the partition is. One that is opened anew knows nothing of what it lent before."""
        lending = self._lendings.get(partition.number)
        if lending is None or lending.partition is not partition:
            lessor = Lessor(partition.epoch, self._placement.partitions, now, self._clock)
            lending = self._lendings[partition.number] = _Lending(partition, lessor, now, now - CALL)
        return lending

    def _call(self, lending: _Lending, unheard: list[int]) -> None:
        for number in unheard:
            turns = self._turns.get(number)
            if turns is not None and number in self._opened:
                turns.lessee.called(lending.partition.number, lending.lessor.epoch)
            else:
                self._notes.append((lending.partition, number, encode_note(TurnsCall(lending.lessor.epoch))))

    def _ask(self, partition: OpenPartition, turns: PartitionTurns, now: float) -> None:
        for number, question in turns.lessee.questions(partition.epoch, now):
            owner = self._opened.get(number)
            if owner is None or owner.is_closing:
                self._notes.append((partition, number, encode_note(question)))
            else:
                self._answer(owner, partition.number, question, now)

    def _answer(self, owner: OpenPartition, sender: int, question: TurnsQuestion, now: float) -> None:
        if self.needed and self._is_usable(owner):
            self._say(owner, self._lending(owner, now).lessor.heard(sender, question, now))

    def _say(self, owner: OpenPartition, answers: list[tuple[int, TurnsAnswer]]) -> None:
        for number, answer in answers:
            turns, partition = self._turns.get(number), self._opened.get(number)
            if turns is not None and partition is not None:
                self._take(turns, partition, owner.number, answer)
            else:
                self._notes.append((owner, number, encode_note(answer)))

    def _take(self, turns: PartitionTurns, partition: OpenPartition, owner: int, answer: TurnsAnswer) -> None:
        lent = turns.lessee.heard(owner, answer, self._ownership.boottime())
        if lent:
            turns.lent(lent)
            partition.run.wake()

    async def _send(self) -> None:
        notes, self._notes = self._notes, []
        for partition, number, note in notes:
            with contextlib.suppress(CarrierError):  # it is said again, or runs out
                await self._tell(partition, number, note)
