"""Decides who may write the steps of a partition in a bucket; a crawl of one process is partition 0. All ownership
transitions are in this module.

    state of the newest owner   found                         what the next owner does
    none                        no owner object               put owner 1
    writing                     its log is open               wait until the owner dies; close its log; put the next
    closed                      its log is closed             put the next owner
    released                    its release object            put the next owner
    ours                        this process had it before    put the next owner

Putting an owner object fails if another process has already put the one of that epoch: that process is the owner. A
process whose log is closed has lost all its partitions, and writes no more of their steps. An owner that releases a
partition puts the release object once the log has all its steps.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from crawler.base import entropy
from crawler.base.disk import Disk, failpoint, replace_file
from crawler.job.bucket.layout import (
    CRAWL,
    CrawlObject,
    Owner,
    Release,
    Snapshot,
    Standing,
    encode,
    log_key,
    newest_snapshot,
    owner_key,
    read_crawl,
    read_shape,
    release_key,
    standing,
)
from crawler.job.bucket.log_objects import Log, steps_after
from crawler.job.bucket.objects import BucketError, Objects, check_objects, put_own
from crawler.job.bucket.restoration import fetch, follow, place_restored, undone
from crawler.job.checkpoint.envelope import EnvelopeError, content_of, encode_envelope, read_envelope
from crawler.job.crawl_file import holds_crawl, return_to_partition
from crawler.job.directory import BUCKET, RESTORING, JobError, holds_job, make_directory
from crawler.job.follower import GapError
from crawler.job.job_lock import JobLock
from crawler.job.steps.step_codec import Chunk

MAGIC = "crawler-in-bucket"
VERSION = 1

GROWS = 2.5  # seconds within which a running worker puts an object


class Here(Struct, frozen=True):
    """``DIR/bucket.json``: the bucket in which the directory's crawl lives, and the names of two workers that write to
    the bucket from this directory: the last one, and the one about to start."""

    address: str
    crawl: str
    workers: tuple[str, ...] = ()


class JustTakenError(BucketError):
    """Another process has just become the next owner."""


class Holding(Struct, frozen=True):
    """A process's ownership of a partition. ``was``: the previous owner, if it ran elsewhere; ``was_released``: True if
    that owner released the partition. ``behind``: the directory had lost steps that the bucket has, and was
    restored."""

    objects: Objects
    crawl: CrawlObject
    epoch: int
    log: Log
    was: Owner | None = None
    was_released: bool = False
    behind: bool = False


def read_here(directory: Path) -> Here | None:
    """Return which bucket the directory's crawl lives in; None if it lives in none. Raises JobError, OSError."""
    path = directory / BUCKET
    try:
        return content_of(read_envelope(path, MAGIC, VERSION, str(path)), Here, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except EnvelopeError as error:
        raise JobError(str(error)) from error


def write_here(disk: Disk, directory: Path, here: Here) -> None:
    replace_file(disk, directory / BUCKET, encode_envelope(MAGIC, VERSION, to_builtins(here)))


def has_last_word(objects: Objects, partition: Path) -> bool:
    """Return True if the partition's directory may have steps that the bucket lacks: its last owner wrote from there
    and did not release it, or the bucket knows no owner. Raises BucketError, BucketDown, JobError, OSError."""
    here, now = read_here(partition), standing(objects, int(partition.name))
    if here is None or now.owner is None:
        return True
    return now.owner.worker in here.workers and not now.is_released


def taken_elsewhere(objects: Objects, partition: Path) -> Standing | None:
    """Return the state of a partition whose last owner used another directory than this one; None if it used this one,
    or the bucket knows no owner. Raises BucketError, BucketDown, JobError, OSError."""
    here, now = read_here(partition), standing(objects, int(partition.name))
    known = () if here is None else here.workers
    return None if now.owner is None or now.owner.worker in known else now


def running_at(objects: Objects, crawl: CrawlObject, partitions: int) -> str | None:
    """Return where a worker of the crawl is running; None if no worker is. Takes some seconds if one may be running.
    Raises BucketError, BucketDown."""
    logs = dict[str, tuple[str, int]]()
    for number in range(partitions):
        now = standing(objects, number)
        if now.owner is not None and not now.is_released:
            owner = now.owner
            logs[owner.worker] = owner.place, Log(objects, crawl.sealing, owner.worker).end(owner.first)
    if logs:
        time.sleep(GROWS)
    grown = (place for worker, (place, end) in logs.items() if objects.get(log_key(worker, end)) is not None)
    return next(grown, None)


class Newcomer(Struct, frozen=True):
    """A process that wants to own partitions at the time ``now`` (seconds since 1970): its log, and the ``number`` of
    its next object there. ``begins``: it may start a partition that has never had an owner. ``check`` examines a job to
    be restored before the partition is taken from its owner. ``lives`` returns True if the worker of a log is running,
    and will therefore release any partition that it should give up."""

    log: Log
    disk: Disk
    now: float
    number: int = 0
    begins: bool = True
    check: Callable[[Path], None] = lambda _: None
    lives: Callable[[str], bool] = lambda _: False


def own(
    objects: Objects, directory: Path, disk: Disk, now: float, check: Callable[[Path], None] = lambda _: None
) -> Holding:
    """Become the owner of the single-process crawl in the bucket, and restore its job into the directory; a new crawl
    starts with the directory's job. ``now`` is in seconds since 1970. ``check``: see ``Newcomer``. Raises the errors of
    ``check``, BucketError, BucketDown, JobError, OSError."""
    crawl = find_crawl(objects, directory)
    if read_shape(objects)[1] is not None:
        raise BucketError(f"{objects.address} holds a partitioned crawl: add --partitions N to run N processes here")
    begin_crawl(objects, crawl, directory, disk)
    holding = take(objects, crawl, 0, directory, Newcomer(new_log(objects, crawl), disk, now, check=check))
    assert holding is not None  # ``lives`` is always False here
    return holding


def new_log(objects: Objects, crawl: CrawlObject) -> Log:
    """Create a log under a new name."""
    return Log(objects, crawl.sealing, entropy.random_bytes(8).hex())


def find_crawl(objects: Objects, directory: Path) -> CrawlObject:
    """Return the crawl in the bucket, which must be the one in the directory, or a new one if the bucket is empty.
    Changes nothing. Raises BucketError, BucketDown, JobError, OSError."""
    here = read_here(directory)
    if here is not None and here.address != objects.address:
        raise JobError(
            f"{directory} is the crawl in {here.address}, not in {objects.address}: use that store, or another job"
        )
    crawl = read_crawl(objects, "use an empty prefix")
    if crawl is None:
        if here is not None and (here.workers or holds_crawl(directory)):
            raise BucketError(
                f"{objects.address} is empty, but {directory} is a crawl that was stored there: use its store"
            )
        return CrawlObject.new()
    if crawl.of:
        raise BucketError(f"{objects.address} holds backups: `crawler restore` turns one into a job")
    if (holds_job(directory) or holds_crawl(directory)) and (here is None or here.crawl != crawl.id):
        raise BucketError(
            f"{objects.address} holds a different crawl from {directory}: use another prefix, or an empty job directory"
        )
    return crawl


def begin_crawl(objects: Objects, crawl: CrawlObject, directory: Path, disk: Disk) -> None:
    """Check the bucket, and start the crawl there unless it has started. It is recorded in the directory first: if this
    process is killed in between, the next process starts a new crawl. Raises BucketError, BucketDown, JobError,
    OSError."""
    check_objects(objects)
    make_directory(directory, disk)
    if read_crawl(objects) == crawl:
        return
    lock = JobLock(directory)
    try:
        write_here(disk, directory, Here(objects.address, crawl.id))
        if not put_own(objects, CRAWL, encode("crawl", crawl)):
            disk.unlink(directory / BUCKET)
            raise BucketError(f"another process is starting a crawl in {objects.address}: run only one")
    finally:
        lock.release()


def take(objects: Objects, crawl: CrawlObject, partition: int, directory: Path, newcomer: Newcomer) -> Holding | None:
    """Become the owner of the partition, and restore its job into the directory; a partition that has never had an
    owner starts with the directory's job. Returns None if another process must start the partition, or if its owner is
    running and has not released it. Raises the errors of ``newcomer.check``, JustTakenError, BucketError, BucketDown,
    JobError, OSError."""
    disk = newcomer.disk
    make_directory(directory, disk)
    lock = JobLock(directory)
    try:
        here = read_here(directory)
        if here is None or here.crawl != crawl.id:
            here = Here(objects.address, crawl.id)
        taking = _Taking(objects, crawl, partition, directory, newcomer)
        if taking.must_wait:
            return None
        taking.prepare(here)
        worker = newcomer.log.worker
        # A directory that has to be restored first names no worker until then: if this attempt ends in between, its old
        # content must not count as that of the new owner.
        before = () if taking.last is None else (taking.last.worker,)
        write_here(disk, directory, replace(here, workers=(*before, worker) if taking.is_newest else ()))
        epoch = taking.take()
    finally:
        lock.release()
    # If another process gets the lock now, it becomes the next owner, and this process fails.
    behind = taking.bring()
    failpoint("bucket.brought")
    write_here(disk, directory, replace(here, workers=(worker,)))
    return_to_partition(disk, directory)
    was = None if taking.is_newest else taking.last
    return Holding(objects, crawl, epoch, newcomer.log, was, taking.was_released, behind)


class _Taking:
    """Takes over a partition. ``is_newest``: the last process that wrote the partition's steps to the bucket used this
    directory."""

    def __init__(
        self, objects: Objects, crawl: CrawlObject, partition: int, directory: Path, newcomer: Newcomer
    ) -> None:
        self.is_newest = False
        self._objects = objects
        self._sealing = crawl.sealing
        self._partition = partition
        self._directory = directory
        self._disk = newcomer.disk
        self._newcomer = newcomer
        self._now = standing(objects, partition)
        self.last = self._now.owner
        self.was_released = self._now.is_released
        self._fetched: Snapshot | None = None

    @property
    def _was_ours(self) -> bool:
        return self.last is not None and self.last.worker == self._newcomer.log.worker

    @property
    def must_wait(self) -> bool:
        """True if this process cannot take the partition yet: another one must start it, or its owner must release
        it."""
        if self.last is None:
            return not self._newcomer.begins
        if self.was_released or self._was_ours:
            return False
        return self._newcomer.lives(self.last.worker)

    def prepare(self, here: Here) -> None:
        """Fetch the files to restore, while the owner keeps running; if it has released the partition, bring them up to
        date. A refusal changes nothing."""
        self.is_newest = self.last is None or self.last.worker in here.workers
        snapshot = newest_snapshot(self._objects, self._partition)
        if snapshot is None and self.last is not None and not self.is_newest:
            self._check_new(self.last)
        if snapshot is None or (self.is_newest and holds_job(self._directory)):
            return
        file, making = self._directory / BUCKET, self._directory / RESTORING
        new = () if file.exists() else (file,)
        with undone(making, *new):
            if new:
                write_here(self._disk, self._directory, here)  # the same command continues if this process is killed
            self._fetched = fetch(self._objects, self._partition, self._directory, self._disk)
            failpoint("bucket.fetched")
            self._newcomer.check(making)
            if self.was_released:
                follow(making, self._steps(self._fetched))

    def take(self) -> int:
        """Close the log of the last owner, unless that owner has released the partition, and become the next owner.
        Returns the epoch."""
        if self.last is not None and not self.was_released and not self._was_ours:
            self._close(self.last)
        failpoint("bucket.closed")
        place = f"{socket.gethostname()}:{self._directory.absolute()} (process {os.getpid()})"
        owner = Owner(self._newcomer.log.worker, self._newcomer.number, place, self._newcomer.now)
        epoch = self._now.epoch + 1
        if not put_own(self._objects, owner_key(self._partition, epoch), encode("owner", owner)):
            raise JustTakenError(f"another process has just taken the crawl in {self._objects.address}: run only one")
        failpoint("bucket.owned")
        return epoch

    def _close(self, last: Owner) -> None:
        snapshot = newest_snapshot(self._objects, self._partition)
        follows = snapshot is not None and snapshot.worker == last.worker
        first = snapshot.log if snapshot is not None and follows else last.first
        Log(self._objects, self._sealing, last.worker).close(first)

    def _check_new(self, last: Owner) -> None:
        """Raise BucketError if the partition, which has no snapshot, has steps: it had a snapshot before them."""
        log = Log(self._objects, self._sealing, last.worker)
        numbers = range(last.first, log.end(last.first))
        if any(chunk.partition == self._partition for number in numbers for chunk in log.chunks(number) or ()):
            raise BucketError(f"{self._objects.address} has a log but no snapshot: its snapshots were removed")

    def bring(self) -> bool:
        """Bring the directory up to date with the bucket. Returns True if this directory was the last one written to,
        had lost some data, and was restored."""
        snapshot = newest_snapshot(self._objects, self._partition)
        if snapshot is None:
            return False
        is_here = self.is_newest and holds_job(self._directory)
        if is_here:
            with contextlib.suppress(GapError):  # its disk has lost more than the log can restore
                follow(self._directory, self._steps(snapshot), least=snapshot.reaches)
                return False
        making = self._directory / RESTORING
        with undone(making):
            if snapshot != self._fetched:
                snapshot = fetch(self._objects, self._partition, self._directory, self._disk)
                follow(making, self._steps(snapshot))
            elif not self.was_released:
                follow(making, self._steps(snapshot))
        place_restored(self._directory, self._disk)
        return is_here

    def _steps(self, snapshot: Snapshot) -> Iterator[Chunk]:
        return steps_after(self._objects, self._sealing, self._partition, snapshot)


def release(objects: Objects, partition: int, epoch: int, end: int) -> None:
    """Release the partition, all of whose steps are in the log of this process below the number ``end``. Raises
    BucketError, BucketDown."""
    put_own(objects, release_key(partition, epoch), encode("owner", Release(end)))
