"""``pages.jsonl``: one JSON object for each finished URL, in finishing order.

Lines are appended with one write each, unbuffered, so that they are with the operating system before the journal says
that they are there. The file's end belongs to the journal: what stands behind the last journalled record was never
finished, and is cut off when the job is resumed.
"""

from __future__ import annotations

import errno
import zlib
from pathlib import Path

from crawler.disk import Disk
from crawler.records import Position


class OutputError(OSError):
    """The output does not hold what the journal says, and it cannot be made good."""


class JsonlOutput:
    """The file, opened for appending."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Open or create. Raises OSError."""
        self.path = path
        self._file = disk.open(path, create=True)
        self.end = self._file.size()
        self._dirty = self.end > 0  # whoever wrote it may have been killed before it was synced

    def append(self, line: bytes) -> Position:
        """Write one record; returns where it ends. A write that fails leaves the file as it was: OSError."""
        start = self.end
        try:
            self._file.pwrite(line, start)
        except OSError:
            self._file.truncate(start)
            raise
        self._dirty = True
        self.end = start + len(line)
        return Position(0, self.end, len(line), zlib.crc32(line))

    def holds(self, position: Position) -> bool:
        """Whether the record stands where the journal says, byte for byte."""
        if position.file != 0 or position.end > self.end or position.length > position.end:
            return False
        data = self._file.pread(position.length, position.end - position.length)
        return len(data) == position.length and zlib.crc32(data) == position.crc

    def cut(self, end: int) -> None:
        """Drop what stands behind ``end``; raises OutputError when the file does not reach it."""
        if end > self.end:
            raise OutputError(
                errno.EIO,
                f"{self.path} has {self.end} bytes where the journal names {end}: put the file back as it was left",
            )
        if end < self.end:
            self._file.truncate(end)
            self.end = end
            self._dirty = True

    def sync(self) -> None:
        """Make what was appended durable. Called from a thread while others append: they are then synced next time."""
        if self._dirty:
            self._dirty = False
            try:
                self._file.sync()
            except OSError:
                self._dirty = True
                raise

    def close(self) -> None:
        self._file.close()
