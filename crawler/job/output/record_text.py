"""Presents the records of a job as one text, whatever files they are in: ``pages.jsonl``, then ``pages-000001.jsonl``
and so on, of which all but the last may be compressed.

Offsets are relative to the whole text. A missing file counts as empty, so the text after it is not at the offsets that
the journal has. Damaged text reads as zeros, like a hole in a file; repairs rely on this. For a reader that requests
the ``whole`` text, damage is an error that names the file.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from msgspec import Struct

from crawler.job.output.seekable_zstd import DamagedFrameError, PlainReader, SeekableError, SeekableReader

COMPRESSED = ".zst"
_BUFFER = 128 * 1024
_LINE_FEED = ord("\n")
_LINE_MAX = 2**20  # bytes; a record has at most three URLs, each shorter than 64 KiB
_MEASURED = 4_096  # compressed files whose sizes are cached


class DamagedRecordsError(OSError):
    """A file of records is missing or damaged. The message names the file, and gives a remedy."""


class FileFault(Struct, frozen=True):
    """A problem with a file of records. ``kind`` is its name in the output of ``verify``. ``details``: the ``offset``
    in the whole text where the damage starts, and the number of damaged ``bytes``, if known."""

    kind: str
    path: Path
    details: dict[str, int] = {}


class Segment(NamedTuple):
    """A file of the text: its number (0: ``pages.jsonl``), its path, the offset of its text, and the text's length."""

    number: int
    path: Path
    start: int
    size: int

    @property
    def is_compressed(self) -> bool:
        return self.path.suffix == COMPRESSED


def page_file(pages: Path, number: int) -> Path:
    """Return the path of the file with that number, without compression."""
    return pages if number == 0 else pages.with_name(f"{pages.stem}-{number:06}{pages.suffix}")


def compressed(path: Path) -> Path:
    """Return the path of the compressed file."""
    return path.with_name(path.name + COMPRESSED)


def page_numbers(pages: Path) -> dict[int, Path]:
    """Return the paths of the numbered files by number, in order; if two files have a number, the compressed one.
    Raises OSError."""
    # Sorting puts the compressed name last, and the last one wins.
    return dict(sorted((number, path) for number, path in _numbered(pages) if not _is_other(path)))


def page_paths(pages: Path) -> list[Path]:
    """Return all paths named like a numbered file. Raises OSError."""
    return [path for _, path in _numbered(pages)]


def _numbered(pages: Path) -> list[tuple[int, Path]]:
    pattern = re.compile(rf"{re.escape(pages.stem)}-([0-9]{{6,8}}){re.escape(pages.suffix)}({re.escape(COMPRESSED)})?")
    directory = pages.parent
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    return [(int(match[1]), path) for path in paths if (match := pattern.fullmatch(path.name))]


