"""Makes a replica the partition, and a partition a replica, durably.

DIR/partitions/07   the partition, if it is at home here
DIR/replicas/07     a replica of it, if it is at home elsewhere
DIR/begun/07        there while the partition is at home here: see ``crawl_file``

Each is one rename, so a process that is killed leaves one or the other. What does not fit the home of the partition
then is done again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from crawler.base.disk import Disk, make_private_directory
from crawler.job.crawl_file import BEGUN, note_begun, partition_directory
from crawler.job.directory import JobError, holds_job
from crawler.job.former import is_former, life_there, set_aside
from crawler.job.job_lock import JobLock

REPLICAS = "replicas"
GONE = ".gone"  # what is being removed


def replica_directory(directory: Path, number: int) -> Path:
    """The directory of the replica of a partition."""
    return directory / REPLICAS / f"{number:02}"


def promote(disk: Disk, directory: Path, number: int) -> bool:
    """Make the replica the partition. Nobody has it open. False if another process does so. Raises JobError if there
    is something else in its place, OSError."""
    source, target = replica_directory(directory, number), partition_directory(directory, number)
    if not holds_job(source):
        return holds_job(target)
    if holds_job(target):
        raise JobError(f"{target} is there, and {source}, which is to take its place: remove the one that is older")
    make_private_directory(target.parent, exist_ok=True)
    if target.exists():
        _remove(disk, target)
    if not _moved(disk, source, target):
        return False
    note_begun(disk, directory, number)
    return True


def demote(disk: Disk, directory: Path, number: int) -> bool:
    """Make the partition a replica, in place of an older one: its home is elsewhere now. False if a process has it
    open. Raises OSError."""
    source, target = partition_directory(directory, number), replica_directory(directory, number)
    if not source.is_dir():
        return True
    with _leaving(disk, directory, number) as is_free:
        if not is_free:
            return False
        remove_replica(disk, directory, number, life_there(source))
        make_private_directory(target.parent, exist_ok=True)
        return _moved(disk, source, target)


def set_partition_aside(disk: Disk, directory: Path, number: int) -> Path | None:
    """Keep the partition, which began anew elsewhere, under another name, and return that; None if it is not there, or
    a process has it open. Raises OSError."""
    source, replica = partition_directory(directory, number), replica_directory(directory, number)
    if not holds_job(source):
        return None
    with _leaving(disk, directory, number) as is_free:
        if not is_free:
            return None
        make_private_directory(replica.parent, exist_ok=True)
        return set_aside(disk, source, replica)


@contextlib.contextmanager
def _leaving(disk: Disk, directory: Path, number: int) -> Iterator[bool]:
    """A context in which the partition, whose home is elsewhere now, is taken away. Whether it can be: a process may
    have it open. Raises OSError."""
    try:
        lock = JobLock(partition_directory(directory, number), lambda _: None)
    except JobError:
        yield False
        return
    try:
        mark = directory / BEGUN / f"{number:02}"
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(mark)
            disk.sync_directory(mark.parent)
        yield True
    finally:
        lock.release()


def remove_replica(disk: Disk, directory: Path, number: int, life: int) -> Path | None:
    """Remove the replica of a partition, if there is one. Of another life of the partition than that, it is kept under
    another name, which is returned. Raises OSError."""
    path = replica_directory(directory, number)
    if is_former(path, life):
        return set_aside(disk, path, path)
    _remove(disk, path)
    return None


def replicas_here(directory: Path) -> list[int]:
    """The partitions of which replicas are there. Raises OSError."""
    try:
        return sorted(int(path.name) for path in (directory / REPLICAS).iterdir() if path.name.isdecimal())
    except FileNotFoundError:
        return []


def _moved(disk: Disk, source: Path, target: Path) -> bool:
    try:
        disk.move(source, target)
    except FileNotFoundError:
        return False  # another process has done it
    for parent in (target.parent, source.parent):
        disk.sync_directory(parent)
    return True


def _remove(disk: Disk, path: Path) -> None:
    gone = path.with_name(path.name + GONE)
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        disk.move(path, gone)
        disk.sync_directory(path.parent)
    shutil.rmtree(gone, ignore_errors=True)
