"""Backs up a job or a crawl of partitions to a bucket, and restores one from a backup or from a crawl in a bucket.

    backup/NUMBER   exists once the whole backup is stored; it lists the snapshots, and contains ``crawl.json``

A backup is a snapshot of each partition, with the backup's number as its epoch (``job.bucket.layout``). Partitions are
copied at different times, and a link sent from one to another in between may be in neither snapshot. So no partition of
a crawl may run during a backup.

A crawl in partitions whose data is in a bucket is restored to a directory, as a crawl on one machine. The partitions
are restored one by one, and their workers may continue meanwhile. This does not matter if the copy is only read. But a
link leaves its sender's outbox as soon as its receiver has stored the link in the bucket. If the receiver is restored
before that moment and the sender after it, neither copy has the link. So the crawl can continue in the directory only
if no log grows during the restoration.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawler.base import entropy
from crawler.base.disk import RealDisk, failpoint, replace_file
from crawler.inspect.crawl_partitions import CrawlPartitions, crawl_partitions, holds_crawl
from crawler.job.bucket.address import check_apart, is_address, open_objects
from crawler.job.bucket.layout import (
    CRAWL,
    CrawlObject,
    encode,
    newest_snapshot,
    read,
    read_crawl,
    read_shape,
    snapshot_key,
    snapshots,
    standing,
)
from crawler.job.bucket.log_objects import Log
from crawler.job.bucket.objects import BucketError, Objects, check_objects, put_own
from crawler.job.bucket.ownership import read_here, running_at
from crawler.job.bucket.restoration import Restored, Wanted, every_file, restore, undone
from crawler.job.bucket.snapshots import Held, Snapshots
from crawler.job.bucket.tidying import tidy
from crawler.job.crawl_file import CRAWL as CRAWL_FILE
from crawler.job.crawl_file import (
    PARTITIONS,
    SECRET_BYTES,
    CrawlFile,
    begin_crawl_file,
    note_begun,
    partition_directory,
    read_crawl_file,
)
from crawler.job.directory import BROKEN_OFF, REPAIRED, RESTORING, check_vacant, holds_job, make_directory
from crawler.job.identity import read_identity
from crawler.job.job_lock import at_rest
from crawler.job.recovery import encode_hash
from crawler.job.snapshot import SNAPSHOT, remove_snapshot

_AT_ONCE = 4  # maximum number of partitions restored at the same time


def restore_partitions(
    objects: Objects,
    crawl: CrawlObject,
    file: CrawlFile,
    directory: Path,
    wanted: Wanted,
    *,
    to_look: bool,
) -> list[Restored]:
    """Restore all partitions that have started. ``file`` has their common settings. With ``to_look``, the copy will
    only be read, so partitions may change during the restoration; otherwise, a change raises BucketError. Also raises
    BucketDown, JobError, OSError."""
    disk, before = RealDisk(), None if to_look else _moment(objects, crawl, range(file.partitions))
    if not to_look and (place := running_at(objects, crawl, file.partitions)) is not None:
        raise BucketError(_runs(objects, f", among others at {place}"))
    making, new = directory / RESTORING, not directory.exists()
    make_directory(making, disk)
    parts = [partition_directory(directory, number) for number in range(file.partitions)]
    with undone(*((directory,) if new else (*parts, making))):
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="restore") as executor:

            def restored(number: int) -> Restored | None:
                if newest_snapshot(objects, number) is None:
                    return None  # the partition has not started
                return restore(objects, crawl.sealing, number, parts[number], disk, wanted)

            made = [each for each in executor.map(restored, range(file.partitions)) if each is not None]
        if not made:
            raise BucketError(f"{objects.address} holds a crawl in partitions none of which has started yet")
        if before is not None and _moment(objects, crawl, range(file.partitions)) != before:
            raise BucketError(_runs(objects))
    for each in made:
        note_begun(disk, directory, int(each.directory.name))
    making.rmdir()
    begin_crawl_file(disk, directory, replace(file, id=entropy.random_bytes(SECRET_BYTES).hex()))
    return made


def _moment(objects: Objects, crawl: CrawlObject, partitions: Iterable[int]) -> object:
    """Return a value that changes whenever one of these partitions changes: their owners and newest snapshots, and the
    ends of the owners' logs. Raises BucketError, BucketDown."""
    standings = [standing(objects, number) for number in partitions]
    owners = [each.owner for each in standings if each.owner is not None]
    firsts = {owner.worker: owner.first for owner in sorted(owners, key=lambda owner: owner.first)}
    ends = {worker: Log(objects, crawl.sealing, worker).end(first) for worker, first in firsts.items()}
    return standings, [snapshots(objects, number)[:1] for number in partitions], ends


