"""The lock of a job directory: only one process writes a job.

DIR/lock    locked (flock) by the process that writes the job; contains its pid

``at_rest`` keeps a partitioned crawl stopped while several of its partitions are changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crawler.base.disk import PRIVATE_FILE
from crawler.job.crawl_file import holds_crawl, partition_directories
from crawler.job.directory import JobError

LOCK = "lock"
_LOCK_TRIES = 20
_LOCK_PAUSE = 0.05  # seconds
_held: set[int] = set()  # descriptors of the locks held by this process


def _leave() -> None:
    """Close the locks in a forked child, for example of user code, so that they are released when the parent ends."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_leave)


def locked(path: Path, flags: int = 0) -> int | None:
    """Lock the file, and return its descriptor; None if another process holds the lock or the file is gone.

    Only this process, not a forked child, holds the lock, until ``unlock`` is called or the process ends. ``flags`` are
    additional flags of ``os.open``. Raises OSError; with ``os.O_CREAT`` also if the directory is gone."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, PRIVATE_FILE)
    except FileNotFoundError:
        if flags & os.O_CREAT:
            raise
        return None
    _held.add(fd)
    try:
        if _locked(fd) and os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
    except FileNotFoundError:
        pass
    except BaseException:
        unlock(fd)
        raise
    unlock(fd)
    return None


def unlock(fd: int) -> None:
    """Release a lock returned by ``locked``; does nothing in a forked child, which does not hold it."""
    if fd in _held:
        _held.remove(fd)
        os.close(fd)


class JobLock:
    """The lock that a process holds while it writes to the job. The kernel releases it when the process ends, even by a
    crash."""

    def __init__(self, directory: Path, pause: Callable[[float], None] = time.sleep) -> None:
        """Take the lock. Raises JobError if another process holds it, OSError if the file cannot be written.

        Tries for a second, because ``lock_holder`` also takes the lock for a moment. ``pause`` sleeps between tries."""
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            self._take(fd, directory, pause)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        _held.add(fd)

    def _take(self, fd: int, directory: Path, pause: Callable[[float], None]) -> None:
        for _ in range(_LOCK_TRIES):
            if _locked(fd):
                break
            pause(_LOCK_PAUSE)
        else:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            raise JobError(
                f"{directory} is in use by process {holder or 'unknown'}: stop that process first", new_job=True
            )
        # Write before truncating, because a full disk might not give back a block that was just freed.
        os.ftruncate(fd, os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0))

    def release(self) -> None:
        fd, self._fd = self._fd, -1  # a second call must not close a descriptor that has been reused
        unlock(fd)


def _locked(fd: int) -> bool:
    """Take the lock if it is free; return False if it is not."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Mark an existing file as in use (``is_in_use``) during the block. Any number of processes may do so at once.
    Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    _held.add(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)  # blocks only for the moment in which another process checks the file
        yield
    finally:
        unlock(fd)


def is_in_use(path: Path) -> bool:
    """True if any process has the file in use. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not _locked(fd)
    finally:
        os.close(fd)


def lock_holder(directory: Path) -> int | None:
    """Return the pid of the process that writes the job (0: unknown), or None if no process does. Raises OSError."""
    try:
        fd = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(fd, 32, 0).strip()
        return int(text) if text.isdigit() else 0
    else:
        return None
    finally:
        os.close(fd)


@contextmanager
def at_rest(directory: Path) -> Iterator[None]:
    """Prevent processes from starting the crawl in this context. Does nothing for an unpartitioned job, which has its
    own lock. Raises JobError, with nothing changed, if a process runs the crawl or one of its partitions."""
    if not holds_crawl(directory):
        yield
        return
    try:
        lock = JobLock(directory)
    except OSError as error:
        raise JobError(f"cannot use crawl directory {directory}: {error.strerror}") from error
    try:
        for partition in partition_directories(directory):
            if (holder := lock_holder(partition)) is not None:
                raise JobError(f"{partition} is in use by process {holder or 'unknown'}: stop the crawl first")
        yield
    finally:
        lock.release()
