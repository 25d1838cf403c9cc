"""The file operations that durable parts use, and the ways in which they can fail.

Every byte that a job writes outside RocksDB goes through a ``Disk``. ``RealDisk`` is the operating system.
``FaultyDisk`` (in the tests) replaces it: it forgets unsynced data, tears writes, and fails on demand.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import os
import signal
import stat
from collections.abc import Collection
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from crawler.base.named_stream import Naming

log = logging.getLogger("crawler")

# The only disk errors that may be transient: they end when there is space again.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# A full disk pauses the crawl, and a missing directory ends it: the crawl reports both itself.
_TOLD_BY_CRAWL = FULL | {errno.ENOENT}
# Transient errors: a failed operation succeeds when it is retried later.
PASSING = FULL | {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def no_room(error: OSError) -> str:
    """Return the text of an error in ``FULL``.

    It contains no file name, because the dashboard shows the text and the name would be a path of this machine.
    """
    return os.strerror(error.errno or errno.ENOSPC)


class Expendable:
    """Files that nothing depends on.

    As a context manager it catches every OSError that is raised in its block, and reports only the first of several
    failures in a row. It does not report a full disk or a missing directory, because the crawl does that itself.
    """

    def __init__(self, name: str) -> None:
        """``name`` identifies the files in messages."""
        self._name = name
        self._fails = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self.succeed()
        elif isinstance(error, OSError):
            self.fail(error)
            return True
        return False

    def succeed(self) -> None:
        """Record a success, so that the next failure is reported again."""
        self._fails = False

    def fail(self, error: OSError) -> None:
        """Report a failure that was caught elsewhere."""
        if not self._fails and error.errno not in _TOLD_BY_CRAWL:
            self._fails = True
            log.warning("%s: %s; the crawl continues without it", self._name, error.strerror or error)


# -- opening files ---------------------------------------------------------------------------------------------------
# Files named in the configuration are opened without ever blocking (opening a pipe blocks until there is a writer, and
# a device may have no end). Files that the program creates can be read only by their owner.


def check_regular(path: Path) -> None:
    """Raise OSError, without waiting for anything, unless the path names a regular file."""
    _check(os.stat(path).st_mode, path)


def read_regular(path: Path, most: int = -1) -> bytes:
    """Return the content of a regular file, or its first ``most`` bytes. Raises OSError at once for anything else."""
    with open_regular(path) as stream:
        return stream.read(most)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError at once for anything else."""
    check_regular(path)  # check before opening the file, because opening a pipe would wake its writer
    stream = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 (for the caller)
    try:
        _check(os.fstat(stream.fileno()).st_mode, path)  # the file may have been replaced since the first check
    except OSError:
        stream.close()
        raise
    return stream


def _check(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


# A job contains the secret of its digests, the user's pages, and private addresses. Files and directories that the
# program creates in it are therefore private, regardless of the umask. To share a job, its user changes the modes.
PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def make_private_directory(path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
    """Create a directory and, with ``parents``, its parents with their usual mode.

    The mode of an existing directory is not changed. Raises OSError.
    """
    path.mkdir(PRIVATE_DIRECTORY, parents=parents, exist_ok=exist_ok)


def private_opener(path: str, flags: int) -> int:
    """The ``opener`` of ``open`` for a file that may have to be created."""
    return os.open(path, flags, PRIVATE_FILE)


# -- crash points ----------------------------------------------------------------------------------------------------
# Named points at which a test may kill the program, to check that nothing is lost there: ``CRAWLER_CRASH_AT=name`` or
# ``name:n`` in the environment kills the process (SIGKILL, as from outside) when it reaches the point for the first or
# n-th time. ``name:n:SIGTERM`` sends another signal. Without the variable, a point costs one function call.
CRASH_AT = "CRAWLER_CRASH_AT"
_at, _left, _number = "", 1, signal.SIGKILL


def plan_crash() -> None:
    """Read from the environment where to die."""
    global _at, _left, _number  # noqa: PLW0603  # the process, not an object, dies after this many passes
    _at, times, name = (*os.environ.get(CRASH_AT, "").split(":", 2), "", "")[:3]
    _left = int(times) if times.isdecimal() else 1
    _number = signal.Signals[name or "SIGKILL"]


plan_crash()


def failpoint(name: str) -> None:
    """Mark a crash point. If the environment names this point, kill the process or send it the signal."""
    global _left  # noqa: PLW0603  # as above
    if name == _at:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), _number)


# -- the files of a job ----------------------------------------------------------------------------------------------

# Errors of file systems that cannot hard-link a file; it can be copied instead.
CANNOT_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS})
_MANY = 8  # from this many files on, syncing the file system is faster: each fsync flushes the disk
_LIBC = ctypes.CDLL(None, use_errno=True)


class Place(Enum):
    """The location of an open file, relative to the path by which it was opened."""

    THERE = auto()
    MOVED = auto()  # it has a different name now
    REMOVED = auto()  # it has no name: its bytes vanish when the process closes it
    REPLACED = auto()  # the path names another file


class DisplacedError(OSError):
    """Raised when another program moved, removed or changed a file while it was being written.

    The text is one line for the user.
    """


