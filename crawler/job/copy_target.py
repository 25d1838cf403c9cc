"""Receives the copy of a job that is to become a replica: ``replicas/07``.

Until it is whole and durable it has the name ``07.new``, and nobody takes it for a replica. The process that begins to
follow removes what it finds under that name: the copy begins again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from crawler.base.disk import Disk, DiskFile, failpoint, make_private_directory
from crawler.job.crawl_file import PARTITIONS
from crawler.job.directory import make_directory
from crawler.job.former import is_former, life_there, set_aside
from crawler.job.replica.copy_pieces import CopyBegin, CopyEnd, CopyError, FilePart, Piece
from crawler.job.replica_moves import GONE, REPLICAS
from crawler.job.snapshot import remove_tree

NEW = ".new"
OLD = ".old"
SPOOL = ".spool"
_SYNC_FILES = 4_096  # files that are written before they are synced together ...
_SYNC_BYTES = 64 * 2**20  # ... and bytes: a disk that is far behind would hold up the end of the copy, and the crawl


def clear_copies(directory: Path) -> None:
    """Remove what copies and moves of partitions left in the directory of a crawl that were broken off by the end of
    their process. No process works with the directory. Raises OSError."""
    for place, suffixes in ((REPLICAS, (NEW, OLD, SPOOL, GONE)), (PARTITIONS, (GONE,))):
        for path in (directory / place).iterdir() if (directory / place).is_dir() else ():
            if path.suffix in suffixes:
                remove_tree(path)


class CopyTarget:
    """A copy that comes in, message by message. All methods wait for the disk. ``index``: pieces that are written;
    ``former``: where is kept what was in its place, if that was of another life of the partition."""

    def __init__(self, replicas: Path, name: str, disk: Disk) -> None:
        """The replica gets that name in the directory ``replicas``."""
        self.index = 0
        self.former: Path | None = None
        self._replicas = replicas
        self._place = replicas / name
        self._new = replicas / f"{name}{NEW}"
        self._disk = disk
        self._copy: int | None = None  # its number
        self._is_whole = False
        self._last: tuple[str, DiskFile, int] | None = None  # the file that is written: its path, and its end
        self._unsynced: dict[Path, None] = {}
        self._size = 0  # bytes that are not synced
        self._directories: set[Path] = set()  # below the copy: at most those of 65,536 bodies

    def take(self, message: CopyBegin | Piece | CopyEnd) -> bool:
        """Write a message. Returns whether the copy is whole, durable and in its place. What came before is ignored.
        Raises CopyError and OSError: the copy is then removed, and another must begin."""
        if isinstance(message, CopyBegin):
            if message.copy != self._copy:
                self._begin(message.copy)
            return self._is_whole
        if self._copy is None or message.copy != self._copy:
            raise CopyError(f"copy {message.copy:016x} has no beginning")
        if self._is_whole:
            return True
        try:
            if isinstance(message, CopyEnd):
                self._finish(message.pieces)
                return True
            self._write(message)
        except (CopyError, OSError):
            with contextlib.suppress(OSError):  # the fault that led here is the one to tell
                self.discard()
            raise
        return False

    def discard(self) -> None:
        """Break the copy off, and remove what there is of it. Raises OSError."""
        self._copy, self.index, self._size = None, 0, 0
        self._unsynced.clear()
        self._directories.clear()
        self._close()
        if not self._is_whole:
            remove_tree(self._new)

    def _begin(self, copy: int) -> None:
        self.discard()
        make_directory(self._replicas, self._disk)
        remove_tree(self._old)
        remove_tree(self._new)
        make_private_directory(self._new)
        self._directories.add(self._new)
        self._copy, self._is_whole = copy, False

    @property
    def _old(self) -> Path:
        return self._place.with_name(f"{self._place.name}{OLD}")

    # -- pieces ------------------------------------------------------------------------------------------------

    def _write(self, piece: Piece) -> None:
        if piece.number < self.index:
            return
        if piece.number > self.index:
            raise CopyError(f"piece {piece.number} of a copy came, and piece {self.index} did not")
        for part in piece.parts:
            self._write_part(part)
        self.index += 1
        failpoint("copy.written")
        if self._size >= _SYNC_BYTES or len(self._unsynced) >= _SYNC_FILES:
            self._sync()

    def _write_part(self, part: FilePart) -> None:
        if self._last is None or part.path != self._last[0]:
            self._close()
            self._last = part.path, self._create(part.path), 0
        path, file, end = self._last
        if part.offset != end:
            raise CopyError(f"{path} of a copy has {end} bytes, and its next part is for offset {part.offset}")
        file.pwrite(part.data, end)
        self._last = path, file, end + len(part.data)
        self._unsynced[self._new / path] = None
        self._size += len(part.data)

    def _create(self, path: str) -> DiskFile:
        place = self._new / path
        # The directory is ours, and new: no link is in it. So nothing outside can be meant.
        if os.path.isabs(path) or ".." in place.parts or place == self._new:
            raise CopyError(f"{path!r} is no file of a copy")
        for above in reversed(place.parents):
            if self._new in above.parents and above not in self._directories:
                make_private_directory(above)
                self._directories.add(above)
        if os.path.lexists(place):
            raise CopyError(f"{path} of a copy comes twice")
        return self._disk.open(place, create=True)

    def _close(self) -> None:
        if self._last is not None:
            self._last[1].close()
            self._last = None

    # -- durability --------------------------------------------------------------------------------------------

    def _sync(self, directories: bool = False) -> None:
        self._disk.sync_many(self._new, list(self._unsynced), self._directories if directories else ())
        self._unsynced.clear()
        self._size = 0

    def _finish(self, count: int) -> None:
        if count != self.index:
            raise CopyError(f"a copy of {count} pieces ended after {self.index}")
        self._close()
        self._sync(directories=True)
        failpoint("copy.synced")
        if is_former(self._place, life_there(self._new)):
            self.former = set_aside(self._disk, self._place, self._place)
        elif self._place.exists():
            self._disk.move(self._place, self._old)
            failpoint("copy.aside")
        self._disk.move(self._new, self._place)
        self._is_whole = True
        self._disk.sync_directory(self._replicas)
        failpoint("copy.placed")
        self._directories.clear()
        remove_tree(self._old)
