"""Sends the steps of the partitions that are open here to their replicas.

A replica says how far it is. From there on it gets the steps, gathered, as long as the log keeps them; else it gets a
copy of the partition, and the steps beside it. What is on its way is sent again when a replica does not move, but not
into a stream from which nothing was taken since the last time.

A replica that keeps pace is *in step*: what it does not have counts as durable for nobody else. One that says nothing
for long, that lacks something for long because its disk is full, or that has lost ground for good, is left behind: that
is said, and told to all who might make it the partition, and only then others may rely on what it does not have. That
takes a fresh claim, so no process that has lost its partition without knowing leaves a replica behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from crawler.base.carrier.verbs import START, CarrierError, StaleEpochError
from crawler.base.figures import listed, noun
from crawler.cluster.copy_sending import CopySending
from crawler.cluster.member_options import MemberOptions
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.ownership import Ownership
from crawler.cluster.reach import Backoff, Reach
from crawler.cluster.replica_slots import ReplicaSlots
from crawler.cluster.slot_sending import CAUGHT_UP, LATE, SILENT, SlotSending
from crawler.job.partition.replica_values import STATE, ReplicaState, decode_replica_state, replica_name
from crawler.job.replica.copy_pieces import HandOver
from crawler.job.replica.replica_codec import ReplicaCodec
from crawler.job.replica.step_codec import Chunk, Mark

GATHER = 0.1  # seconds between two looks at the logs, at least ...
GATHER_EACH = 0.004  # ... for each entry that was sent ...
GATHER_MOST = 1.0  # ... and at most
IN_FLIGHT = 4 * 2**20  # bytes of steps that this process has sent and that are not written
LOOKED = 1.0  # seconds between two looks at what replicas say of themselves
SAID = 3.0  # seconds that a partition is without a replica until the user is told
ENDING = 5.0  # seconds that a partition which is closed waits for its replicas

_COPY_RATE = 40_000_000  # bytes a second of copies, of all partitions together: other traffic has room beside


class ReplicaLag(Struct, frozen=True):
    """How far a replica is behind: steps, about so many bytes on their way, and for how many seconds. ``state`` is one
    of ``Being``; None: nothing was heard of it."""

    partition: int
    slot: int
    home: str
    state: int | None
    in_step: bool
    steps: int
    bytes: int
    seconds: float


class Replicated(Struct):
    """The replicas of a partition. ``had_at``: when it was last chosen one. ``alone_since``: it had a replica that kept
    pace, here or with its owner before, and has none; ``has_said``: the user knows."""

    had_at: float
    slots: dict[int, SlotSending] = field(default_factory=dict)
    alone_since: float | None = None
    has_said: bool = False

    def is_left(self, now: float) -> None:
        """A replica that kept pace does so no more."""
        if self.alone_since is None and not any(slot.in_step for slot in self.slots.values()):
            self.alone_since = now

    def is_alone(self, now: float) -> bool:
        """Whether it has had none for a while: one that has just moved has one again in a moment."""
        return self.alone_since is not None and now >= self.alone_since + SAID


class LogSending:
    """The sender of one process. ``heard`` is given what replicas tell."""

    def __init__(
        self,
        reach: Reach,
        codec: ReplicaCodec,
        partitions: Mapping[int, OpenPartition],
        slots: ReplicaSlots,
        ownership: Ownership,
        options: MemberOptions,
    ) -> None:
        """``partitions`` are those that are open."""
        self._reach = reach
        self._codec = codec
        self._partitions = partitions
        self._chosen = slots
        self._ownership = ownership
        self._clock = options.boottime
        self._notice = options.notice
        self._replicated: dict[OpenPartition, Replicated] = {}
        self._copies = CopySending(self._append, codec, options)
        self._copies.rate.rate = _COPY_RATE
        self.replaced: Callable[[], None] = lambda: None  # told that a claim may have been lost
        self.wanted = 0  # replicas of each partition, also if nobody is there to keep them; 0: those that are kept
        self._sent = 0  # entries since the last pause
        self._looked_at = 0.0

    async def keep(self) -> None:
        """Send until cancelled. Raises OSError."""
        backoff = Backoff()
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(GATHER_MOST, max(GATHER, GATHER_EACH * self._sent))):
                        await self._copies.has_turn.wait()
                self._copies.has_turn.clear()
                self._sent = 0
                try:
                    await self._look()
                    for partition in list(self._partitions.values()):
                        await self._serve(partition)
                        await asyncio.sleep(0)
                except CarrierError:
                    await backoff.rest()
                else:
                    backoff.reset()
                self._say()
        finally:
            await self._copies.close()

    def heard(self, partition: OpenPartition, said: ReplicaState) -> None:
        """A replica of the partition told that."""
        for slot in self._of(partition):
            slot.hear(said, self._clock())

    async def announce(self, partition: OpenPartition) -> None:
        """Let the streams of all replicas know the epoch of a partition, as ``Sending.announce`` does. Raises
        CarrierError, StaleEpochError."""
        for slot in range(len(self._chosen.homes(partition.number))):
            await self._reach.call(
                self._reach.carrier.append(replica_name(partition.number, slot), partition.name, partition.epoch, [])
            )

    async def flush(self, partition: OpenPartition) -> None:
        """The run of the partition is over: give its replicas a while for the last steps. A copy breaks off."""
        await self._copies.leave(partition)
        loop = asyncio.get_running_loop()
        latest = loop.time() + ENDING
        end, left = partition.job.log.mark, set[int]()
        while loop.time() < latest and self._may_send(partition):
            slots = [each for each in self._of(partition) if each.in_step]
            for slot in slots:
                if slot.mark == end and slot.slot not in left:
                    left.add(slot.slot)
                    # No steps: no more will come.
                    last = Chunk(partition.number, end.line, end.line, end.number + 1, [])
                    with contextlib.suppress(CarrierError):  # it goes on without knowing
                        await self._append(partition, slot, [self._codec.encode(last)])
            if all(slot.slot in left for slot in slots):
                break
            await asyncio.sleep(GATHER)

    def forget(self, partition: OpenPartition) -> None:
        """The partition is not open any more: nobody waits for its replicas."""
        self._replicated.pop(partition, None)
        partition.job.replicas_hold(None)

    async def hand_over(self, partition: OpenPartition, home: str) -> None:
        """Tell the replica there that the partition is its home's. Raises CarrierError."""
        for slot in self._of(partition):
            if slot.home == home:
                message = HandOver(partition.number, *partition.job.log.mark)
                await self._append(partition, slot, [self._codec.encode(message)])

    def reached(self, number: int, home: str) -> bool:
        """Whether the replica there has all steps, durably."""
        partition = self._partitions.get(number)
        if partition is None:
            return False
        end = partition.job.log.mark
        return any(each.home == home and each.is_whole and each.safe == end for each in self._of(partition))

    def told(self, partition: OpenPartition) -> dict[str, Any] | None:
        """What statistics say of the replicas of a partition: how many it is meant to have, how many are in step, and
        how far the one that is furthest behind is; None if it is meant to have none, or is closed."""
        lags = [self._lag(partition, slot) for slot in self._of(partition) if slot.home]
        has = self._replicated.get(partition)
        is_closed = partition.is_closing and not lags
        is_alone = has is not None and has.alone_since is not None
        if is_closed or not (lags or is_alone or self.wanted):
            return None
        wanted = self.wanted or max(1, len(lags))
        return {
            "wanted": wanted,
            "in_step": min(wanted, sum(each.in_step for each in lags)),  # one that moves has one more for a while
            "steps": max((each.steps for each in lags), default=0),
            "seconds": max((each.seconds for each in lags), default=0.0),
        }

    def lags(self) -> list[ReplicaLag]:
        """How far the replicas are behind of all partitions that are open here."""
        return [self._lag(partition, slot) for partition in list(self._replicated) for slot in self._of(partition)]

    def _lag(self, partition: OpenPartition, slot: SlotSending) -> ReplicaLag:
        now, end = self._clock(), partition.job.log.mark
        steps = max(0, end.number - slot.mark.number)
        state = None if slot.heard is None or slot.is_silent(now) else slot.heard.state
        seconds = slot.behind(now)
        in_step = self._is_told(partition, slot)
        return ReplicaLag(partition.number, slot.slot, slot.home, state, in_step, steps, slot.in_flight, seconds)

    # -- one partition -----------------------------------------------------------------------------------------

    def _of(self, partition: OpenPartition) -> Sequence[SlotSending]:
        found = self._replicated.get(partition)
        return [] if found is None else list(found.slots.values())

    def _may_send(self, partition: OpenPartition) -> bool:
        still_open = self._partitions.get(partition.number) is partition
        return still_open and not partition.is_rising and partition.epoch > 0

    async def _look(self) -> None:
        """Look at what replicas say of themselves: notes may be lost. Raises CarrierError."""
        now = self._clock()
        if now < self._looked_at + LOOKED and not any(each.is_closing for each in self._replicated):
            return
        self._looked_at = now
        still_open = set(self._partitions.values())
        self._replicated = {each: has for each, has in self._replicated.items() if each in still_open}
        asked = [(partition, slot) for partition in self._replicated for slot in self._of(partition)]
        if not asked:
            return
        names = [replica_name(partition.number, slot.slot) for partition, slot in asked]
        for (_, slot), value in zip(asked, await self._reach.call(self._reach.carrier.get(names, STATE)), strict=True):
            said = decode_replica_state(value)
            if said is not None:
                slot.hear(said, self._clock())

    async def _serve(self, partition: OpenPartition) -> None:
        """Send what is due to all replicas of a partition, and count how far they are. Raises CarrierError, OSError."""
        if not self._may_send(partition):
            return
        log, now = partition.job.log, self._clock()
        has = self._choose(partition)
        if not has.slots:
            # A partition that has just been opened chooses soon, and goes on with the replicas that it had.
            if now >= has.had_at + SILENT:
                log.drop()
            partition.job.replicas_hold(None)
            return
        has.had_at = now
        log.keep()
        for slot in list(has.slots.values()):
            slot.look(log.mark, now)
            await self._judge(partition, slot)
            await self._send(partition, slot)
        self._count(partition)
        if any(self._is_told(partition, slot) for slot in has.slots.values()):
            has.alone_since = None

    def _is_told(self, partition: OpenPartition, slot: SlotSending) -> bool:
        """Whether the replica is in step, and others know it, so that it may become the partition."""
        return slot.in_step and self._chosen.in_step(partition.number, slot.home)

    def _choose(self, partition: OpenPartition) -> Replicated:
        """The replicas as they are chosen now. Others were told that one which is chosen no more is not in step."""
        has = self._replicated.get(partition)
        if has is None:
            now = self._clock()
            alone_since = now if partition.number in self._chosen.bereft else None
            has = self._replicated[partition] = Replicated(now, alone_since=alone_since)
        homes = self._chosen.homes(partition.number)
        for number, home in enumerate(homes):
            if home and (number not in has.slots or has.slots[number].home != home):
                self._drop(has, number)
                in_step = self._chosen.may_be_in_step(partition.number, home)
                has.slots[number] = SlotSending(number, home, self._clock(), in_step=in_step)
        for number in [each for each in has.slots if each >= len(homes) or not homes[each]]:
            self._drop(has, number)
        return has

    def _drop(self, has: Replicated, number: int) -> None:
        dropped = has.slots.pop(number, None)
        if dropped is not None and dropped.in_step and dropped.heard is not None:
            has.is_left(self._clock())

    async def _judge(self, partition: OpenPartition, slot: SlotSending) -> None:
        """Whether the replica is in step from now on. Raises CarrierError."""
        job, now, number = partition.job, self._clock(), partition.number
        keeps_up = slot.is_whole and job.log.holds(slot.mark) and not slot.is_silent(now) and slot.behind(now) < LATE
        if slot.in_step and not keeps_up:
            is_awaited = slot.heard is None and not slot.is_silent(now)
            if is_awaited or not self._ownership.may_request(partition.name):
                return
            await self._chosen.tell_step(number, slot.home, in_step=False)
            slot.in_step = False
            has = self._replicated.get(partition)
            if has is None:
                return  # it was closed meanwhile
            has.is_left(self._clock())
        elif not slot.in_step and keeps_up and slot.behind(now) < CAUGHT_UP:
            # What was acknowledged without it must be there.
            if job.log.commits(slot.mark) >= job.durable:
                slot.in_step = True
                self._count(partition)
                await self._chosen.tell_step(number, slot.home, in_step=True)
        elif slot.in_step and not self._chosen.in_step(number, slot.home):
            await self._chosen.tell_step(number, slot.home, in_step=True)

    def _count(self, partition: OpenPartition) -> None:
        """What the replicas have: others may rely on it, and once it is safe there, it may be forgotten here."""
        job, slots = partition.job, self._of(partition)
        counted = [each.mark for each in slots if each.in_step]
        job.replicas_hold(min(counted, key=job.log.commits, default=None))
        now = self._clock()
        served = [each for each in slots if each.in_step or each.copy is not None or not each.is_silent(now)]
        if served and all(each.is_whole and job.log.holds(each.safe) for each in served):
            job.log.forget(min((each.safe for each in served), key=_number))

    async def _send(self, partition: OpenPartition, slot: SlotSending) -> None:
        """Send the steps that are due to a replica, or begin a copy. Raises CarrierError."""
        log, now = partition.job.log, self._clock()
        if slot.heard is None or slot.is_silent(now):
            return
        if slot.copy is not None:
            begin = slot.mark if slot.is_copying and log.holds(slot.mark) else slot.copy.follows
        elif slot.is_whole and log.holds(slot.mark):
            begin = slot.mark
        else:
            if not partition.is_closing:
                self._copies.want(partition, slot)
            return
        if slot.is_stuck(now):
            slot.again(now)
            if await self._is_read(partition, slot):
                slot.rewind()
        after = slot.next_after(begin)
        while self._in_flight() < IN_FLIGHT and log.holds(after):
            chunk = log.after(after, partition.number)
            if chunk is None:
                break
            data = self._codec.encode(chunk)
            if not await self._append(partition, slot, [data]):
                break
            slot.sends(chunk.reaches, len(data), now)
            after = chunk.reaches
            await asyncio.sleep(0)

    async def _is_read(self, partition: OpenPartition, slot: SlotSending) -> bool:
        """Whether somebody took something from the stream since the last time. Raises CarrierError."""
        name = replica_name(partition.number, slot.slot)
        found = (await self._reach.call(self._reach.carrier.read({name: START}, 1, 0.0))).get(name)
        before, slot.head = slot.head, found[0].position if found else START
        return not found or slot.head != before

    async def _append(self, partition: OpenPartition, slot: SlotSending, entries: Sequence[bytes]) -> bool:
        """Returns whether the partition may still send. Raises CarrierError."""
        if not self._may_send(partition):
            return False
        try:
            append, name = self._reach.carrier.append, replica_name(partition.number, slot.slot)
            await self._reach.call(append(name, partition.name, partition.epoch, entries))
        except StaleEpochError:
            if self._may_send(partition):
                self.replaced()
            return False
        self._sent += len(entries)
        return True

    def _in_flight(self) -> int:
        return sum(slot.in_flight for partition in self._replicated for slot in self._of(partition))

    # -- what is said ------------------------------------------------------------------------------------------

    def _say(self) -> None:
        """Say which partitions have lost their replicas since the last time, and which have one again."""
        now, known = self._clock(), [(each.number, has) for each, has in self._replicated.items()]
        gone = {number: has for number, has in known if has.is_alone(now) and not has.has_said}
        back = {number: has for number, has in known if has.has_said and has.alone_since is None}
        for has in (*gone.values(), *back.values()):
            has.has_said = has.alone_since is not None
        if gone:
            its = "its" if len(gone) == 1 else "their"
            self._notice(f"{_partitions(gone)} no replica in step: if this disk is lost now, {its} data is lost")
        if back:
            self._notice(f"{_partitions(back)} a replica again")


def _number(mark: Mark) -> int:
    return mark.number


def _partitions(numbers: Iterable[int]) -> str:
    several = sorted(numbers)
    return f"{noun(len(several), 'partition')} {listed(several)} {noun(len(several), 'has', 'have')}"