class DiskFile:
    """An open file, addressed by offset. All methods raise OSError."""

    def __init__(self, path: Path, flags: int) -> None:
        self._name = str(path)  # the name for errors: system calls on an open file leave it out
        self._fd = os.open(path, flags | os.O_CLOEXEC, PRIVATE_FILE)
        self._appends = False  # while this is set, Linux writes at the end, regardless of the offset

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to ``size`` bytes; fewer only at the end of the file."""
        pieces: list[bytes] = []
        with Naming(self._name):
            while size > 0 and (piece := os.pread(self._fd, size, offset)):
                pieces.append(piece)
                size -= len(piece)
                offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pwrite(self, data: bytes, offset: int) -> None:
        """Write all of ``data``, or raise. Bytes written before the error stay."""
        with Naming(self._name):
            self._set_appending(False)
            written = os.pwrite(self._fd, data, offset)
            while written < len(data):
                written += os.pwrite(self._fd, data[written:], offset + written)

    def append(self, data: bytes) -> int:
        """Write all of ``data`` at the current end of the file, or raise. Returns the new end."""
        with Naming(self._name):
            self._set_appending(True)
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
            return os.lseek(self._fd, 0, os.SEEK_CUR)

    def _set_appending(self, appends: bool) -> None:
        if appends is not self._appends:
            flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
            fcntl.fcntl(self._fd, fcntl.F_SETFL, flags | os.O_APPEND if appends else flags & ~os.O_APPEND)
            self._appends = appends

    def truncate(self, size: int) -> None:
        with Naming(self._name):
            os.ftruncate(self._fd, size)

    def place(self, path: Path) -> Place:
        """Return where the file is now: still at this path, moved, replaced or removed."""
        mine = os.fstat(self._fd)
        if is_at(mine, path):
            return Place.THERE
        if path.exists():
            return Place.REPLACED
        return Place.MOVED if mine.st_nlink else Place.REMOVED

    def hole(self, end: int) -> int | None:
        """Return the start of the first hole before ``end`` that the file system knows of. A hole is a range of bytes
        that were cut off before later bytes were written, or that never reached the disk."""
        if end == 0:
            return None
        start = os.lseek(self._fd, 0, os.SEEK_HOLE)  # the end of the file counts as a hole
        return start if start < end else None

    def sync(self) -> None:
        """Make the file's bytes durable (fsync)."""
        with Naming(self._name):
            os.fsync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1  # the descriptor may be reused for another file, which later calls must not touch
        os.close(fd)


def is_at(file: os.stat_result, path: Path) -> bool:
    """Return True if the path names the file or directory. Raises OSError if the path cannot be examined."""
    try:
        return os.path.samestat(file, os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


class RealDisk:
    """Files and directory entries. All methods raise OSError."""

    def open(self, path: Path, *, create: bool = False) -> DiskFile:
        """Open for reading and writing. With ``create``, the file is created if it does not exist."""
        return DiskFile(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file, replacing the one at ``target``."""
        os.replace(source, target)

    def move(self, source: Path, target: Path) -> None:
        """Rename a file or directory into another directory of the same file system. The name must be free there."""
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Create a hard link to a file."""
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def sync_file(self, path: Path) -> None:
        """Make the bytes of a file durable that was not written through this ``Disk``."""
        _sync(path, os.O_RDONLY)

    def sync_directory(self, path: Path) -> None:
        """Make the directory's entries durable."""
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_many(self, top: Path, files: Collection[Path], directories: Collection[Path]) -> None:
        """Make the bytes of these files and the entries of these directories durable.

        All of them must be ``top`` or below it, on the same file system.
        """
        if len(files) + len(directories) < _MANY or not hasattr(_LIBC, "syncfs"):
            for file in files:
                self.sync_file(file)
            for directory in directories:
                self.sync_directory(directory)
            return
        for path in (*files, *directories):
            os.stat(path)  # raises OSError if it is missing
        fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _LIBC.syncfs(fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(top))
        finally:
            os.close(fd)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        with Naming(str(path)):
            os.fsync(fd)
    finally:
        os.close(fd)


Disk = RealDisk  # tests and simulations substitute their own


class ReadingDisk(RealDisk):
    """Opens files for reading only."""

    def open(self, path: Path, *, create: bool = False) -> DiskFile:
        return DiskFile(path, os.O_RDONLY)


class Appender:
    """Writes a file from its start to its end, for codecs that need a stream."""

    def __init__(self, file: DiskFile) -> None:
        self._file = file
        self._at = 0

    def write(self, data: bytes) -> int:
        self._file.pwrite(data, self._at)
        self._at += len(data)
        return len(data)


def replace_file(disk: Disk, path: Path, data: bytes, point: str | None = None) -> None:
    """Write the file so that after a crash it has either its complete old content or its complete new content.

    ``point`` is the crash point between writing and renaming it.
    """
    part = path.with_name(path.name + ".part")
    write_file(disk, part, data)
    if point is not None:
        failpoint(point)
    disk.replace(part, path)
    disk.sync_directory(path.parent)


def write_file(disk: Disk, path: Path, data: bytes) -> None:
    """Write the file's bytes and make them durable. The file's name is not yet durable."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    finally:
        file.close()
