"""A disk that fails or loses power, which tests use to break the durable parts.

The double writes through to a real directory, so that a reader sees what a process would see. Beside it, it keeps what
would survive: for each file the bytes of its last sync and the writes since; for each directory the entries of its last
sync and the changes since. ``lose_power`` turns the directory into one of the states that a file system may leave: any
unsynced write of a file may be missing, whole or in part, whatever came after it; unsynced changes of a directory may
be missing too.

It is made for the few small files of a test, and keeps them all in memory.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Collection
from pathlib import Path

from msgspec import Struct, field

from crawler.base.disk import DiskFile, Place, RealDisk


class _Inode(Struct):
    """The bytes of a file at its last sync, and the changes since: (offset, data) or (size, None)."""

    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def survivor(self, chance: random.Random) -> bytes:
        data = bytearray(self.synced)
        for offset, written in self.pending:
            fate = chance.random()
            if written is None:
                if fate < 0.5:
                    data[offset:] = b""
                continue
            kept = written if fate < 0.4 else written[: chance.randrange(len(written) + 1)] if fate < 0.8 else b""
            if kept:
                data.extend(bytes(max(0, offset - len(data))))
                data[offset : offset + len(kept)] = kept
        return bytes(data)

    def current(self) -> bytes:
        data = bytearray(self.synced)
        for offset, written in self.pending:
            if written is None:
                del data[offset:]
            else:
                data.extend(bytes(max(0, offset - len(data))))
                data[offset : offset + len(written)] = written
        return bytes(data)


class _Directory(Struct):
    """The entries of a directory at its last sync, and the changes since: name -> inode, or None for a removed name."""

    synced: dict[str, _Inode] = field(default_factory=dict)
    current: dict[str, _Inode] = field(default_factory=dict)
    pending: list[dict[str, _Inode | None]] = field(default_factory=list)


class Fault(Struct, frozen=True):
    """The ``number``-th call (from 1) of an operation fails, and with ``lasting`` all later ones too.

    ``operation`` is one of open, pread, pwrite, truncate, sync, replace, move, link, unlink, sync_file, sync_directory.
    A failing pwrite writes a part of its data."""

    operation: str
    number: int
    error: int = errno.EIO
    lasting: bool = False


class PowerCutError(BaseException):
    """The power is cut: nothing of the process survives. Not an Exception, so that nobody can handle it."""


class FaultyDisk:
    """The double. It takes existing files for durable as they are."""

    def __init__(self, chance: random.Random, *faults: Fault, cut_after: int | None = None) -> None:
        """``cut_after``: the power is cut at the call with that number, whatever it is."""
        self._chance = chance
        self._real = RealDisk()
        self._directories: dict[Path, _Directory] = {}
        self._calls: dict[str, int] = {}
        self._cut_after = cut_after
        self.faults = list(faults)

    # -- the interface -----------------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> DiskFile:
        self.meet("open")
        directory = self._directory(path.parent)
        inode = directory.current.get(path.name)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            inode = _Inode()
            self._change(directory, {path.name: inode})
        return _FaultyFile(self, inode, self._real.open(path, create=create))

    def replace(self, source: Path, target: Path) -> None:
        self.meet("replace")
        directory = self._directory(source.parent)
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, "the double renames within a directory only")
        inode = directory.current.get(source.name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        self._real.replace(source, target)
        self._change(directory, {target.name: inode, source.name: None})

    def move(self, source: Path, target: Path) -> None:
        """Move a file or directory. The move of a directory counts as durable at once; the two names of a file become
        durable one by one."""
        self.meet("move")
        if source.is_dir():
            self._real.move(source, target)
            for known in [path for path in self._directories if source in (path, *path.parents)]:
                del self._directories[known]
            return
        left, entered = self._directory(source.parent), self._directory(target.parent)
        self._real.move(source, target)
        self._change(entered, {target.name: left.current[source.name]})
        self._change(left, {source.name: None})

    def link(self, source: Path, target: Path) -> None:
        self.meet("link")
        inode, entered = self._directory(source.parent).current[source.name], self._directory(target.parent)
        self._real.link(source, target)
        self._change(entered, {target.name: inode})

    def unlink(self, path: Path) -> None:
        self.meet("unlink")
        self._real.unlink(path)
        self._change(self._directory(path.parent), {path.name: None})

    def sync_file(self, path: Path) -> None:
        self.meet("sync_file")
        inode = self._directory(path.parent).current[path.name]
        inode.synced = path.read_bytes()
        inode.pending.clear()

    def sync_directory(self, path: Path) -> None:
        self.meet("sync_directory")
        directory = self._directory(path)
        directory.synced = dict(directory.current)
        directory.pending.clear()

    def sync_many(self, top: Path, files: Collection[Path], directories: Collection[Path]) -> None:
        for file in files:
            self.sync_file(file)
        for directory in directories:
            self.sync_directory(directory)

    # -- breaking it -------------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """Leave on the real disk what might have survived. The double then forgets everything: make a new one."""
        for path, directory in self._directories.items():
            entries = dict(directory.synced)
            # A journalling file system may lose a tail of the unsynced changes, or all of them, but never a middle one
            # whose successor has the same name.
            for change in directory.pending[: self._chance.randrange(len(directory.pending) + 1)]:
                for name, inode in change.items():
                    if inode is None:
                        entries.pop(name, None)
                    else:
                        entries[name] = inode
            for name in directory.current:
                (path / name).unlink(missing_ok=True)
            for name, inode in entries.items():
                (path / name).write_bytes(inode.survivor(self._chance))

    def meet(self, operation: str) -> Fault | None:
        """Count the call, and raise if it is to fail. The fault of a pwrite is returned, because a part is written
        first."""
        if self._cut_after is not None:
            self._cut_after -= 1
            if self._cut_after < 0:
                raise PowerCutError
        number = self._calls[operation] = self._calls.get(operation, 0) + 1
        for fault in self.faults:
            if fault.operation == operation and (number == fault.number or (fault.lasting and number > fault.number)):
                if operation == "pwrite":
                    return fault
                raise OSError(fault.error, os.strerror(fault.error))
        return None

    def torn(self, data: bytes) -> bytes:
        """Return the part of a failing write that reached the file."""
        return data[: self._chance.randrange(len(data) + 1)]

    def _directory(self, path: Path) -> _Directory:
        known = self._directories.get(path)
        if known is None:
            entries = {e.name: _Inode(e.read_bytes()) for e in path.iterdir() if e.is_file()}
            known = self._directories[path] = _Directory(dict(entries), dict(entries))
        return known

    def _change(self, directory: _Directory, change: dict[str, _Inode | None]) -> None:
        directory.pending.append(change)
        for name, inode in change.items():
            if inode is None:
                directory.current.pop(name, None)
            else:
                directory.current[name] = inode


class _FaultyFile:
    def __init__(self, disk: FaultyDisk, inode: _Inode, real: DiskFile) -> None:
        self._disk = disk
        self._inode = inode
        self._real = real
        self.close: Callable[[], None] = real.close

    def size(self) -> int:
        return self._real.size()

    def pread(self, size: int, offset: int) -> bytes:
        self._disk.meet("pread")
        return self._real.pread(size, offset)

    def pwrite(self, data: bytes, offset: int) -> None:
        fault = self._disk.meet("pwrite")
        reached = data if fault is None else self._disk.torn(data)
        self._inode.pending.append((offset, reached))
        self._real.pwrite(reached, offset)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error))

    def append(self, data: bytes) -> int:
        offset = self._real.size()
        self.pwrite(data, offset)
        return offset + len(data)

    def place(self, path: Path) -> Place:
        return self._real.place(path)

    def hole(self, end: int) -> int | None:
        return self._real.hole(end)

    def truncate(self, size: int) -> None:
        self._disk.meet("truncate")
        self._inode.pending.append((size, None))
        self._real.truncate(size)

    def sync(self) -> None:
        try:
            self._disk.meet("sync")
        except OSError:
            # What could not be written is dropped and taken for clean: it can be read, and the next sync skips it.
            self._inode.pending.clear()
            raise
        self._inode.synced = self._inode.current()
        self._inode.pending.clear()
