"""Splits a crawl that lives in a bucket into more partitions, while it is not running.

    take        become the owner of every partition, so that no other process writes to one, and restore it
    settle      open each partition once, to complete interrupted work and write a generation of its seen-set
    store       store a snapshot of each one as it is, then the first snapshots of its new partitions, which share its
                pieces. The new ones count once the crawl has the new number of partitions
                (``layout.newest_snapshot``)
    shape       put the next shape, which has that number; this completes the split
    release     release all partitions, so that their next owners have no log to close

If the process is killed before the shape is put, the crawl is unchanged, and the new snapshots do not count. If another
process takes a partition over meanwhile, it either finds the new shape, or the final check of the owners detects it and
withdraws the shape.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from crawler.base.disk import RealDisk, failpoint, make_private_directory
from crawler.base.figures import counted
from crawler.base.settings.parts import PARTITIONS_MOST
from crawler.job.bucket.layout import (
    Owner,
    Shape,
    encode,
    owner_key,
    read_crawl,
    read_shape,
    shape_key,
    standing,
)
from crawler.job.bucket.objects import BucketDown, BucketError, Objects, check_objects, put_own
from crawler.job.bucket.ownership import Holding, JustTakenError, Newcomer, new_log, release, running_at, take
from crawler.job.bucket.snapshots import Held, Snapshots
from crawler.job.crawl_file import CrawlFile
from crawler.job.directory import holds_job
from crawler.job.division import Part, divide
from crawler.job.found import KEEP_ALL
from crawler.job.identity import Shaping, read_identity
from crawler.job.job import Job
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import Platform, new_line
from crawler.job.run_settings import read_run


class Plan(Struct, frozen=True):
    """The shape of the crawl after the split, and the shaping settings of each of its partitions."""

    shape: Shape
    shaping: Shaping


Planned = Callable[[Path, Shape | None], Plan]


class _Old(Struct):
    """A partition before the split, with its job in ``directory``, and the parts that replace it."""

    number: int
    holding: Holding
    directory: Path
    parts: list[Part] = []


class Split:
    """Splits the crawl in a bucket into ``partitions`` partitions, working below an empty directory."""

    def __init__(self, objects: Objects, partitions: int, directory: Path, now: float) -> None:
        """``now`` is in seconds since 1970. Raises BucketError if the split is impossible, and BucketDown."""
        self._objects = objects
        self._directory = directory
        self._now = now
        crawl = read_crawl(objects)
        if crawl is None or crawl.of:
            raise BucketError(f"{objects.address} holds {'no crawl' if crawl is None else 'backups, not a crawl'}")
        check_objects(objects)
        self._number, self._shape = read_shape(objects)
        self._file = None if self._shape is None else self._shape.file
        self.was = 1 if self._file is None else self._file.partitions
        if partitions % self.was or not 2 * self.was <= partitions <= PARTITIONS_MOST:
            raise BucketError(
                f"the crawl in {objects.address} has {counted(self.was, 'partition')}: it can be split into 2, 3, 4, "
                f"... times as many, up to {PARTITIONS_MOST}, but not into {partitions}"
            )
        self._of = crawl
        self._log = new_log(objects, crawl)
        self._old = list[_Old]()

    def run(self, planned: Planned, *, take_over: bool) -> list[Part]:
        """Split the crawl, and return the new parts in order. ``planned(job, shape)`` returns the plan, given the job
        of one of the partitions and the current shape. ``take_over``: also take partitions that their owners have not
        released. Raises the errors of ``planned`` and of the codecs, BucketError, BucketDown, JobError, OSError."""
        try:
            self._take(take_over=take_over)
            failpoint("split.taken")
            begun = [old for old in self._old if holds_job(old.directory)]
            plan = planned(begun[0].directory, self._shape)
            crawl = plan.shape.file
            stored = [self._divide(old, crawl, plan.shaping) for old in begun]
            parts = sorted((part for old in begun for part in old.parts), key=lambda part: part.number)
            self._check_useful(begun, crawl)
            for old, snapshots in zip(begun, stored, strict=True):
                self._store(old, snapshots, crawl.partitions)
            failpoint("split.stored")
            self._put_shape(plan.shape)
            failpoint("split.shaped")
        finally:
            for old in self._old:
                with contextlib.suppress(BucketDown, BucketError):  # if it fails, the next owner closes the log
                    release(self._objects, old.number, old.holding.epoch, 0)
        return parts

    def _take(self, *, take_over: bool) -> None:
        objects, numbers = self._objects, range(self.was)
        for number in () if take_over else numbers:
            now = standing(objects, number)
            if now.owner is not None and not now.is_released:
                raise BucketError(
                    f"partition {number} of the crawl in {objects.address} is at {now.owner.place}: stop the crawl "
                    "there first; if it is gone, add --take-over"
                )
        if (place := running_at(objects, self._of, self.was)) is not None:
            raise self._running(place)
        newcomer = Newcomer(self._log, RealDisk(), self._now, check=self._check)
        for number in numbers:
            directory = self._directory / f"old-{number:02}" / "job"
            holding = take(objects, self._of, number, directory, newcomer)
            assert holding is not None  # ``lives`` is always False here
            self._old.append(_Old(number, holding, directory))
        if not any(holds_job(old.directory) for old in self._old):
            raise BucketError(f"the crawl in {objects.address} has not started: there is nothing to split")
        left = [each.key for each in objects.list("snapshot/") if int(each.key.split("/")[1]) >= self.was]
        objects.delete(left)  # left by an interrupted split

    def _check(self, job: Path) -> None:
        fetcher = read_identity(job).fetcher
        if fetcher is not None:
            raise BucketError(f"{self._objects.address} holds a job of {fetcher}, which cannot be split")

    def _divide(self, old: _Old, crawl: CrawlFile, shaping: Shaping) -> Snapshots:
        """Store the partition unchanged, as the snapshot that counts until the new shape exists, and divide it into
        parts."""
        state = old.directory.parent / "state"
        make_private_directory(state)
        router = KEEP_ALL if self._file is None else PartitionRouter(old.number, self._file.placement)
        settings = read_run(old.directory).settings
        job = Job(old.directory, settings, self._now, Platform(line=new_line()), router=router)
        try:
            asyncio.run(_settle(job, state, self._now))
        finally:
            job.close()
        snapshots = Snapshots(self._objects, old.number, old.holding.epoch)
        whole = snapshots.write(Held(state, old.directory, self._log.worker), self._now)
        old.parts = divide(state, (old.number, self.was), crawl, shaping, whole.pages.size)
        return snapshots

    def _check_useful(self, begun: list[_Old], crawl: CrawlFile) -> None:
        had = [old for old in begun if any(part.counters.hosts for part in old.parts)]
        if sum(part.counters.hosts > 0 for old in begun for part in old.parts) <= len(had):
            hint = "" if crawl.by_host or self._file is not None else ": add --placed-by host"
            raise BucketError(
                f"a split by {crawl.by} would not spread the hosts of the crawl in {self._objects.address}{hint}"
            )

    def _store(self, old: _Old, snapshots: Snapshots, partitions: int) -> None:
        """Store the first snapshots of the parts. The first part keeps the old partition's number, so its snapshot is
        simply that partition's next one."""
        worker = self._log.worker
        assert snapshots.newest is not None
        known = frozenset(snapshots.newest.pieces())
        heir, *others = old.parts
        for part in others:
            epoch = standing(self._objects, part.number).epoch + 1  # an interrupted split may have left owner objects
            place = f"{old.directory} for partition {part.number}"
            owner = encode("owner", Owner(worker, 0, place, self._now))
            if not put_own(self._objects, owner_key(part.number, epoch), owner):
                raise JustTakenError(f"another process is splitting the crawl in {self._objects.address}: run only one")
            held = Held(part.directory, part.directory, worker)
            Snapshots(self._objects, part.number, epoch, known).write(held, self._now, partitions)
            release(self._objects, part.number, epoch, 0)
        snapshots.write(Held(heir.directory, old.directory, worker), self._now, partitions)

    def _put_shape(self, shape: Shape) -> None:
        objects, key = self._objects, shape_key(self._number + 1)
        self._check_owners()
        if not put_own(objects, key, encode("shape", shape)):
            raise JustTakenError(f"another process has changed the crawl in {objects.address}, which was not split")
        try:
            self._check_owners()
        except JustTakenError:
            objects.delete([key])
            raise

    def _check_owners(self) -> None:
        for old in self._old:
            now = standing(self._objects, old.number)
            if now.epoch != old.holding.epoch and now.owner is not None:
                raise self._running(now.owner.place)

    def _running(self, place: str) -> JustTakenError:
        return JustTakenError(f"the crawl is running at {place}, and was not split: stop it there first")


async def _settle(job: Job, state: Path, now: float) -> None:
    """Write a generation of the seen-set, so that no journal needs replaying, and freeze the state."""
    await job.checkpoint(now, whole=True)
    await job.sync()
    await job.hold_still(state)
