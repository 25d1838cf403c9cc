"""The seam between the durable parts and the operating system: every byte that a job writes outside RocksDB goes
through a ``Disk``.

``RealDisk`` is the operating system. ``FaultyDisk`` (in ``disk.faulty``) is its double for tests: it forgets what was
not synced, tears writes, and fails on demand.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from crawler.disk.failpoints import failpoint


class DiskFile(Protocol):
    """An open file, addressed by offset. All methods raise OSError."""

    def size(self) -> int: ...

    def pread(self, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""

    def pwrite(self, data: bytes, offset: int) -> None:
        """Write all of it, or raise; what was written before the error stays."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Make the file's bytes durable (fsync)."""

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and directory entries. All methods raise OSError."""

    def open(self, path: Path, *, create: bool = False) -> DiskFile:
        """For reading and writing; with ``create`` the file is made if it is not there."""

    def replace(self, source: Path, target: Path) -> None:
        """Rename, over what stands at ``target``."""

    def move(self, source: Path, target: Path) -> None:
        """Rename a file or directory into another directory of the same file system, where nothing has that name."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""

    def unlink(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Make the directory's entries durable."""


class RealFile:
    """A file of the operating system."""

    def __init__(self, path: Path, flags: int) -> None:
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, size: int, offset: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0 and (piece := os.pread(self._fd, size, offset)):
            pieces.append(piece)
            size -= len(piece)
            offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pwrite(self, data: bytes, offset: int) -> None:
        written = os.pwrite(self._fd, data, offset)
        while written < len(data):
            written += os.pwrite(self._fd, data[written:], offset + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class RealDisk:
    """The operating system."""

    def open(self, path: Path, *, create: bool = False) -> RealFile:
        return RealFile(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def move(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class Appender:
    """A file as something that is written from its start to its end; what codecs of streams want."""

    def __init__(self, file: DiskFile) -> None:
        self._file = file
        self._at = 0

    def write(self, data: bytes) -> int:
        self._file.pwrite(data, self._at)
        self._at += len(data)
        return len(data)


def replace_file(disk: Disk, path: Path, data: bytes, point: str | None = None) -> None:
    """Write the file so that after a crash it is the old one or the new one, whole. ``point`` is the crash point
    between writing and renaming it."""
    part = path.with_name(path.name + ".part")
    write_file(disk, part, data)
    if point is not None:
        failpoint(point)
    disk.replace(part, path)
    disk.sync_directory(path.parent)


def write_file(disk: Disk, path: Path, data: bytes) -> None:
    """Write the file's bytes and make them, not yet its name, durable."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    finally:
        file.close()