def _is_other(path: Path) -> bool:
    """True if the path exists and is not a regular file. A file that was compressed and removed meanwhile does not
    count."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def has_text(pages: Path) -> bool:
    """True if there is any file of records. Raises OSError."""
    return pages.is_file() or bool(page_numbers(pages))


def lost_files(pages: Path) -> Iterator[Path]:
    """Yield files of records that are missing (the first of each gap), or that are not regular files.

    Raises OSError."""
    named = _numbered(pages)
    yield from (path for path in (pages, *(path for _, path in named)) if _is_other(path))
    if named and not pages.exists():
        yield pages
    there = sorted({0, *(number for number, _ in named)})
    for before, number in itertools.pairwise(there):
        path = page_file(pages, before + 1)
        # It may have been created or compressed meanwhile: the plain file is removed after the compressed one appears.
        if number > before + 1 and not path.exists() and not compressed(path).exists():
            yield path


def file_faults(pages: Path) -> Iterator[FileFault]:
    """Yield the problems of the files. Reads all compressed files. Raises OSError."""
    yield from (FileFault("file-lost", path) for path in lost_files(pages))
    for segment in segments_of(pages):
        if not segment.is_compressed or segment.path.is_dir():
            continue
        measured = _measured(segment.path)
        if not measured.has_table:
            cut = FileFault("file-cut", segment.path, {"offset": segment.start + segment.size})
            yield FileFault("table-lost", segment.path) if measured.is_whole else cut
            continue
        with open(segment.path, "rb") as file:
            for frame in SeekableReader(file).damaged():
                at = {"offset": segment.start + frame.text, "bytes": frame.length}
                yield FileFault("frame-damaged", segment.path, at)


def path_at(pages: Path, offset: int) -> Path:
    """Return the file with the byte at that offset. Raises OSError."""
    segments = segments_of(pages)
    return next((each.path for each in reversed(segments) if each.start <= offset), pages)


def segments_of(pages: Path) -> list[Segment]:
    """Return the files of the text, in order. Raises OSError."""
    found, start = list[Segment](), 0
    for number, path in ({0: pages} | page_numbers(pages)).items():
        size, there = _size(path), path
        if size is None:  # the file has been compressed meanwhile
            size = _size(compressed(path))
            there = path if size is None else compressed(path)
        size = size or 0
        found.append(Segment(number, there, start, size))
        start += size
    return found


def _size(path: Path) -> int | None:
    """Return the number of bytes of readable text in a file; None if the file is missing."""
    try:
        if path.suffix == COMPRESSED:
            return _measured(path).size
        found = path.stat()
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    except FileNotFoundError:
        return None


class _Measured(Struct, frozen=True):
    """The number of bytes of text in a compressed file, whether the file has a frame table, and whether it is
    complete."""

    size: int
    has_table: bool
    is_whole: bool


def _measured(path: Path) -> _Measured:
    """Measure a file. Results are cached. Raises OSError."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return _Measured(0, False, False)
    return _measure(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(_MEASURED)
def _measure(path: Path, found: tuple[int, ...]) -> _Measured:  # ``found`` identifies the file
    with open(path, "rb") as file:
        try:
            return _Measured(SeekableReader(file).size, True, True)
        except SeekableError:
            size, is_whole = PlainReader(file).end()
            return _Measured(size, False, is_whole)


def text_size(pages: Path) -> int:
    """Return the length of the whole text in bytes. Raises OSError."""
    last = segments_of(pages)[-1]
    return last.start + last.size


def disk_size(pages: Path) -> tuple[int, int]:
    """Return the number of files of the text, and their bytes on disk. Raises OSError."""
    paths = [path for path in (pages, *page_numbers(pages).values()) if path.exists()]
    return len(paths), sum(path.stat().st_size for path in paths)


def open_text(pages: Path, *, whole: bool = False) -> BinaryIO:
    """Open a snapshot of the whole text for reading. With ``whole``, missing or damaged text is an error, also on later
    reads. Raises OSError, DamagedRecordsError."""
    if not page_paths(pages):
        return open(pages, "rb")
    segments = segments_of(pages)
    if whole:
        _check(pages, segments)
    return io.BufferedReader(_Text(segments, whole=whole), _BUFFER)


def lines_of(path: Path, end: int | None = None, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line with its line feed) for the lines that start in the range from ``start`` to ``end``.

    A line that is longer than any record can be is yielded in pieces. Yields nothing if there is no file. Raises
    OSError."""
    if not has_text(path):
        return
    with open_text(path) as stream:
        stream.seek(start)
        while (end is None or start < end) and (line := stream.readline(_LINE_MAX)):
            yield start, line
            start += len(line)


def _check(pages: Path, segments: list[Segment]) -> None:
    """Check for missing and truncated files, without reading all of their text. Raises DamagedRecordsError."""
    for path in lost_files(pages):
        what = "is not a file" if os.path.lexists(path) else "is missing"
        raise DamagedRecordsError(f"{path} {what}: restore it, or run `crawler repair {pages.parent}`")
    for segment in segments:
        if segment.is_compressed and not _measured(segment.path).is_whole:
            raise _damaged(segment.path, segment.start + segment.size)


def _damaged(path: Path, offset: int) -> DamagedRecordsError:
    return DamagedRecordsError(
        f"{path} is damaged: its records cannot be read from offset {offset} on; run `crawler verify {path.parent}`"
    )


def read_text(pages: Path, size: int, offset: int) -> bytes:
    """Return up to ``size`` bytes of text from ``offset`` on, from a single file. Raises OSError."""
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


def _open(path: Path, *, whole: bool = False) -> _Part:
    try:
        file = open(path, "rb")  # noqa: SIM115  # closed with the text
    except FileNotFoundError:
        path = compressed(path)
        file = open(path, "rb")  # noqa: SIM115
    if path.suffix != COMPRESSED:
        return _Plain(file)
    try:
        return SeekableReader(file, whole=whole)
    except SeekableError:
        return PlainReader(file)


class _Text(io.RawIOBase):
    """Several files read as one."""

    def __init__(self, segments: list[Segment], *, whole: bool) -> None:
        self._whole = whole
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
            self._part = number, _open(self._segments[number].path, whole=self._whole)
        segment = self._segments[number]
        room = min(len(view), segment.start + segment.size - self._at)
        try:
            data = self._part[1].read(room, self._at - segment.start)
        except DamagedFrameError as error:
            raise _damaged(segment.path, segment.start + error.frame.text) from error
        view[: len(data)] = data
        self._at += len(data)
        if data.endswith(b"\0") and segment.is_compressed and self._at == segment.start + segment.size:
            view[len(data) - 1] = _LINE_FEED  # the damage ends with its file: the next record starts a new line
        return len(data)

    def close(self) -> None:
        self._close_part()
        super().close()

    def _close_part(self) -> None:
        if self._part is not None:
            self._part[1].close()
            self._part = None
