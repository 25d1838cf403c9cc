"""The replicas that one process keeps of partitions at home elsewhere, and those that others keep of its own.

Which home follows a partition is its owner's to say; which process of that home, everybody there works out alike. One
task reads the streams of all replicas that are open here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial

from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.homes import Homes
from crawler.cluster.log_sending import LogSending
from crawler.cluster.partition_opening import Opening
from crawler.cluster.reach import Backoff
from crawler.cluster.replica_life import ReplicaLife, ReplicaPlace
from crawler.cluster.seats import Seated
from crawler.job.kept_steps import KeptSteps
from crawler.job.partition.placement import place as placed
from crawler.job.replica.step_codec import Mark

WAIT = 0.5  # seconds for an entry; a replica that is opened meanwhile is read after that
ENTRIES = 16  # read at a time, from each stream: 4 MB of steps or pieces
GATHER = 0.1  # seconds between two readings, at least: entries come meanwhile
IDLE = 0.2  # seconds between two looks whether a replica is open
KEPT = 32 * 2**20  # bytes of steps that are kept for other replicas, of all partitions together
QUIET = 2.5  # seconds without an entry after which no more is expected of owners that end too ...
ENDED, STOPPED = 5.0, 2.0  # ... and at most: when the crawl is over, and when only this process is stopped, perhaps


class Replicas:
    """The replicas of one process."""

    def __init__(self, place: ReplicaPlace, homes: Homes, sending: LogSending, opening: Opening) -> None:
        self._place = place
        self._opening = opening
        self._homes = homes
        self._sending = sending
        self._lives: dict[int, tuple[ReplicaLife, asyncio.Task[None]]] = {}
        self._followed: dict[int, KeptSteps] = {}  # of replicas that are about to be the partition
        self._is_over = False
        self._broken: asyncio.Future[None] | None = None  # of ``keep``: gets what a life raised

    def look(self, alive: Mapping[str, Seated], homes: Sequence[str | None], me: str) -> None:
        """Begin to follow where this process ``me`` is to, and end what it is not to follow any more."""
        mine = self._mine(alive, homes, me)
        for number, (life, _) in self._lives.items():
            if mine.get(number) != life.slot:
                life.stop()
        for number, slot in mine.items():
            if number not in self._lives and not self._is_over:
                life = ReplicaLife(number, slot, self._place)
                task = asyncio.ensure_future(life.live())
                self._lives[number] = life, task
                task.add_done_callback(partial(self._ended, number))
        self._keep_steps(homes)

    def _keep_steps(self, homes: Sequence[str | None]) -> None:
        """Keep steps of partitions that have other replicas, which may lack them when ours becomes the partition."""
        told, here = self._homes.slots.told, self._place.crawl.home
        several = {number for number in self._lives if number in told and len(told[number].homes) > 1}
        for number, (life, _) in self._lives.items():
            life.replica.keeps = KEPT // len(several) if number in several else 0
        ours = {number for number in self._followed if number in self._homes.busy or homes[number] == here}
        self._followed = {number: self._followed[number] for number in ours}

    def _mine(self, alive: Mapping[str, Seated], homes: Sequence[str | None], me: str) -> dict[int, int]:
        """The slot of each partition that this process follows."""
        here = self._place.crawl.home
        at_home = placed(len(homes), [name for name, each in alive.items() if each.home == here])
        mine = {}
        for number, following in self._homes.slots.told.items():
            slot = following.slot_of(here)
            if slot is None or at_home.get(number) != me or homes[number] in (None, here):
                continue
            if number not in self._homes.busy:
                mine[number] = slot
        return mine

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        self._lives.pop(number, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._broken is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def keep(self) -> None:
        """Read for all replicas until cancelled. Raises what their disks raise."""
        self._broken = asyncio.get_running_loop().create_future()
        backoff = Backoff()
        try:
            while True:
                if self._broken.done():
                    self._broken.result()
                try:
                    await self._read()
                except CarrierError:
                    await backoff.rest()
                else:
                    backoff.reset()
        finally:
            self._broken.cancel()
            tasks = [task for _, task in self._lives.values()]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _read(self) -> None:
        ready = {life.name: life for life, _ in self._lives.values() if life.is_free.is_set()}
        if not ready:
            await asyncio.sleep(IDLE)
            return
        after = {name: life.read_to for name, life in ready.items()}
        reach = self._place.reach
        found = await reach.call(reach.carrier.read(after, ENTRIES, WAIT), 2 * WAIT + 4.0)
        for name, entries in found.items():
            ready[name].give(entries)
        if found:
            await asyncio.sleep(GATHER)
            with contextlib.suppress(TimeoutError):  # one whose disk is slow does not hold up the others
                async with asyncio.timeout(WAIT):
                    for name in found:
                        await ready[name].is_free.wait()

    # -- what others want to know ------------------------------------------------------------------------------

    def mark(self, number: int) -> Mark | None:
        """The state of a whole replica that is open here."""
        found = self._lives.get(number)
        return None if found is None else found[0].mark

    async def release(self, number: int) -> None:
        """Close the replica, synced. The caller keeps it from being opened again (it is in ``Homes.busy``)."""
        found = self._lives.get(number)
        if found is not None:
            found[0].stop()
            await asyncio.wait({found[1]})
            if found[0].followed is not None:
                self._followed[number] = found[0].followed

    def followed(self, number: int) -> KeptSteps | None:
        """The last steps that were sent to the replica which is the partition now, once."""
        return self._followed.pop(number, None)

    async def check(self, number: int) -> str:
        """Why the replica, which is released, cannot be opened as the partition; "" if it can. Such a one is followed
        no more. Raises JobError if another process has it, OSError if the disk is full."""
        place = self._place
        fault: str = await place.options.beside(partial(self._opening.fault, number, place.directory(number)))
        if fault:
            place.distrust(number, fault)
        return fault

    def fault(self, number: int) -> str:
        """Why the replica that is here cannot become the partition, as far as that was looked at; "" if it can."""
        return self._place.fault(number)

    async def close(self, *, ended: bool) -> None:
        """Close all, when what comes from owners that end too has been written. ``ended``: the crawl is over, and all
        owners end."""
        self._is_over = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        latest = began + (ENDED if ended else STOPPED)
        while loop.time() < latest and not all(life.replica.is_left for life, _ in self._lives.values()):
            given = max(began, *(life.given for life, _ in self._lives.values()))
            if loop.time() >= given + QUIET:
                break
            await asyncio.sleep(GATHER)
        for number in list(self._lives):
            await self.release(number)
