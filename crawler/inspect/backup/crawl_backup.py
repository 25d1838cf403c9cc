"""Makes a backup of a crawl of partitions, and a crawl of a backup.

    TO/crawl.json       as in the directory of the crawl
    TO/homes.json       as there, if it is there
    TO/partitions/07/   the backup of partition 7
    TO/unfinished       there until all of them are of one moment

A link that one partition has sent and the other has not received yet is in neither of two copies that are made at
different moments. So no partition may run, and a backup that was interrupted cannot be restored until it was made
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from crawler.base.disk import RealDisk, make_private_directory, replace_file
from crawler.inspect.backup.back_up import BackedUp, back_up, check_apart
from crawler.inspect.backup.layout import BackupError
from crawler.inspect.backup.restoration import Restored, restore
from crawler.inspect.crawl_partitions import CrawlPartitions, Partition, crawl_partitions, whole_job
from crawler.job.crawl_file import (
    CRAWL,
    PARTITIONS,
    CrawlFile,
    encode_crawl,
    holds_crawl,
    partition_directory,
    read_crawl_file,
)
from crawler.job.directory import IDENTITY, PAGES, RESTORING, check_vacant, holds_job
from crawler.job.history_file import HISTORY
from crawler.job.home_register import read_homes, write_homes
from crawler.job.job_lock import lock_holder
from crawler.job.run_settings import RUN

UNFINISHED = "unfinished"
_Mark = dict[Path, tuple[int, int]]


def back_up_crawl(directory: Path, to: Path, take: Callable[[Path], None], now: float) -> Iterator[BackedUp]:
    """Make or update the backup of a job or a crawl in ``to``; yield that of each partition. ``take(job)`` has the
    snapshot of that job made. ``now`` is in seconds since 1970. Raises BackupError, JobError and OSError."""
    if not holds_crawl(directory):
        yield back_up(directory, to, partial(take, directory), now)
        return
    crawl, content, disk = crawl_partitions(directory), read_crawl_file(directory), RealDisk()
    check_apart(directory, to)
    _check_at_rest(crawl)
    _check_target(to, content)
    marks = _marks(crawl)
    make_private_directory(to, parents=True, exist_ok=True)
    (to / UNFINISHED).touch()
    make_private_directory(to / PARTITIONS, exist_ok=True)
    replace_file(disk, to / CRAWL, encode_crawl(content))
    _copy_homes(directory, to, disk)
    for partition in crawl.found:
        with partition.named():
            job = partition.directory
            yield back_up(job, partition_directory(to, partition.number), partial(take, job), now)
    _check_at_rest(crawl)
    if _marks(crawl_partitions(directory)) != marks:
        raise BackupError(f"{directory} was in use meanwhile: stop the crawl and make the backup again")
    (to / UNFINISHED).unlink()
    disk.sync_directory(to)


def _copy_homes(source: Path, to: Path, disk: RealDisk) -> None:
    homes = read_homes(source)
    if homes:
        write_homes(disk, to, homes)


def _check_at_rest(crawl: CrawlPartitions) -> None:
    running = [partition for partition in crawl.found if lock_holder(partition.directory) is not None]
    if running:
        raise BackupError(
            f"partition {running[0].number:02} of {crawl.directory} runs: stop the crawl first, because copies of its "
            "partitions from different moments lack the links between them"
        )


def _marks(crawl: CrawlPartitions) -> _Mark:
    """What differs after every run of a partition."""
    found: _Mark = {}
    for partition in crawl.found:
        for name in (IDENTITY, RUN, HISTORY, PAGES):
            path = partition.directory / name
            if path.exists():
                found[path] = path.stat().st_mtime_ns, path.stat().st_size
    return found


def _check_target(to: Path, crawl: CrawlFile) -> None:
    """Raise BackupError unless the directory is missing, empty or holds a backup of that crawl."""
    if not to.exists() or (to.is_dir() and not any(to.iterdir())):
        return
    if not to.is_dir() or not holds_crawl(to) or read_crawl_file(to).id != crawl.id or holds_job_of(to):
        raise BackupError(f"{to} is neither empty nor a backup of this crawl: name another directory")


def holds_job_of(to: Path) -> bool:
    """Whether the directory is that of a crawl, and no backup of one."""
    return any(holds_job(path) for path in (to / PARTITIONS).glob("*"))


def restore_crawl(top: Path, directory: Path) -> Iterator[tuple[Partition, Restored]]:
    """Make a job or a crawl in ``directory``, which must be missing or empty, from the backup in ``top``; yield each
    partition. Until all are there, the directory holds no crawl; an interrupted restoration can be run again. Raises
    BackupError, JobError and OSError."""
    if not holds_crawl(top):
        yield whole_job(directory), restore(top, directory)
        return
    content, disk = read_crawl_file(top), RealDisk()
    if (top / UNFINISHED).exists():
        raise BackupError(f"{top}: the last backup was interrupted here: make it again")
    if holds_job_of(top):
        raise BackupError(f"{top} holds a crawl, and no backup of one: name a directory that `crawler backup` has made")
    if not (directory / RESTORING).exists():
        if holds_crawl(directory):
            raise BackupError(f"{directory} holds a crawl: name a missing or empty directory")
        check_vacant(directory)
    make_private_directory(directory, parents=True, exist_ok=True)
    (directory / RESTORING).touch()
    make_private_directory(directory / PARTITIONS, exist_ok=True)
    for path in sorted((top / PARTITIONS).iterdir()):
        job = directory / PARTITIONS / path.name
        if not holds_job(job) or (job / RESTORING).exists():
            yield Partition(int(path.name), job), restore(path, job)
    _copy_homes(top, directory, disk)
    replace_file(disk, directory / CRAWL, encode_crawl(content))
    (directory / RESTORING).unlink()
    disk.sync_directory(directory)
