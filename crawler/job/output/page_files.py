"""The records of a job, opened for appending: one text, in ``pages.jsonl`` or in numbered files of limited size.

A full file is compressed once a generation has made its records final. Compression does not change positions, which are
relative to the whole text.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from crawler.base.disk import FULL, Disk, DiskFile, failpoint
from crawler.job.output.appended_file import AppendedFile, OutputError, Unsynced
from crawler.job.output.record_text import (
    COMPRESSED,
    Segment,
    compressed,
    disk_size,
    lost_files,
    open_text,
    page_file,
    segments_of,
)
from crawler.job.output.rotated_files import Size
from crawler.job.output.seekable_zstd import FRAME, SeekableWriter
from crawler.job.records import End, Position


class PageFiles:
    """The records. ``end``: the length of the whole text in bytes."""

    def __init__(self, path: Path, disk: Disk, file_size: int = 0) -> None:
        """Open the files. ``file_size``: bytes at which the next record starts a new file; 0: never. Raises OSError."""
        self.path = path
        self.job = path.parent
        self._disk = disk
        self._file_size = file_size
        first = AppendedFile(path, disk)  # always created: it marks the directory as a crawl
        full = segments_of(path) if path.is_file() else [Segment(0, path, 0, first.end)]
        self._segment = full.pop()
        self._full = full
        self._last = first
        self._unsynced = Unsynced(disk, path.parent, names_changed=bool(self._segment.number))
        if self._segment.number:
            self._unsynced.files.append(first)
            self._last = self._opened(self._segment)
        self._text: BinaryIO | None = None  # full files, opened for reading when a job is resumed
        self._final = 0  # text before this offset is never cut
        self._is_compressing = False

    @property
    def end(self) -> int:
        return self._segment.start + self._last.end

    @property
    def size(self) -> Size:
        """The number of files, and their bytes on disk. Raises OSError."""
        return Size(*disk_size(self.path)) if self._full else Size(1, self._last.end)

    def append(self, data: bytes) -> Position:
        """See ``AppendedFile``. Positions are relative to the whole text."""
        if self._file_size and (not self._segment.number or self._last.end >= self._file_size):
            self._begin()
        position = self._last.append(data)
        start = self._segment.start
        return position._replace(end=start + position.end) if start else position

    def append_at(self, file: int, start: int, data: bytes) -> None:
        """Append at the offset ``start``, which must be the end of the whole text. Raises OSError, OutputError."""
        if file or self.end != start:
            raise OutputError(errno.EIO, f"{self.path} does not end at {start}")
        self.append(data)

    def _begin(self) -> None:
        """Start the next file. Raises OSError; the state is then unchanged."""
        number, start = self._segment.number + 1, self.end
        path = page_file(self.path, number)
        begun = AppendedFile(path, self._disk, job=self.path.parent)
        self._unsynced.names_changed = True
        failpoint("pages.begun")
        self._unsynced.files.append(self._last)
        self._full.append(self._segment._replace(size=self._last.end))
        self._segment, self._last = Segment(number, path, start, 0), begun

    def read(self, position: Position) -> bytes | None:
        """See ``AppendedFile``."""
        start = self._segment.start
        if position.end - position.length >= start:
            return self._last.read(position._replace(end=position.end - start))
        text = self._text = self._text or open_text(self.path)  # full files do not change until they are cut
        text.seek(position.end - position.length)
        data = text.read(position.length)
        return data if position.is_of(data) else None

    def holds(self, position: Position) -> bool:
        """See ``AppendedFile``."""
        return self.read(position) is not None

    def _close_text(self) -> None:
        if self._text is not None:
            self._text.close()
            self._text = None

    def _opened(self, segment: Segment) -> AppendedFile:
        return AppendedFile(segment.path, self._disk, job=self.path.parent, create=False)

    # -- when a job is resumed ---------------------------------------------------------------------------------

    def cut(self, end: int) -> None:
        """See ``AppendedFile``. Files after the new end are removed."""
        self._close_text()
        while end < self._segment.start:
            before = self._full[-1]
            if before.is_compressed:
                raise OutputError(errno.EIO, f"{before.path} is compressed, and ends before offset {end}: restore it")
            self._disk.unlink(self._segment.path)
            self._unsynced.names_changed = True
            last = self._opened(before)
            self._last.close()  # close it last: ``_last`` must stay usable if opening the other file fails
            self._segment, self._last = self._full.pop(), last
        self._last.cut(end - self._segment.start)

    def write_again(self, start: int) -> None:
        """See ``AppendedFile``."""
        self._final = start
        for segment in self._full:
            if not segment.is_compressed and segment.start + segment.size > start:
                file = self._opened(segment)
                file.write_again(max(0, start - segment.start))
                self._unsynced.files.append(file)
        self._last.write_again(max(0, start - self._segment.start))

    def fault(self, durable: End) -> str | None:
        """See ``RotatedFiles``. Compressed files are not checked."""
        if self.end < durable.offset:
            lost = next(lost_files(self.path), None)
            lacks = "" if lost is None else f" ({lost.name} is missing, or not a file)"
            return f"has {self.end} bytes, but {durable.offset} were durable{lacks}"
        for segment in (*self._full, self._segment):
            if segment.is_compressed or segment.start >= durable.offset:
                continue
            file = self._last if segment is self._segment else self._opened(segment)
            hole = file.damage(min(file.end, durable.offset - segment.start))
            if file is not self._last:
                file.close()
            if hole is not None:
                return f"is damaged at offset {segment.start + hole}: durable records are missing there"
        return None

    # -- durability --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """See ``AppendedFile``."""
        self._last.look()

    def sync(self) -> None:
        """See ``AppendedFile``."""
        self._unsynced.sync(self._last)

    def tidy(self) -> None:
        """Remove files left by an interrupted compression. Raises OSError."""
        pattern = f"{self.path.stem}-*{self.path.suffix}{COMPRESSED}.part"
        for part in self.path.parent.glob(pattern):
            self._disk.unlink(part)
        for segment in self._full:
            plain = page_file(self.path, segment.number)
            if segment.is_compressed and plain.exists():
                self._disk.unlink(plain)  # a compression makes the new name durable before it deletes this file

    def settle(self, end: int) -> None:
        """Mark all records before the offset ``end`` as covered by a generation."""
        self._final = max(self._final, end)

    def close(self) -> None:
        """Release all files. Writes nothing."""
        self._close_text()
        for file in (*self._unsynced.files, self._last):
            file.close()

    # -- compression -------------------------------------------------------------------------------------------

    def compression(self) -> Generator[Callable[[], object], None, None]:
        """Yield the steps that compress the first full file with final records; each may run in the thread that syncs.

        Yields nothing if there is no such file, or a compression is in progress. ``pages.jsonl`` itself is never
        compressed. On a full disk the file stays uncompressed. Raises OSError."""
        final = (each for each in self._full if each.start + each.size <= self._final)
        segment = next((each for each in final if each.number and not each.is_compressed), None)
        if segment is None or self._is_compressing:
            return
        self._is_compressing = True
        try:
            yield from self._compress(segment)
        except OSError as error:
            if error.errno not in FULL:
                raise
        finally:
            self._is_compressing = False

    def _compress(self, segment: Segment) -> Generator[Callable[[], object], None, None]:
        target = compressed(segment.path)
        part = target.with_name(f"{target.name}.part")
        with closing(self._disk.open(segment.path)) as plain, closing(self._disk.open(part, create=True)) as file:
            try:
                file.truncate(0)
                writer = SeekableWriter(file.append)
                for at in range(0, segment.size, FRAME):
                    yield partial(_add, writer, plain, min(FRAME, segment.size - at), at)
                yield writer.end
                yield file.sync
            except OSError:
                with suppress(OSError):
                    file.truncate(0)  # free the space: the disk may be full
                raise
        yield partial(self._place, segment, part, target)

    def _place(self, segment: Segment, part: Path, target: Path) -> None:
        failpoint("pages.compressed")
        self._disk.replace(part, target)
        self._disk.sync_directory(target.parent)
        failpoint("pages.renamed")
        self._full[self._full.index(segment)] = segment._replace(path=target)
        self._disk.unlink(segment.path)


def _add(writer: SeekableWriter, plain: DiskFile, size: int, at: int) -> None:
    writer.add(plain.pread(size, at))
