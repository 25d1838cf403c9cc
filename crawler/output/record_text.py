"""The records of a job as one text, whatever files it is in: ``pages.jsonl``, then ``pages-000001.jsonl`` and so on, of
which all but the last may be compressed.

Offsets are those in the whole text. A file that is missing has no text: what follows it is then not where the journal
says.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from crawler.output.seekable_zstd import SeekableError, SeekableReader

COMPRESSED = ".zst"
_BUFFER = 128 * 1024


class Segment(NamedTuple):
    """A file of the text: its number (0: ``pages.jsonl``), its path, where its text begins, and how long that is."""

    number: int
    path: Path
    start: int
    size: int

    @property
    def is_compressed(self) -> bool:
        return self.path.suffix == COMPRESSED


def page_file(pages: Path, number: int) -> Path:
    """The file with that number, before it is compressed."""
    return pages if number == 0 else pages.with_name(f"{pages.stem}-{number:06}{pages.suffix}")


def compressed(path: Path) -> Path:
    """What a file is called when it is compressed."""
    return path.with_name(path.name + COMPRESSED)


def page_numbers(pages: Path) -> dict[int, Path]:
    """The numbered files that are there, by number, in order: of two with one number the compressed one. Raises
    OSError."""
    pattern = re.compile(rf"{re.escape(pages.stem)}-([0-9]{{6,8}}){re.escape(pages.suffix)}({re.escape(COMPRESSED)})?")
    found: dict[int, Path] = {}
    directory = pages.parent
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if match := pattern.fullmatch(path.name):
            found[int(match[1])] = path  # the compressed name is the later one
    return dict(sorted(found.items()))


def segments_of(pages: Path) -> list[Segment]:
    """The files of the text, in order. Raises OSError."""
    found, start = list[Segment](), 0
    for number, path in ({0: pages} | page_numbers(pages)).items():
        size, there = _size(path), path
        if size is None:  # it has been compressed since
            there = compressed(path)
            size = _size(there) or 0
        found.append(Segment(number, there, start, size))
        start += size
    return found


def _size(path: Path) -> int | None:
    """The bytes of text in a file: none if it is damaged. None if it is not there."""
    try:
        if path.suffix != COMPRESSED:
            return path.stat().st_size
        with open(path, "rb") as file:
            return SeekableReader(file).size
    except FileNotFoundError:
        return None
    except SeekableError:
        return 0


def text_size(pages: Path) -> int:
    """Bytes of the whole text. Raises OSError."""
    last = segments_of(pages)[-1]
    return last.start + last.size


def disk_size(pages: Path) -> tuple[int, int]:
    """How many files the text has, and their bytes on disk. Raises OSError."""
    paths = [path for path in (pages, *page_numbers(pages).values()) if path.exists()]
    return len(paths), sum(path.stat().st_size for path in paths)


def open_text(pages: Path) -> BinaryIO:
    """Open the whole text as it is now, for reading. Raises OSError."""
    if not page_numbers(pages):
        return open(pages, "rb")
    return io.BufferedReader(_Text(segments_of(pages)), _BUFFER)


def read_text(pages: Path, size: int, offset: int) -> bytes:
    """The text from the offset on: up to so many bytes, all of one file. Raises OSError."""
    for segment in segments_of(pages) if page_numbers(pages) else [Segment(0, pages, 0, offset + size)]:
        if segment.start <= offset < segment.start + segment.size:
            part = _open(segment.path)
            try:
                return part.read(min(size, segment.start + segment.size - offset), offset - segment.start)
            finally:
                part.close()
    return b""


class _Part(Protocol):
    def read(self, size: int, offset: int) -> bytes: ...
    def close(self) -> None: ...


class _Plain:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int, offset: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(size)

    def close(self) -> None:
        self._file.close()


def _open(path: Path) -> _Part:
    try:
        file = open(path, "rb")  # noqa: SIM115  # closed with the text
    except FileNotFoundError:
        path = compressed(path)
        file = open(path, "rb")  # noqa: SIM115
    return SeekableReader(file) if path.suffix == COMPRESSED else _Plain(file)


class _Text(io.RawIOBase):
    """Several files as one."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = [segment for segment in segments if segment.size]
        self._starts = [segment.start for segment in self._segments]
        self._end = segments[-1].start + segments[-1].size
        self._at = 0
        self._part: tuple[int, _Part] | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._at >= self._end:
            return 0
        number = bisect_right(self._starts, self._at) - 1
        if self._part is None or self._part[0] != number:
            self._close_part()
            self._part = number, _open(self._segments[number].path)
        segment = self._segments[number]
        room = min(len(view), segment.start + segment.size - self._at)
        data = self._part[1].read(room, self._at - segment.start)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._close_part()
        super().close()

    def _close_part(self) -> None:
        if self._part is not None:
            self._part[1].close()
            self._part = None
