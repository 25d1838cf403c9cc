"""Reads blocks of whole lines, from a pipe as they arrive or from a part of a file.

Blocks are large because hashing and lookups are cheapest in batches of thousands. Still, a block ends as soon as
reading more would have to wait, so lines that have arrived are never delayed.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from enum import Enum

from crawler.base.faults import Failure

BLOCK = 2**20  # bytes per read
LONGEST = 2**28  # maximum bytes in a line, so that an endless line does not take all memory


class LineTooLongError(Failure, ValueError):
    """A line is too long. The message is one line for the user."""


class Pause(Enum):
    """The reason why no block was returned."""

    END = "the input ended"
    IDLE = "the time limit passed"
    INTERRUPTED = "a signal asked to stop"


class Splitter:
    """Splits incoming pieces of bytes after their last line feed, and keeps the rest for the next piece."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._held = 0

    def feed(self, piece: bytes) -> bytes:
        """Return the whole lines that end in this piece. Raises LineTooLongError."""
        cut = piece.rfind(b"\n") + 1
        if not cut:
            self._hold(piece)
            return b""
        whole = b"".join((*self._pieces, piece[:cut])) if self._pieces else piece[:cut]
        self._pieces, self._held = [], 0
        self._hold(piece[cut:])
        return whole

    def rest(self) -> bytes:
        """Return the last line, if it has no line feed."""
        whole = b"".join(self._pieces)
        self._pieces, self._held = [], 0
        return whole

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._held += len(piece)
        if self._held > self._longest:
            raise LineTooLongError(f"a line is longer than {self._longest:,} bytes")


class LineSource:
    """The lines of an open file, pipe or terminal."""

    def __init__(self, fd: int, wake: int | None = None, longest: int = LONGEST) -> None:
        """``wake`` is a descriptor that becomes readable when a signal arrives."""
        self._fd = fd
        self._wake = wake
        self._splitter = Splitter(longest)
        self._ended = False
        self._ready = select.poll()
        self._ready.register(fd, select.POLLIN)
        self._either = select.poll()
        self._either.register(fd, select.POLLIN)
        if wake is not None:
            self._either.register(wake, select.POLLIN)

    def next(self, timeout: float | None = None) -> bytes | Pause:
        """Return the next whole lines, up to about 1 MiB of those that have arrived. Waits up to ``timeout``
        seconds.

        Raises LineTooLongError, OSError.
        """
        while not self._ended:
            ready = [fd for fd, _ in self._either.poll(None if timeout is None else max(0.0, timeout) * 1000)]
            if self._wake in ready:
                return Pause.INTERRUPTED
            if not ready:
                return Pause.IDLE
            if whole := self._splitter.feed(self._gather()):
                return whole
        return self._splitter.rest() or Pause.END

    def interrupted(self) -> bool:
        """Return True if a signal has asked this program to stop."""
        return any(fd == self._wake for fd, _ in self._either.poll(0))

    def _gather(self) -> bytes:
        pieces: list[bytes] = []
        left = BLOCK
        while left > 0:
            try:
                piece = os.read(self._fd, left)
            except BlockingIOError:
                break
            if not piece:
                self._ended = True
                break
            pieces.append(piece)
            left -= len(piece)
            if left > 0 and not self._ready.poll(0):
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def part_of_file(fd: int, start: int, end: int) -> Iterator[bytes]:
    """Yield blocks of the whole lines whose first byte is at ``start`` <= offset < ``end``, so that adjacent parts
    cover every line exactly once. Raises LineTooLongError, OSError."""
    at, stop = _line_start(fd, start), _line_start(fd, end)
    splitter = Splitter()
    while at < stop:
        piece = os.pread(fd, min(BLOCK, stop - at), at)
        if not piece:
            break
        at += len(piece)
        if whole := splitter.feed(piece):
            yield whole
    if rest := splitter.rest():
        yield rest


def _line_start(fd: int, offset: int) -> int:
    """Return the offset of the first line that starts at or after ``offset``, or the end of the file."""
    if offset <= 0:
        return 0
    at = offset - 1
    while piece := os.pread(fd, 2**16, at):
        cut = piece.find(b"\n")
        if cut >= 0:
            return at + cut + 1
        at += len(piece)
    return at


def count_lines(fd: int) -> int:
    """Count the lines of a file, including a last one without a line feed. Raises OSError."""
    lines = at = 0
    last = b"\n"
    while piece := os.pread(fd, 8 * BLOCK, at):
        lines += piece.count(b"\n")
        at += len(piece)
        last = piece[-1:]
    return lines + (last != b"\n")


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``, even if ``fd`` is non-blocking. Raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [])
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from error
