"""Which homes follow the partitions that are open here, as their owner chooses and publishes it, and what the owners of
all partitions say.

That a replica is in step is a promise of the owner: nothing counts as durable that this replica does not have. So the
promise is taken back on the carrier before the owner goes on without the replica, and given when it waits for it
again. What an owner says has an order there: a promise that arrives late, or once more, does not come back. One that
nobody has answered may have arrived: it is kept, and said again with all that is said of the partition. Whoever
opens a partition keeps the promises of the owner before it, until it has heard from the replica: so one that has just
moved, or was just taken over, is safe elsewhere all the time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.carrier.verbs import CRAWL, CarrierError
from crawler.cluster.end_watch import END
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.ownership import name_of, names_of
from crawler.cluster.reach import Reach
from crawler.job.partition.end_rounds import decode_announcement
from crawler.job.partition.replica_homes import (
    SLOTS_MOST,
    Following,
    Follows,
    decode_following,
    encode_following,
    newest,
    order_of,
    slots_for,
    time_after,
)
from crawler.job.partition.replica_values import STATE, Being, decode_replica_state, replica_name
from crawler.job.replica.step_codec import Mark

REPLICAS = "replicas"  # the value of a partition


class Own(Struct):
    """What is said of a partition that is open here. ``kept``: homes of its slots whose replicas are waited for, and of
    which it was to be said that they are in step."""

    said: Following
    kept: set[str] = field(default_factory=set)

    @property
    def in_step(self) -> set[str]:
        """The homes of which that was said, or may have been."""
        return self.kept.union(self.said.in_step)


class ReplicaSlots:
    """The slots of one process, whose directory is ``home``."""

    def __init__(self, reach: Reach, home: str, replicas: int, partitions: int, clock: Callable[[], float]) -> None:
        """``replicas``: how many each partition is to have."""
        self._reach = reach
        self._home = home
        self._replicas = replicas
        self._partitions = partitions
        self._clock = clock
        self.told: dict[int, Following] = {}  # what is on the carrier of each partition, or was there last
        self.skews: dict[int, float] = {}  # how far the clock here is ahead of an owner's, at most
        self.bereft = set[int]()  # partitions that had replicas, and none in step when they were opened here
        self._own: dict[int, Own] = {}  # of partitions that are open here
        self._putting = asyncio.Lock()
        self._said_at = 0.0  # by the clock

    async def look(
        self, opened: Mapping[int, OpenPartition], alive: Collection[str], targets: Mapping[int, str]
    ) -> None:
        """Read what all owners say, and say what the partitions have that are open here. ``alive``: homes in which
        somebody works; ``targets``: homes that partitions are to move to. Raises CarrierError."""
        self._own = {number: own for number, own in self._own.items() if number in opened}
        if not self._replicas:
            return
        for number, each in list(opened.items()):
            if each.epoch and not each.is_rising:
                await self._choose(each, alive, targets.get(number, ""))
        values = await self._reach.call(self._reach.carrier.get(names_of(range(self._partitions)), REPLICAS))
        for number, value in enumerate(values):
            self._note(number, decode_following(value))

    async def begin(self, number: int, epoch: int, life: int) -> bool:
        """Say which replicas the partition has, before it begins that epoch of its ``life``. One that was in step has
        all that was ever promised, and stays so: then nothing may be promised until it is heard of. Returns whether
        there is such a replica. Raises CarrierError."""
        own = self._own.get(number)
        if own is not None and own.said.epoch:
            return False  # it was open all the time, and its replicas are followed on
        before = await self.read(number)
        if self._replicas or before.in_step:
            slots = [
                Follows("") if each.home == self._home else Follows(each.home, each.in_step and self._replicas > 0)
                for each in before.slots
            ]
            await self._put(number, Following(epoch, slots, self._now(), life=life))
            has_some = any(each.in_step for each in slots)
            is_bereft = self._replicas > 0 and len(before.homes) > 0 and not has_some
            (self.bereft.add if is_bereft else self.bereft.discard)(number)
            return has_some
        return False

    async def read(self, number: int) -> Following:
        """What is said of a partition now, or was said last. Raises CarrierError."""
        value = (await self._reach.call(self._reach.carrier.get([name_of(number)], REPLICAS)))[0]
        return newest(decode_following(value), self.told.get(number)) or Following(0, [], 0.0)

    async def steps(self, number: int) -> dict[str, int]:
        """The number of the last step of each replica of a partition, by its home, as they said last. Raises
        CarrierError."""
        told = self.told.get(number)
        names = [replica_name(number, slot) for slot in range(0 if told is None else len(told.slots))]
        said = map(decode_replica_state, await self._reach.call(self._reach.carrier.get(names, STATE)))
        return {each.home: each.number for each in said if each is not None and each.state == Being.WHOLE}

    def life(self, number: int) -> int:
        """The life of a partition, as its owner said last; 0 if it is not known."""
        told = self.told.get(number)
        return 0 if told is None else told.life

    async def has_ended(self, number: int, epoch: int) -> bool:
        """Whether the crawl has ended for the partition in that epoch. Raises CarrierError."""
        (value,) = await self._reach.call(self._reach.carrier.get([CRAWL], END))
        told = decode_announcement(value)
        return told is not None and told.ends(number, epoch)

    def homes(self, number: int) -> Sequence[str]:
        """The homes of the slots of a partition that is open here; "" where nobody is to follow."""
        own = self._own.get(number)
        return [] if own is None else [each.home for each in own.said.slots]

    def in_step(self, number: int, home: str) -> bool:
        """Whether others were told that the replica there is in step."""
        own = self._own.get(number)
        return own is not None and home in own.said.in_step

    def may_be_in_step(self, number: int, home: str) -> bool:
        """Whether others were told so, or may have been; then nothing is durable that the replica there lacks."""
        own = self._own.get(number)
        return own is not None and home in own.in_step

    async def tell_step(self, number: int, home: str, *, in_step: bool) -> None:
        """Tell others so, before it returns. Raises CarrierError: then they may know it."""
        async with self._putting:
            own = self._own.get(number)
            if own is None or home not in own.said.homes or (in_step and home in own.said.in_step):
                return  # that it is not, is said again: that it is may be on its way, although nobody has answered
            if in_step:
                own.kept.add(home)
            slots = [Follows(home, in_step) if each.home == home else each for each in self._slots(number)]
            said = own.said
            await self._put(number, Following(said.epoch, slots, self._now(), said.target, life=said.life))

    async def hand_over(self, number: int, epoch: int, home: str, mark: Mark) -> None:
        """Say that the directory here has all that the partition had up to its last step, with which it is at home
        elsewhere from now on. Raises CarrierError."""
        async with self._putting:
            life = self._own[number].said.life
            others = [each for each in self._slots(number) if each.home not in ("", home)]
            # It has all too: whatever ends this process before the home is told, either one may go on.
            slots = [Follows(self._home, True), *others, Follows(home, True)]
            await self._put(number, Following(epoch, slots, self._now(), mark=(mark.line, mark.number), life=life))
            del self._own[number]

    async def leave(self, number: int, *, ended: bool) -> None:
        """The partition is closed here: what is said of it when it is opened again is said anew. ``ended``: because the
        crawl has."""
        async with self._putting:
            own = self._own.get(number)
            if ended and own is not None and own.said.epoch:
                with contextlib.suppress(CarrierError):  # then it counts as one whose owner is gone
                    await self._put(number, replace(own.said, now=self._now(), ended=True))
            self._own.pop(number, None)

    async def forget(self, number: int, epoch: int) -> None:
        """Say that no replica of a partition is in step which begins again in that epoch. Raises CarrierError."""
        async with self._putting:
            await self._put(number, Following(epoch, [], self._now()))
            del self._own[number]

    async def give_back(self, number: int, epoch: int, mark: Mark) -> None:
        """Say that the directory here has that step, and lacks some that were promised: the partition is at home
        elsewhere from now on, and comes back if it cannot be opened there. Raises CarrierError."""
        async with self._putting:
            before = await self.read(number)
            slots = [*(Follows("") if each.home == self._home else each for each in before.slots), Follows(self._home)]
            said = Following(epoch, slots[-SLOTS_MOST:], self._now(), self._home, mark, before.life)
            await self._put(number, said)
            del self._own[number]

    def _slots(self, number: int) -> Sequence[Follows]:
        return [Follows(each, self.may_be_in_step(number, each)) for each in self.homes(number)]

    async def _choose(self, partition: OpenPartition, alive: Collection[str], target: str) -> None:
        async with self._putting:
            if partition.is_closing and partition.number not in self._own:
                return  # it was handed over: what was said with that counts
            number = partition.number
            homes = slots_for(self.homes(number), number, self._home, alive, self._replicas, target or None)
            slots = [Follows(home, self.may_be_in_step(number, home)) for home in homes]
            await self._put(number, Following(partition.epoch, slots, self._now(), target, life=partition.life))

    def _now(self) -> float:
        """The time of what is said next."""
        self._said_at = time_after(self._clock(), self._said_at)
        return self._said_at

    async def _put(self, number: int, following: Following) -> None:
        values = {REPLICAS: encode_following(following)}
        if not await self._reach.call(self._reach.carrier.put(name_of(number), values, order_of(following))):
            raise CarrierError(f"a later owner has said which replicas partition {number} has")
        self._own[number], self.told[number] = Own(following), following

    def _note(self, number: int, said: Following | None) -> None:
        before = self.told.get(number)
        if said is None or said == before or number in self._own or newest(before, said) is before:
            return
        if before is None or said.now != before.now:
            self.skews[number] = min(self.skews.get(number, float("inf")), self._clock() - said.now)
        self.told[number] = said
