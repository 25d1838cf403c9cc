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

from crawler.base.disk import Disk, failpoint, replace_file
from crawler.job.bucket.layout import (
    CRAWL,
    CrawlObject,
    Owner,
    encode,
    newest_owner,
    newest_snapshot,
    owner_key,
    read_crawl,
)
from crawler.job.bucket.log_objects import Log
from crawler.job.bucket.objects import BucketError, Objects, check_objects, put_own
from crawler.job.bucket.restoration import follow, restore
from crawler.job.checkpoint.envelope import EnvelopeError, decode_envelope, encode_envelope, read_bounded
from crawler.job.directory import BUCKET, JobError, holds_job, make_directory
from crawler.job.follower import GapError
from crawler.job.replica.seal import Sealing

MAGIC = "crawler-in-bucket"
VERSION = 1


class Here(Struct, frozen=True):
    """``DIR/bucket.json``: in which bucket the crawl of the directory lives, and the last epoch in which it was written
    here. ``after``: the epoch before that one."""

    address: str
    crawl: str
    epoch: int = 0


class Holding(Struct, frozen=True):
    """What a process has that owns the partition. ``was``: who had it before, if that was elsewhere."""

    objects: Objects
    crawl: CrawlObject
    epoch: int
    log: Log
    was: Owner | None = None


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


def own(objects: Objects, directory: Path, disk: Disk, now: float) -> Holding:
    """Become the owner of the crawl in the bucket, and have its job in the directory; a new crawl begins with what is
    there. ``now`` is in seconds since 1970. Raises BucketError, BucketDown, JobError, OSError."""
    check_here(directory, objects.address)
    here, crawl = read_here(directory), read_crawl(objects)
    check_objects(objects)
    if crawl is None:
        crawl = _begin(objects, directory, here)
    elif holds_job(directory) and (here is None or here.crawl != crawl.id):
        raise BucketError(
            f"{objects.address} holds another crawl than {directory}: name another prefix, or another job"
        )
    if crawl.of:
        raise BucketError(f"{objects.address} holds backups: `crawler restore` makes a job of one")
    if crawl.partitions != 1:
        raise BucketError(f"{objects.address} holds a crawl of {crawl.partitions} partitions: add --partitions")
    if here is None or here.crawl != crawl.id:
        make_directory(directory, disk)
        here = Here(objects.address, crawl.id)
        _write_here(disk, directory, here)
    epoch, last = newest_owner(objects, 0)
    sealing = Sealing(bytes.fromhex(crawl.secret))
    if last is not None:
        snapshot = newest_snapshot(objects, 0)
        follows = snapshot is not None and snapshot.worker == last.worker
        end = Log(objects, sealing, last.worker).close(snapshot.log if snapshot is not None and follows else 0)
        if snapshot is None and end and here.epoch != epoch:
            raise BucketError(f"{objects.address} has a log and no snapshot: somebody has removed what it needs")
    failpoint("bucket.closed")
    log = Log(objects, sealing, secrets.token_hex(8))
    owner = Owner(log.worker, f"{socket.gethostname()}:{directory.absolute()} (process {os.getpid()})", now)
    if not put_own(objects, owner_key(0, epoch + 1), encode("owner", owner)):
        raise BucketError(f"another process has taken the crawl in {objects.address} at this moment: run one only")
    failpoint("bucket.owned")
    is_newest = here.epoch == epoch
    _bring(objects, partial(Log, objects, sealing, is_closed=True), directory, disk, is_newest=is_newest)
    failpoint("bucket.brought")
    _write_here(disk, directory, Here(objects.address, crawl.id, epoch + 1))
    return Holding(objects, crawl, epoch + 1, log, None if is_newest else last)


def _begin(objects: Objects, directory: Path, here: Here | None) -> CrawlObject:
    if here is not None and here.epoch:
        raise BucketError(f"{objects.address} is empty, and {directory} is the crawl that was in it: name its store")
    crawl = CrawlObject.new()
    if not put_own(objects, CRAWL, encode("crawl", crawl)):
        raise BucketError(f"another process begins a crawl in {objects.address} at this moment: run one only")
    return crawl


def _bring(objects: Objects, log_of: Callable[[str], Log], directory: Path, disk: Disk, *, is_newest: bool) -> None:
    """Have in the directory what is in the bucket. ``is_newest``: the last process that wrote to the bucket had this
    directory, which then has all of it, unless it lost its power."""
    snapshot = newest_snapshot(objects, 0)
    if snapshot is None:
        return
    if is_newest and holds_job(directory):
        with contextlib.suppress(GapError):  # its disk has lost more than the log can bring back
            follow(directory, log_of(snapshot.worker).read(0, snapshot.log))
            return
    restore(objects, log_of, 0, directory, disk)
