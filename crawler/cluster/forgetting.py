"""Begins partitions again whose directories are gone for good: from a replica in the directory here, however old it is,
or else empty: what only they knew is lost, links come again.

That is refused as long as anybody can still go on with them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from crawler.base import entropy
from crawler.base.carrier.verbs import Carrier
from crawler.base.disk import make_private_directory
from crawler.base.figures import listed, noun
from crawler.cluster.member_options import Crawl, log
from crawler.cluster.ownership import HELD, Ownership, name_of
from crawler.cluster.partition_opening import Opening
from crawler.cluster.reach import Reach
from crawler.cluster.replica_directory import is_held
from crawler.cluster.replica_slots import ReplicaSlots
from crawler.cluster.seats import Seated, Seats
from crawler.job.directory import JobError, holds_job
from crawler.job.former import is_former
from crawler.job.home_register import Home, add_homes, read_homes
from crawler.job.partition.replica_homes import SLOTS_MOST, Following
from crawler.job.partition.replica_values import STATE, Being, decode_replica_state, replica_name
from crawler.job.replica_moves import promote, replica_directory

PAUSE = 0.5  # seconds between two looks at who works on the crawl


async def forget_partitions(
    carrier: Carrier,
    opening: Opening,
    numbers: Sequence[int],
    boottime: Callable[[], float],
    notice: Callable[[str], None] = log.warning,
) -> None:
    """Let these partitions begin again in the directory of ``opening``, and say so. Raises JobError if one of them need
    not, and then nothing is changed; CarrierError, OSError."""
    crawl, reach = opening.crawl, Reach(carrier, boottime)
    ownership = Ownership(reach, entropy.random_bytes(8).hex(), boottime)
    seats = Seats(reach, ownership, crawl.partitions, Seated(ownership.holder, crawl.home, 0), boottime)
    slots = ReplicaSlots(reach, crawl.home, crawl.replicas, crawl.partitions, lambda: 0.0)
    sight = _Sight(crawl, reach, seats, slots, await _manned(seats), read_homes(crawl.directory))
    lost = {number: await sight.of_lost(number) for number in sorted(set(numbers))}
    resumed, empty = list[int](), list[int]()
    for number, (home, told) in lost.items():
        is_there = await _begin_again(opening, (number, home, told), sight, ownership, notice)
        (resumed if is_there else empty).append(number)
    if resumed:
        begin = noun(len(resumed), "resumes from its replica", "resume from their replicas")
        notice(
            f"{noun(len(resumed), 'partition')} {listed(resumed)} {begin} in {crawl.directory}: what had not been sent "
            "there is missing"
        )
    if empty:
        begin, them = noun(len(empty), "restarts", "restart"), noun(len(empty), "it", "them")
        notice(
            f"{noun(len(empty), 'partition')} {listed(empty)} {begin} empty in {crawl.directory}: incoming links "
            f"refill {them}"
        )


class _Sight(Struct):
    """What is known of a crawl. ``manned``: the homes in which somebody works; ``noted``: where partitions are at home
    by what is noted in the directory."""

    crawl: Crawl
    reach: Reach
    seats: Seats
    slots: ReplicaSlots
    manned: set[str]
    noted: dict[int, Home]

    async def of_lost(self, number: int) -> tuple[Home, Following]:
        """The home of a partition that is gone, and what was said of its replicas. Raises JobError if it is not gone,
        CarrierError."""
        crawl = self.crawl
        if number >= crawl.partitions:
            raise JobError(f"the crawl has {crawl.partitions} partitions: there is no partition {number}")
        known = [home for home in (self.noted.get(number), await self.seats.home(number)) if home is not None]
        home = max(known, key=lambda each: each.epoch, default=None)
        if home is None:
            raise JobError(f"partition {number} has not begun: it begins by itself, nothing is to be forgotten")
        if home.id in self.manned:
            raise JobError(f"partition {number} is not gone: a worker runs on {self.seats.where(home.id)}")
        if home.id == crawl.home and holds_job(crawl.partition(number)):
            raise JobError(f"partition {number} is not gone: it is in {crawl.directory}")
        told = await self.slots.read(number)
        if await self.slots.has_ended(number, told.epoch):
            raise JobError(
                f"partition {number} is not gone: the crawl has ended with it, and nobody has resumed it since"
            )
        if self.manned.intersection(await _able(self.reach, number, told.in_step)):
            raise JobError(f"partition {number} is not gone: it has a whole replica, which takes its place by itself")
        if is_held(replica_directory(crawl.directory, number)):
            raise JobError(f"a worker has the replica of partition {number} in {crawl.directory}: stop it first")
        return home, told


async def _able(reach: Reach, number: int, in_step: Sequence[str]) -> set[str]:
    """Those homes whose replica may become the partition: not those that say that they have none which can be opened.
    Raises CarrierError."""
    names = [replica_name(number, slot) for slot in range(SLOTS_MOST)]
    values = await reach.call(reach.carrier.get(names, STATE))
    said = [each for each in map(decode_replica_state, values) if each is not None]
    whole = {each.home for each in said if each.state == Being.WHOLE}
    return whole.intersection(in_step) | (set(in_step) - {each.home for each in said})


async def _manned(seats: Seats) -> set[str]:
    """The homes in which somebody works, who says so all the time. One that is busy may say nothing for a while."""
    beats, manned = dict[str, int](), set[str]()
    for _ in range(math.ceil(HELD / PAUSE) + 1):
        for name, each in (await seats.look(sits=False)).items():
            if beats.setdefault(name, each.beats) != each.beats:
                manned.add(each.home)
        await asyncio.sleep(PAUSE)
    return manned


async def _begin_again(
    opening: Opening,
    lost: tuple[int, Home, Following],
    sight: _Sight,
    ownership: Ownership,
    notice: Callable[[str], None],
) -> bool:
    """Returns whether the partition goes on with a replica."""
    number, before, told = lost
    crawl, disk, name = opening.crawl, opening.platform.disk, name_of(number)
    epoch = await ownership.claim(name, max(before.epoch, told.epoch))
    if epoch is None:
        raise JobError(f"partition {number} is not gone: a process has it, or had it until a moment ago")
    try:
        # It is there before others learn of it: what comes to a home without a directory waits for one.
        resumes = _is_usable(opening, number, told.life, notice) and promote(disk, crawl.directory, number)
        if not resumes:
            directory = crawl.partition(number)
            make_private_directory(directory, parents=True, exist_ok=True)
            disk.sync_directory(directory.parent)
        home = Home(crawl.home, epoch)
        add_homes(disk, crawl.directory, {number: home})
        if not resumes:
            await sight.slots.forget(number, epoch)
        await sight.seats.settle(number, home)
        return resumes
    finally:
        await ownership.free(name)


def _is_usable(opening: Opening, number: int, life: int, notice: Callable[[str], None]) -> bool:
    """Whether a replica is here that can be opened, and is not one of another ``life``. Raises JobError, OSError."""
    replica = replica_directory(opening.crawl.directory, number)
    if not holds_job(replica) or is_former(replica, life):
        return False
    if fault := opening.fault(number, replica):
        notice(f"{replica} cannot be opened, and does not become partition {number}: {fault}")
        return False
    return True
