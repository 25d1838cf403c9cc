"""Which partitions of one process are to be at home elsewhere, and how they get there.

    wanted     all processes that know the same share the partitions out alike over the homes, by the number of those
               that work in each, so that as few move as that takes. When that names another home for a while, its
               replica is the one that is to be whole
    in step    then the run here is stopped. Visits get two seconds; what is under way then stays pending
    closed     the replica has all of it, durably
    told       the other home is noted, then told, in the epoch that the partition had here; the claim is free

A replica whose disk is slow may not have all of it durably in time: then the run goes on here, and the move is tried
again after a pause that doubles.

One moves at a time, so few hosts wait at once; of a process that drains, all that can. A process that drains takes no
partition, and is none of those that share them out.

A process that has stepped aside (``StepAside``) is as one that drains, but stays, and then as one that joins.

The partition that reads the seeds moves only to where they are given, or from a process that drains.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

from crawler.cluster.homes import Homes
from crawler.cluster.log_sending import LogSending
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.ownership import HELD
from crawler.cluster.seats import SEEDED, Seated
from crawler.cluster.step_aside import StepAside
from crawler.job.partition.replica_homes import target_homes
from crawler.job.seeds_mark import seeds_are_read

STABLE = 10.0  # seconds for which another home must be the right one
GRACE = 2.0  # seconds for visits under way
SAFE = 5.0  # seconds for the replica's last step to be durable
AGAIN_FIRST, AGAIN_MOST = 10.0, 300.0  # seconds until a move is tried again for which that took longer: they double
SETTLED = 2.0  # seconds after which a process that drains knows of others that do
_AGAIN = 0.05  # seconds between two looks
LOST = 5.0  # seconds for a carrier that does not answer a process that drains
DRAINED = 30.0  # seconds for a process that drains without waiting for copies
STUCK = HELD + 5.0  # seconds for others to come, and for claims of a process that was killed here, to whoever drains


class Draining(IntEnum):
    """Whether a process is to leave."""

    NO = 0
    SOON = 1  # what has a replica in step moves, the rest stays
    WHOLE = 2  # copies are waited for


class Late(NamedTuple):
    """A partition whose last step was not durable in time where it was to move: the ``pause`` before the next try, and
    its end ``until``."""

    pause: float
    until: float


class Moves:
    """The moves of one process."""

    def __init__(self, home: str, homes: Homes, sending: LogSending, boottime: Callable[[], float]) -> None:
        """``home`` is that of this process."""
        self._home = home
        self._homes = homes
        self._sending = sending
        self._boottime = boottime
        self._wanted: dict[int, tuple[str, float]] = {}  # another home, and since when
        self._moving: dict[int, str] = {}  # partitions that are being handed over
        self._late: dict[int, Late] = {}
        self._drains_at: float | None = None
        self._stuck_since: float | None = None  # while it drains: since when nothing can be handed over
        self.aside = StepAside(home, boottime)
        self.draining = Draining.NO

    def drain(self, how: Draining) -> None:
        """This process is to leave."""
        if self._drains_at is None:
            self._drains_at = self._boottime()
        self.draining = max(self.draining, how)

    @property
    def leaves(self) -> bool:
        """Whether partitions are to leave this process, and none is to come."""
        return self.draining > Draining.NO or self.aside.since is not None

    def targets(self, alive: Mapping[str, Seated], opened: Mapping[int, OpenPartition]) -> dict[int, str]:
        """The homes that partitions are to move to which are open here."""
        now, workers = self._boottime(), workers_of(alive)
        if self.aside.since is not None:
            workers = Counter(each.home for each in alive.values() if each.fetches)
        with_seeds = {each.home for each in alive.values() if each.has_seeds and each.home in workers}
        placed = target_homes(len(self._homes.known), workers, self._homes.ids, with_seeds)
        if not self.leaves and not with_seeds:
            placed[SEEDED] = None
        wanted = {}
        for number, partition in opened.items():
            target = None if self._keeps(partition) else self._target(number, workers, placed[number])
            if target is not None and target != self._home and number not in self._moving:
                before, since = self._wanted.get(number, (target, now))
                wanted[number] = (target, since if before == target else now)
        self._wanted = wanted
        patience = 0.0 if self.leaves else STABLE
        return {**{n: home for n, (home, since) in wanted.items() if now >= since + patience}, **self._moving}

    def _keeps(self, partition: OpenPartition) -> bool:
        """Whether a process that has stepped aside keeps the partition: only here the rest of the seeds can be read."""
        is_asked = self.draining > Draining.NO
        return partition.number == SEEDED and self.leaves and not is_asked and not seeds_are_read(partition.job)

    def _target(self, number: int, workers: Mapping[str, int], placed: str | None) -> str | None:
        if not self.leaves:
            return placed
        if self._home in workers:
            return None  # others of this home go on
        able = [home for home in self._homes.slots.homes(number) if home in workers]
        in_step = [home for home in able if self._homes.slots.in_step(number, home)]
        return next(iter(in_step), None if self.draining is Draining.SOON else placed)

    def begin(self, targets: Mapping[int, str], opened: Mapping[int, OpenPartition]) -> None:
        """Stop the runs of those that can be handed over now."""
        since = self.aside.since if self._drains_at is None else self._drains_at
        if since is not None and self._boottime() < since + SETTLED:
            return
        loop = asyncio.get_running_loop()
        for number, target in targets.items():
            partition = opened.get(number)
            if number in self._moving or (self._moving and not self.leaves):
                continue
            if partition is None or partition.is_rising or partition.is_closing:
                continue
            if not self._homes.slots.in_step(number, target) or self._rests(number):
                continue
            self._moving[number] = target
            self._homes.busy.add(number)
            partition.run.stop()
            loop.call_later(GRACE, partition.run.release_all)

    def _rests(self, number: int) -> bool:
        """Whether the next try to move the partition is not due yet."""
        late = self._late.get(number)
        return late is not None and self._boottime() < late.until

    def is_done(self, opened: Mapping[int, OpenPartition], targets: Mapping[int, str], *, is_needed: bool) -> bool:
        """Whether a process that drains may end: nothing that is here can be handed over. ``is_needed``: partitions
        would have to wait for what is here, and could go on elsewhere. Then it stays for a while: another process may
        come, and what is not open yet may be opened."""
        is_stuck = not self._moving and not targets.keys() & opened.keys()
        if self._drains_at is None or self._moving or not (is_stuck or self._is_late(DRAINED)):
            self._stuck_since = None
            return False
        if self.draining is Draining.SOON or not is_needed:
            return True
        now = self._boottime()
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        return now >= self._stuck_since + STUCK

    @property
    def gives_up(self) -> bool:
        """Whether a process that drains ends although the carrier cannot be reached."""
        return self._is_late(LOST)

    def _is_late(self, patience: float) -> bool:
        drains = self._drains_at is not None and self.draining is Draining.SOON
        return drains and self._boottime() >= (self._drains_at or 0.0) + patience

    def is_moving(self, number: int) -> bool:
        """Whether the partition is being handed over."""
        return number in self._moving

    async def safe(self, partition: OpenPartition) -> str | None:
        """The run is over: wait until the replica there has all of it, durably. Returns the home to which the partition
        is to be given; None: it stays."""
        target = self._moving.get(partition.number)
        if target is None or not partition.job.writer.whole:
            return None
        try:
            async with asyncio.timeout(SAFE):
                while not self._sending.reached(partition.number, target):  # noqa: ASYNC110 - what is told of it
                    await asyncio.sleep(_AGAIN)
        except TimeoutError:
            before = self._late.get(partition.number)
            pause = AGAIN_FIRST if before is None else min(2 * before.pause, AGAIN_MOST)
            self._late[partition.number] = Late(pause, self._boottime() + pause)
            return None
        self._late.pop(partition.number, None)
        return target

    def is_late(self, number: int) -> bool:
        """Whether the last try to move the partition failed because the disk there took too long."""
        return number in self._late

    def over(self, number: int) -> None:
        """The partition is closed here."""
        if self._moving.pop(number, None) is not None:
            self._homes.busy.discard(number)
        self._wanted.pop(number, None)


def workers_of(alive: Mapping[str, Seated]) -> Counter[str]:
    """How many processes work in each home, and stay."""
    return Counter(each.home for each in alive.values() if not each.drains)
