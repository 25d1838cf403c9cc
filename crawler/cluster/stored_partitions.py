"""One process's share of the store in which its crawl lives: a log with the steps of all its partitions, and the
partitions it owns there. Claims only keep two processes from working on a partition at the same time; the store decides
who may write."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from crawler.base.disk import Disk
from crawler.cluster.claims import HELD
from crawler.job.bucket.keeping import Beside, Keeping
from crawler.job.bucket.layout import CrawlObject, standing
from crawler.job.bucket.objects import BucketDown, BucketError, Objects
from crawler.job.bucket.ownership import JustTakenError, Newcomer, new_log, release, take, taken_elsewhere
from crawler.job.crawl_file import leave_partition, partition_directories, return_to_partition
from crawler.job.job import Job
from crawler.job.job_lock import lock_holder

log = logging.getLogger("crawler")

_AGAIN, _AGAIN_MOST = 1.0, 60.0  # seconds until a partition that could not be taken is tried again
_BITS = 20  # bits of an epoch that count the owner's repeated claims


class StoredPartitions:
    """The partitions of one process in the store. ``check`` is called for each restored partition."""

    def __init__(
        self,
        objects: Objects,
        crawl: CrawlObject,
        disk: Disk,
        clock: Callable[[], float],
        beside: Beside,
        check: Callable[[Path], None],
    ) -> None:
        self.keeping = Keeping(objects, new_log(objects, crawl), clock, beside)
        self._crawl = crawl
        self._disk = disk
        self._clock = clock
        self._beside = beside
        self._check = check
        self._is_away = False
        self._refused: dict[int, tuple[float, float]] = {}  # by partition: when to try again, and the current pause
        self._loose = set[int]()  # perhaps owned here, but not open; other processes wait until they are released

    @property
    def worker(self) -> str:
        """The name of the log."""
        return self.keeping.log.worker

    async def take(self, number: int, directory: Path, *, begins: bool, lives: Callable[[str], bool]) -> int | None:
        """Become the owner of the partition, and restore it into the directory. Returns its epoch in the store; None if
        this process cannot become the owner now. ``begins``, ``lives``: see ``Newcomer``. Raises JobError, OSError, and
        the errors of ``check``."""
        keeping, (again_at, pause) = self.keeping, self._refused.get(number, (0.0, _AGAIN))
        if self._clock() < again_at:
            return None
        self._loose.add(number)
        newcomer = Newcomer(keeping.log, self._disk, self._clock(), keeping.number, begins, self._check, lives)
        try:
            holding = await self._beside(partial(take, keeping.objects, self._crawl, number, directory, newcomer))
        except JustTakenError:
            return None
        except (BucketDown, BucketError) as error:
            self._say_away(error)
            if isinstance(error, BucketError):  # each try may leave one more owner object in the store
                self._refused[number] = self._clock() + pause, min(2 * pause, _AGAIN_MOST)
            return None
        self._is_away = False
        self._refused.pop(number, None)
        if holding is None:
            self._loose.discard(number)
            return None
        if holding.was is not None and not holding.was_released:
            log.warning("partition %d moved here from %s", number, holding.was.place)
        if holding.behind:
            log.warning("%s was behind %s, and was restored", directory, keeping.objects.address)
        return int(holding.epoch)

    async def outlast(self, directory: Path, claimed: int) -> None:
        """If the carrier has forgotten the owner's claim, wait until the owner can no longer rely on it. The carrier
        has forgotten that claim if ``claimed``, the epoch of the new claim, is below the epochs of all owners. Raises
        JobError, OSError."""
        if claimed > first_epoch(1):
            return
        with contextlib.suppress(BucketDown, BucketError):  # if this fails, the partition cannot be taken either
            now = await self._beside(partial(taken_elsewhere, self.keeping.objects, directory))
            if now is not None and not now.is_released:
                await asyncio.sleep(HELD)

    def _say_away(self, error: BucketDown | BucketError) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("partitions wait for the store, nothing is lost: %s", error)

    async def begin(self, job: Job, number: int, epoch: int) -> bool:
        """Start writing the steps of a previously taken partition to the store. Returns False if that is not possible
        now. Raises OSError, BucketError."""
        try:
            await self.keeping.add(job, number, epoch)
        except (BucketDown, BucketError) as error:
            self._say_away(error)
            return False
        self._loose.discard(number)
        return True

    async def owns(self, number: int, epoch: int) -> bool:
        """Return True if the owner with the epoch ``epoch`` has not been replaced. Raises BucketDown, BucketError."""
        now = await self._beside(partial(standing, self.keeping.objects, number))
        return bool(now.epoch == epoch)

    async def leave(self, number: int, *, whole: bool) -> bool:
        """Release the partition; see ``Keeping``. If that fails, the partition is released later, unless this process
        has become its owner again by then."""
        self._loose.add(number)
        return await self.keeping.leave(number, whole=whole)

    async def leave_others(self, directory: Path, wanted: Collection[int]) -> None:
        """Release partitions that are owned but not open here, except those in ``wanted``, and record in the directory
        which of its partitions another directory has. Raises JobError, OSError."""
        try:
            for number in self._loose.difference(wanted):
                await self._beside(partial(self._release, number))
                self._loose.discard(number)
            for partition in partition_directories(directory):
                if int(partition.name) not in wanted and lock_holder(partition) is None:
                    await self._beside(partial(self._leave_if_taken, partition))
        except (BucketDown, BucketError) as error:
            self._say_away(error)

    def _leave_if_taken(self, partition: Path) -> None:
        if taken_elsewhere(self.keeping.objects, partition) is not None:
            self.left(partition)
            if taken_elsewhere(self.keeping.objects, partition) is None:  # restored here meanwhile
                return_to_partition(self._disk, partition)

    def _release(self, number: int) -> None:
        now = standing(self.keeping.objects, number)
        if now.owner is not None and now.owner.worker == self.worker and not now.is_released:
            release(self.keeping.objects, number, now.epoch, self.keeping.number)

    def left(self, directory: Path) -> None:
        """Record in the directory that another process continues a partition. Raises OSError."""
        leave_partition(self._disk, directory)


def first_epoch(epoch: int) -> int:
    """Return the lower bound of the epochs under which an owner sends if its epoch in the store is ``epoch``. Earlier
    owners have used only epochs below that bound, even if the carrier has lost its state."""
    return epoch << _BITS
