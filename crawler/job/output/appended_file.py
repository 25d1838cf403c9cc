"""A file to which records are appended: each by one unbuffered write, so that the operating system has it before the
journal refers to it.

The journal decides where the file ends: anything after the last record in the journal is unfinished, and is cut off
when the job is resumed.
"""

from __future__ import annotations

import errno
import zlib
from pathlib import Path

from crawler.base.disk import Disk, DisplacedError, Place
from crawler.job.records import Position

_PIECE = 2**20  # bytes read and written at a time


class OutputError(OSError):
    """The output lacks bytes to which the journal refers, and they cannot be restored."""


class AppendedFile:
    """A file opened for appending. ``number`` identifies the file in positions: its kind of output and its number in
    that output."""

    def __init__(
        self, path: Path, disk: Disk, number: int = 0, *, job: Path | None = None, create: bool = True
    ) -> None:
        """Open the file. With ``create``, create it if it is missing. ``job`` is the job directory, if it is not the
        parent of ``path``. Raises OSError."""
        self.path = path
        self.number = number
        self._job = job or path.parent
        self._file = disk.open(path, create=create)
        self.end = self._file.size()
        self._dirty = self.end > 0  # the last process may have been killed before a sync

    def append(self, data: bytes) -> Position:
        """Append one record. Returns its position. Raises OSError; the file is then unchanged."""
        start = self.end
        try:
            # Append at the end of the file, not at an offset: if the file was cut, an offset would leave a hole.
            end = self._file.append(data)
        except OSError:
            if self._file.size() > start:
                self._file.truncate(start)
            raise
        self._dirty = True
        if end != start + len(data):
            raise self._changed(end - len(data), start)
        self.end = end
        return Position(self.number, self.end, len(data), zlib.crc32(data))

    def holds(self, position: Position) -> bool:
        """True if the file holds, at this position, exactly the bytes of the record that was appended there."""
        return self.read(position) is not None

    def read(self, position: Position) -> bytes | None:
        """Return the record that was appended at this position; None if the file does not hold exactly its bytes
        there."""
        if position.file != self.number or position.end > self.end or position.length > position.end:
            return None
        data = self._file.pread(position.length, position.end - position.length)
        return data if position.is_of(data) else None

    def cut(self, end: int) -> None:
        """Truncate the file to ``end`` bytes. Raises OutputError if the file is shorter."""
        if end > self.end:
            raise OutputError(
                errno.EIO,
                f"{self.path} has {self.end} bytes, but the journal needs {end}: restore the file as the crawl left it",
            )
        if end < self.end:
            self._file.truncate(end)
            self.end = end
            self._dirty = True

    def write_again(self, start: int) -> None:
        """Rewrite the bytes from ``start`` on, so that the next sync covers them. Raises OSError.

        If a sync failed in the previous process, the operating system considers the pages clean: they can be read, but
        would never reach the disk."""
        for at in range(start, self.end, _PIECE):
            self._file.pwrite(self._file.pread(min(_PIECE, self.end - at), at), at)
            self._dirty = True

    def look(self) -> None:
        """Check that the file was neither moved nor cut. May run in another thread than ``append``. Raises
        DisplacedError, OSError."""
        end = self.end
        place = self._file.place(self.path)
        if place is not Place.THERE:
            raise self._displaced(place.name.lower())
        size = self._file.size()
        if size < end:
            raise self._changed(size, end)

    def _changed(self, found: int, end: int) -> DisplacedError:
        what = "cut" if found < end else "written to"
        return self._displaced(f"{what} by another program ({found} bytes where {end} were written)")

    def _displaced(self, how: str) -> DisplacedError:
        return DisplacedError(
            f"{self.path} was {how} during the crawl: put it back as it was, or run `crawler repair "
            f"{self._job}`, which requeues the missing pages; then run the same command"
        )

    def damage(self, durable: int) -> int | None:
        """Return the offset of the first hole before the offset ``durable``; None if none is detected.

        Only the file system's map of holes and the first byte are checked. Raises OSError."""
        if durable and self._file.pread(1, 0) == b"\0":
            return 0  # a hole smaller than a block
        return self._file.hole(durable)

    def sync(self) -> None:
        """Make the appended data durable. May run in a thread during further appends, which the next call syncs.

        Raises OSError."""
        if self._dirty:
            self._dirty = False
            try:
                self._file.sync()
            except OSError:
                self._dirty = True
                raise

    def close(self) -> None:
        self._file.close()


class Unsynced:
    """The parts of an output of several files that are not yet durable, except in its last file: full files, and file
    names in the directory."""

    def __init__(self, disk: Disk, directory: Path, *, names_changed: bool) -> None:
        self.files: list[AppendedFile] = []
        self.names_changed = names_changed
        self._disk = disk
        self._directory = directory

    def sync(self, last: AppendedFile | None) -> None:
        """Make all files durable, including ``last``, which may become full meanwhile, and close the full ones. May run
        in a thread during further appends, which the next call syncs. Raises OSError."""
        full = list(self.files)
        for file in full if last is None else (*full, last):
            file.sync()
        if self.names_changed:
            self.names_changed = False
            try:
                self._disk.sync_directory(self._directory)
            except OSError:
                self.names_changed = True
                raise
        for file in full:
            self.files.remove(file)
            file.close()