def _runs(objects: Objects, where: str = "") -> str:
    return (
        f"the crawl in {objects.address} is running{where}: stop it first, because copies of its partitions made at "
        "different times lack the links between them"
    )


class Whole(Struct, frozen=True):
    """``backup/NUMBER``. ``crawl``: the text of ``crawl.json``; empty for a job."""

    number: int
    partitions: tuple[int, ...]
    crawl: str
    source: str


class BackedUp(Struct):
    """A finished backup. ``written`` is the number of pieces stored, ``bytes`` their size in the bucket, and ``size``
    the size of all files in the backup except bodies."""

    number: int
    written: int = 0
    bytes: int = 0
    size: int = 0
    urls_admitted: int = 0
    urls_pending: int = 0


def bucket_at(text: str, *, reading: bool = False) -> Objects:
    """Return the bucket at an address, or in the directory with that path; with ``reading``, a missing directory is not
    created. Raises BucketError, BucketDown."""
    return open_objects(text if is_address(text) else f"file:{Path(text).absolute()}", reading=reading)


def back_up(directory: Path, to: str, take: Callable[[Path], None], now: float) -> BackedUp:
    """Make or update the backup of a job or crawl. ``take(job)`` creates the job's ``DIR/snapshot``. ``now`` is in
    seconds since 1970. Raises BucketError, BucketDown, JobError, OSError; an earlier backup is then unchanged."""
    crawl, here = crawl_partitions(directory), read_here(directory)
    if here is not None and len(crawl.found) < crawl.count:
        raise BucketError(f"{directory} lacks partitions: back up what `crawler restore {here.address} COPY` creates")
    identities = [read_identity(job) for job in crawl.jobs]
    address = to if is_address(to) else f"file:{Path(to).absolute()}"
    check_apart(directory, address)
    with _alone(directory), at_rest(directory):
        objects = open_objects(address)
        of = encode_hash(identities[0].hash) if crawl.is_job else read_crawl_file(directory).id.encode("ascii")
        last = _begin(objects, blake2b(of, digest_size=16).hexdigest(), crawl)
        made = BackedUp(1 if last is None else last.number + 1)
        for partition in crawl.found:
            with partition.named():
                _add(made, objects, partition.number, partition.directory, take, now)
        numbers = tuple(partition.number for partition in crawl.found)
        text = "" if crawl.is_job else (directory / CRAWL_FILE).read_text("utf-8")
        whole = Whole(made.number, numbers, text, str(directory.absolute()))
        put_own(objects, _key(made.number), encode("backup", whole))
        failpoint("backup.done")
        if last is not None:
            objects.delete([_key(number) for number in range(max(1, last.number - 1), last.number)])
            tidy(objects)
    return made


