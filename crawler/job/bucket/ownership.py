"""Who may write the steps of a crawl in a bucket. All transitions of an owner are here.

    state of the newest owner   found                         what the next one does
    none                        no owner object               put owner 1
    writing                     its log is open               close the log; put the next owner
    closed                      its log is closed             put the next owner

Putting an owner object fails if another process has put that epoch: it is the owner. A process whose log is closed has
lost the partition, and writes no step of it any more.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from crawler.base.disk import Disk, failpoint, replace_file
from crawler.job.bucket.layout import (
    CRAWL,
    CrawlObject,
    Owner,
    Snapshot,
    encode,
    newest_owner,
    newest_snapshot,
    owner_key,
    read_crawl,
)
from crawler.job.bucket.log_objects import Log
from crawler.job.bucket.objects import BucketError, Objects, check_objects, put_own
from crawler.job.bucket.restoration import fetch, follow, place_restored
from crawler.job.checkpoint.envelope import EnvelopeError, decode_envelope, encode_envelope, read_bounded
from crawler.job.directory import BUCKET, RESTORING, JobError, holds_job, make_directory
from crawler.job.follower import GapError
from crawler.job.job_lock import JobLock
from crawler.job.replica.seal import Sealing

MAGIC = "crawler-in-bucket"
VERSION = 1


class Here(Struct, frozen=True):
    """``DIR/bucket.json``: in which bucket the crawl of the directory lives, and the names under which processes wrote
    to it from here: the last one, and the one that is about to."""

    address: str
    crawl: str
    workers: tuple[str, ...] = ()


class Holding(Struct, frozen=True):
    """What a process has that owns the partition. ``was``: who had it before, if that was elsewhere. ``behind``: the
    directory had lost what the bucket has, and was restored."""

    objects: Objects
    crawl: CrawlObject
    epoch: int
    log: Log
    was: Owner | None = None
    behind: bool = False


def read_here(directory: Path) -> Here | None:
    """In which bucket the crawl of the directory lives; None if in none. Raises JobError, OSError."""
    path = directory / BUCKET
    try:
        content: dict[str, Any] = decode_envelope(read_bounded(path, str(path)), MAGIC, VERSION, str(path))
        return convert(content, Here)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (EnvelopeError, ValidationError) as error:
        raise JobError(f"{path}: {error}") from error


def _write_here(disk: Disk, directory: Path, here: Here) -> None:
    replace_file(disk, directory / BUCKET, encode_envelope(MAGIC, VERSION, to_builtins(here)))


def check_here(directory: Path, address: str) -> None:
    """Raise JobError if the crawl of the directory lives in another bucket. Raises OSError."""
    here = read_here(directory)
    if here is not None and here.address != address:
        raise JobError(f"{directory} is the crawl in {here.address}, not in {address}: name that store, or another job")


def own(
    objects: Objects, directory: Path, disk: Disk, now: float, check: Callable[[Path], None] = lambda _: None
) -> Holding:
    """Become the owner of the crawl in the bucket, and have its job in the directory; a new crawl begins with what is
    there. ``now`` is in seconds since 1970. ``check`` looks at a job that is to be restored, before anything is taken
    from its owner. Raises what that raises, BucketError, BucketDown, JobError, OSError."""
    check_here(directory, objects.address)
    here, crawl = read_here(directory), read_crawl(objects)
    check_objects(objects)
    if crawl is None:
        if here is not None and here.workers:
            raise BucketError(
                f"{objects.address} is empty, and {directory} is the crawl that was there: name its store"
            )
        here = None
    elif crawl.of:
        raise BucketError(f"{objects.address} holds backups: `crawler restore` makes a job of one")
    elif holds_job(directory) and (here is None or here.crawl != crawl.id):
        raise BucketError(
            f"{objects.address} holds another crawl than {directory}: name another prefix, or an empty job directory"
        )
    make_directory(directory, disk)
    lock = JobLock(directory)
    try:
        if crawl is None:
            crawl = _begin(objects, directory, disk)
        if here is None or here.crawl != crawl.id:
            here = Here(objects.address, crawl.id)
        taking = _Taking(objects, Sealing(bytes.fromhex(crawl.secret)), directory, disk)
        taking.prepare(here, check)
        worker = secrets.token_hex(8)
        before = (taking.last.worker,) if taking.is_newest and taking.last is not None else ()
        _write_here(disk, directory, replace(here, workers=(*before, worker)))
        epoch = taking.take(worker, now)
    finally:
        lock.release()
    # Whoever gets the lock now is the next owner, and this process fails.
    behind = taking.bring()
    failpoint("bucket.brought")
    _write_here(disk, directory, replace(here, workers=(worker,)))
    was = None if taking.is_newest else taking.last
    return Holding(objects, crawl, epoch, Log(objects, taking.sealing, worker), was, behind)


def _begin(objects: Objects, directory: Path, disk: Disk) -> CrawlObject:
    """Begin a crawl. The directory knows it first: a process that is killed then begins another one."""
    crawl = CrawlObject.new()
    _write_here(disk, directory, Here(objects.address, crawl.id))
    if not put_own(objects, CRAWL, encode("crawl", crawl)):
        disk.unlink(directory / BUCKET)
        raise BucketError(f"another process begins a crawl in {objects.address} at this moment: run one only")
    return crawl


class _Taking:
    """Takes the partition over. ``is_newest``: the last process that wrote to the bucket had this directory."""

    def __init__(self, objects: Objects, sealing: Sealing, directory: Path, disk: Disk) -> None:
        self.sealing = sealing
        self.is_newest = False
        self._objects = objects
        self._directory = directory
        self._disk = disk
        self.epoch, self.last = newest_owner(objects, 0)
        self._fetched: Snapshot | None = None

    def prepare(self, here: Here, check: Callable[[Path], None]) -> None:
        """Fetch what is to be restored, while its owner goes on."""
        self.is_newest = self.last is None or self.last.worker in here.workers
        snapshot = newest_snapshot(self._objects, 0)
        if snapshot is None or (self.is_newest and holds_job(self._directory)):
            return
        self._fetched = fetch(self._objects, 0, self._directory, self._disk)
        check(self._directory / RESTORING)

    def take(self, worker: str, now: float) -> int:
        """Close the log of the last owner, and become the next one. Returns the epoch."""
        if self.last is not None:
            snapshot = newest_snapshot(self._objects, 0)
            follows = snapshot is not None and snapshot.worker == self.last.worker
            first = snapshot.log if snapshot is not None and follows else 0
            end = Log(self._objects, self.sealing, self.last.worker).close(first)
            if snapshot is None and end and not self.is_newest:
                raise BucketError(
                    f"{self._objects.address} has a log and no snapshot: somebody has removed what it had"
                )
        failpoint("bucket.closed")
        place = f"{socket.gethostname()}:{self._directory.absolute()} (process {os.getpid()})"
        owner = encode("owner", Owner(worker, place, now))
        if not put_own(self._objects, owner_key(0, self.epoch + 1), owner):
            raise BucketError(f"another process has just taken the crawl in {self._objects.address}: run one only")
        failpoint("bucket.owned")
        return self.epoch + 1

    def bring(self) -> bool:
        """Have in the directory what is in the bucket. Returns whether the directory, which had the last word, had lost
        some of it, and was restored."""
        snapshot = newest_snapshot(self._objects, 0)
        if snapshot is None:
            return False
        log_of = partial(Log, self._objects, self.sealing, is_closed=True)
        is_here = self.is_newest and holds_job(self._directory)
        if is_here:
            with contextlib.suppress(GapError):  # its disk has lost more than the log can bring back
                follow(self._directory, log_of(snapshot.worker).read(0, snapshot.log), least=snapshot.reaches)
                return False
        if snapshot != self._fetched:
            snapshot = fetch(self._objects, 0, self._directory, self._disk)
        place_restored(log_of, 0, self._directory, self._disk, snapshot)
        return is_here
