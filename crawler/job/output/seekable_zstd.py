"""The seekable format of zstd: independent frames, each with a part of the text, and at the end a table of their sizes,
in a frame that other readers skip. So `zstd -d` can read the file, and a part of the text can be read without the rest.

https://github.com/facebook/zstd/blob/dev/contrib/seekable_format/zstd_seekable_compression_format.md
"""

from __future__ import annotations

import bisect
import errno
import itertools
import struct
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from msgspec import Struct

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FRAME = 2**20  # bytes of text in a frame
_PIECE = 2**17  # bytes of text read at a time; in a damaged file, all pieces before the damage are returned
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 3,
    zstd.CompressionParameter.checksum_flag: 1,
}
_HEAD = struct.Struct("<II")  # head of the frame that contains the table
_SKIPPABLE = 0x184D2A5E
_ENTRY = struct.Struct("<II")  # bytes of a frame, and of its text
_FOOT = struct.Struct("<IBI")  # number of frames, descriptor, magic number
_MAGIC = 0x8F92EAB1
_CHECKED = 0x80  # bit of the descriptor: each entry also has a checksum
_FRAMES_MOST = 2**27  # limit of the format


class SeekableError(ValueError):
    """The file has no frame table, or one that does not match the file."""


class DamagedFrameError(OSError):
    """A frame cannot be read."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(errno.EIO, "a frame is damaged")
        self.frame = frame


class Frame(Struct, frozen=True):
    """The offset and size of a frame in the file, and the offset and length of its text in the whole text."""

    start: int
    size: int
    text: int
    length: int


class SeekableWriter:
    """Writes a file sequentially by calls of ``write``. Passes on the exceptions that ``write`` raises."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._entries = bytearray()

    def add(self, text: bytes) -> None:
        """Write a frame with this text."""
        frame = zstd.compress(text, options=_OPTIONS)
        self._write(frame)
        self._entries += _ENTRY.pack(len(frame), len(text))

    def end(self) -> None:
        """Write the table."""
        table = bytes(self._entries) + _FOOT.pack(len(self._entries) // _ENTRY.size, 0, _MAGIC)
        self._write(_HEAD.pack(_SKIPPABLE, len(table)) + table)


def frames_of(file: BinaryIO) -> list[Frame]:
    """Return the frames of the file. Raises SeekableError, OSError."""
    size = file.seek(0, 2)
    if size < _HEAD.size + _FOOT.size:
        raise SeekableError("too short")
    file.seek(size - _FOOT.size)
    count, descriptor, magic = _FOOT.unpack(file.read(_FOOT.size))
    if magic != _MAGIC or count > _FRAMES_MOST or descriptor & ~_CHECKED & 0xFC:
        raise SeekableError("no table")
    entry = _ENTRY.size + (4 if descriptor & _CHECKED else 0)
    length = count * entry + _FOOT.size
    start = size - length - _HEAD.size
    if start < 0:
        raise SeekableError("the table is longer than the file")
    file.seek(start)
    table = file.read(_HEAD.size + length)
    if _HEAD.unpack_from(table) != (_SKIPPABLE, length):
        raise SeekableError("no table")
    sizes = [_ENTRY.unpack_from(table, _HEAD.size + entry * number) for number in range(count)]
    starts = itertools.accumulate((size for size, _ in sizes), initial=0)
    texts = itertools.accumulate((length for _, length in sizes), initial=0)
    frames = [Frame(*each) for each in zip(starts, (s for s, _ in sizes), texts, (t for _, t in sizes), strict=False)]
    if sum(size for size, _ in sizes) != start:
        raise SeekableError("the table belongs to another file")
    return frames


class SeekableReader:
    """Reads parts of the text. Raises SeekableError, OSError."""

    def __init__(self, file: BinaryIO, *, whole: bool = False) -> None:
        """``file`` is closed with the reader. ``whole``: a damaged frame is an error (DamagedFrameError)."""
        self._file = file
        self._whole = whole
        self._frames = frames_of(file)
        self._starts = [frame.text for frame in self._frames]
        self._last: tuple[int, bytes] = (-1, b"")
        self.size = sum(frame.length for frame in self._frames)

    def read(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes of one frame from ``offset`` on; no bytes after the end of the text. A damaged
        frame reads as zeros, like a hole in a file."""
        if offset >= self.size or size <= 0:
            return b""
        number = bisect.bisect_right(self._starts, offset) - 1
        while self._frames[number].length == 0:
            number -= 1
        if self._last[0] != number:
            self._last = number, self._text(self._frames[number])
        start = offset - self._starts[number]
        return self._last[1][start : start + size]

    def damaged(self) -> Iterator[Frame]:
        """Return the frames that cannot be read."""
        return (frame for frame in self._frames if self._decompressed(frame) is None)

    def _text(self, frame: Frame) -> bytes:
        text = self._decompressed(frame)
        if text is None and self._whole:
            raise DamagedFrameError(frame)
        return bytes(frame.length) if text is None else text

    def _decompressed(self, frame: Frame) -> bytes | None:
        self._file.seek(frame.start)
        try:
            text = zstd.decompress(self._file.read(frame.size))
        except zstd.ZstdError:
            return None
        return text if len(text) == frame.length else None

    def close(self) -> None:
        self._file.close()


class PlainReader:
    """Reads parts of a zstd file without a frame table, for example one that another program wrote, sequentially. Text
    after damage is unavailable. Raises OSError."""

    def __init__(self, file: BinaryIO) -> None:
        """``file`` is closed with the reader."""
        self._file = file
        self._file.seek(0)
        self._text = zstd.ZstdFile(file)

    def read(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset`` on; no bytes after the end of the text."""
        try:
            self._text.seek(offset)
            return self._text.read1(size)
        except (zstd.ZstdError, EOFError):
            return b""

    def end(self) -> tuple[int, bool]:
        """Return the length of the text in bytes, and whether the file is intact."""
        end = 0
        try:
            self._text.seek(0)
            while piece := self._text.read1(_PIECE):
                end += len(piece)
        except (zstd.ZstdError, EOFError):
            return end, False
        return end, True

    def close(self) -> None:
        self._file.close()