def _begin(objects: Objects, of: str, crawl: CrawlPartitions) -> Whole | None:
    """Check that the bucket is for backups of this job or crawl, remove the leftovers of an interrupted backup, and
    return the last complete backup."""
    found = read_crawl(objects, "use an empty prefix")
    check_objects(objects)
    if found is None:
        found = CrawlObject.new(of)
        if not put_own(objects, CRAWL, encode("crawl", found)):
            raise BucketError(f"another process is starting a backup in {objects.address}: run only one at a time")
    if not found.of:
        raise BucketError(f"{objects.address} holds a crawl: give another address for its backup")
    last = _newest(objects)
    if found.of != of:
        name = "" if last is None else f" ({last.source})"
        raise BucketError(f"{objects.address} holds a backup of another job{name}: give another address")
    number = 0 if last is None else last.number
    for partition in crawl.found:
        places = [place for place in snapshots(objects, partition.number) if place[0] > number]
        objects.delete([snapshot_key(partition.number, *place) for place in places])
    return last


def _add(made: BackedUp, objects: Objects, partition: int, job: Path, take: Callable[[Path], None], now: float) -> None:
    """Store the snapshot of one partition."""
    if (job / REPAIRED).exists():
        raise BucketError(f"{job}: {BROKEN_OFF}")
    written = Snapshots(objects, partition, made.number)
    try:
        take(job)
        failpoint("backup.taken")
        snapshot = written.write(Held(job / SNAPSHOT, job), now)
    finally:
        remove_snapshot(job)
    made.written += written.pieces.written
    made.bytes += written.pieces.bytes
    made.size += snapshot.size
    made.urls_admitted += snapshot.urls_admitted
    made.urls_pending += snapshot.urls_pending


def _key(number: int) -> str:
    return f"backup/{number:08}"


def _newest(objects: Objects) -> Whole | None:
    keys = sorted((each.key for each in objects.list("backup/")), reverse=True)
    return next((found for key in keys if (found := read(objects, key, Whole)) is not None), None)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Lock the job. Raises BucketError if another process is backing it up."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BucketError(f"another backup of {directory} is in progress") from None
        yield
    finally:
        os.close(fd)


def restore_crawl(
    source: str, directory: Path, needed: Callable[[str], bool] = every_file, *, to_look: bool = False
) -> list[Restored]:
    """Restore a job or crawl into ``directory``, which must be missing or empty, from a backup or from the current
    state of a crawl in a bucket; the bucket is not changed. ``needed``: see ``Wanted``. With ``to_look``, the copy will
    only be read, so its partitions may be from slightly different times. The directory holds no crawl until everything
    is restored; an interrupted restoration can be run again. Raises BucketError (including when a crawl in partitions
    runs meanwhile), BucketDown, JobError, OSError."""
    objects = bucket_at(source, reading=True)
    found, last = read_crawl(objects), _newest(objects)
    shape = read_shape(objects)[1] if last is None else None
    if found is None or (last is None and shape is None and newest_snapshot(objects, 0) is None):
        raise BucketError(f"{objects.address} holds no backup and no crawl: correct the address")
    if holds_job(directory) or holds_crawl(directory):
        raise BucketError(f"{directory} holds a crawl: give an empty directory")
    if not (directory / RESTORING).exists():  # of an interrupted restoration
        check_vacant(directory, [PARTITIONS])
    check_apart(directory, objects.address)
    disk, sealing = RealDisk(), found.sealing
    if shape is not None:
        return restore_partitions(objects, found, shape.file, directory, Wanted(needed=needed), to_look=to_look)
    if last is None and not standing(objects, 0).epoch:
        raise BucketError(f"{objects.address} holds no backup: the first one was interrupted; make it again")
    wanted = Wanted(None if last is None else last.number, needed)
    if last is None or not last.crawl:
        return [restore(objects, sealing, 0, directory, disk, wanted)]
    made = []
    make_directory(directory / PARTITIONS, disk)
    for number in last.partitions:
        job = partition_directory(directory, number)
        if holds_job(job):
            continue  # already restored by a restoration that was interrupted
        made.append(restore(objects, sealing, number, job, disk, wanted))
    replace_file(disk, directory / CRAWL_FILE, last.crawl.encode("utf-8"))
    return made
