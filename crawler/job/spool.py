"""Messages that wait in a file: the steps that come while a copy is made, which may be more than memory should hold.

Each has its size (4 bytes) before it. The file is emptied whenever all of them were taken. It is not synced, and nobody
reads it after its process has ended.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from crawler.base.disk import DisplacedError, private_opener

_SIZE = struct.Struct(">I")


class Spool:
    """A file of messages, first in, first out. Its methods wait for the disk."""

    def __init__(self, path: Path) -> None:
        """Begin with none; a file that is there is emptied. Raises OSError."""
        self.path = path
        self._file = open(path, "w+b", buffering=0, opener=private_opener)  # noqa: SIM115  # until ``remove``
        self._start = 0  # of the oldest message that was not taken
        self._end = 0

    @property
    def size(self) -> int:
        """Bytes of the messages that wait, with their sizes."""
        return self._end - self._start

    def append(self, message: bytes) -> None:
        """Add a message. Raises OSError; it is not added then."""
        data, written = _SIZE.pack(len(message)) + message, 0
        try:
            while written < len(data):
                written += os.pwrite(self._file.fileno(), data[written:], self._end + written)
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)  # a full disk needs the space
            raise
        self._end += len(data)

    def next(self) -> bytes | None:
        """Take the oldest message; None if none waits. Raises OSError."""
        if self._start == self._end:
            return None
        (size,) = _SIZE.unpack(self._read(_SIZE.size, self._start))
        message = self._read(size, self._start + _SIZE.size)
        self._start += _SIZE.size + size
        if self._start == self._end:
            self._file.truncate(0)
            self._start = self._end = 0
        return message

    def __iter__(self) -> Iterator[bytes]:
        while (message := self.next()) is not None:
            yield message

    def _read(self, size: int, offset: int) -> bytes:
        pieces: list[bytes] = []
        while size:
            piece = os.pread(self._file.fileno(), size, offset)
            if not piece:
                raise DisplacedError(f"{self.path} was cut by another program")
            pieces.append(piece)
            offset, size = offset + len(piece), size - len(piece)
        return b"".join(pieces)

    def remove(self) -> None:
        """Close and remove the file. Raises OSError."""
        self._file.close()
        self.path.unlink(missing_ok=True)
