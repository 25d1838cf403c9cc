"""The web archive of a job, or of a partitioned crawl, for export: its index, or the whole archive as one file.

The export ends with the last record of ``pages.jsonl`` that no crash can undo, because the WARC files are also durable
up to that record. The files are read from the start, because only they show where each record is.

The index is sorted even if it does not fit into memory: its lines are sorted in runs, which are stored in files and
merged when they are read. Lines are ordered by their bytes, as by ``LC_ALL=C sort``. Whenever there are ``_FAN`` runs,
they are merged into one, which limits the number of open files.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from crawler.base.settings.parts import OUTPUTS
from crawler.inspect.crawl_partitions import Partition, crawl_partitions
from crawler.inspect.export.beside import ExportError, SourceError, file_made_beside, free_file
from crawler.inspect.export.kept_parts import ends_of_outputs
from crawler.inspect.export.wacz import ArchivedPage, WaczWriter, WarcFile, is_package
from crawler.inspect.record_stream import final_records
from crawler.job.job_lock import lock_holder
from crawler.job.output import Record
from crawler.job.output.outputs import FORMS
from crawler.job.records import Outcome, file_in_output
from crawler.web.archive.cdxj import HEAD_MOST, line_of
from crawler.web.archive.warc_reader import WarcError, read_records

_MEMORY = 2**25  # maximum bytes of lines in memory
_FAN = 64
_BUFFER = 2**17  # bytes of a run that are read or written at a time


class SortedLines:
    """Sorts lines, which may be added in any order. Each line must end with a line feed, and contain no other.
    ``directory`` must exist; it holds the runs, and the caller removes it."""

    def __init__(self, directory: Path, memory: int = _MEMORY) -> None:
        self._directory = directory
        self._memory = memory
        self._held: list[bytes] = []
        self._size = 0
        self._runs: list[Path] = []
        self._made = 0

    def add(self, line: bytes) -> None:
        """Add a line. Raises OSError."""
        self._held.append(line)
        self._size += len(line)
        if self._size >= self._memory:
            self._write_run()

    def __iter__(self) -> Iterator[bytes]:
        """Yield all lines in sorted order. Raises OSError."""
        with contextlib.ExitStack() as files:
            yield from heapq.merge(*[_opened(run, files) for run in self._runs], sorted(self._held))

    def _write_run(self) -> None:
        self._held.sort()
        self._runs.append(self._written(self._held))
        self._held, self._size = [], 0
        if len(self._runs) == _FAN:
            with contextlib.ExitStack() as files:
                merged = self._written(heapq.merge(*[_opened(run, files) for run in self._runs]))
            for run in self._runs:
                run.unlink()
            self._runs = [merged]

    def _written(self, lines: list[bytes] | Iterator[bytes]) -> Path:
        self._made += 1
        path = self._directory / f"run-{self._made}"
        with open(path, "wb", buffering=_BUFFER) as stream:
            stream.writelines(lines)
        return path


def _opened(run: Path, files: contextlib.ExitStack) -> Iterator[bytes]:
    return files.enter_context(open(run, "rb", buffering=_BUFFER))


WARC = OUTPUTS.index("warc") + 1
ARCHIVE = "archive.wacz"  # the file that a run with the output wacz writes to the job's directory

_PAGE_TYPES = ("text/html", "application/xhtml+xml")


class Packed(NamedTuple):
    """The figures of a package or of an index; an index lists no pages."""

    pages: int
    captures: int
    files: int
    size: int  # size of the written file in bytes


class _Source:
    """The archive of a job, or the archives of a crawl's partitions in turn."""

    def __init__(self, directory: Path, *, in_package: bool) -> None:
        """With ``in_package``, the index refers to files in the package, all in one directory; otherwise, it refers to
        the job's own files. Raises JobError."""
        self._directory = directory
        self._in_package = in_package
        # Each partition, with the end of each of its WARC files (by number) according to the records read so far.
        self._partitions = [(each, dict[int, int]()) for each in crawl_partitions(directory).found]
        self.pages = 0

    def records(self) -> Iterator[Record]:
        """Yield the records of URLs whose responses are in the archive. The caller must read all of them before it
        calls ``files``."""
        for partition, ends in self._partitions:
            with partition.named():
                for record, _ in final_records(partition.directory):
                    kept: Any = record.get("kept")
                    if isinstance(kept, dict) and "warc" in kept:
                        number, start, length, _ = kept["warc"]
                        ends[number] = max(ends.get(number, 0), start + length)
                        yield record

    def archived_pages(self) -> Iterator[ArchivedPage]:
        """Yield the pages that are listed as entry points for readers."""
        for record in self.records():
            if _is_page(record):
                self.pages += 1
                title = record.get("title")
                title = title if isinstance(title, str) else None
                yield ArchivedPage(str(record["url"]), str(record["fetched_at"]), title)

    def files(self) -> list[WarcFile]:
        """Return the WARC files in order. Raises ExportError if there are none, SourceError if one is missing."""
        found = [file for partition, ends in self._partitions for file in self._files(partition, ends)]
        if not found:
            raise ExportError(f"{self._directory} has no web archive: add --output warc to keep one")
        return found

    def _files(self, partition: Partition, ends: dict[int, int]) -> Iterator[WarcFile]:
        job, form = partition.directory, FORMS[WARC]
        # The robots.txt of a host without archived pages may follow the last page. If the job is running, leave it out,
        # because a crash may still undo it.
        end = None if lock_holder(job) is not None else ends_of_outputs(job).get(WARC)
        if end is not None and end.offset:
            number = file_in_output(end.file)
            ends[number] = max(ends.get(number, 0), end.offset)
        last = max(ends, default=0)
        for number in sorted({*form.numbers(job), *ends} if ends else ()):
            path = form.path(job, number)
            if not path.exists():
                raise SourceError(f"{path} is missing: put it back")
            if number <= last:
                yield WarcFile(
                    path, ends[number] if number == last else path.stat().st_size, self._name(partition, path)
                )

    def _name(self, partition: Partition, path: Path) -> str:
        """Return the name of a file in the index."""
        if not partition.of_crawl:
            return path.name
        return f"{partition.number:02}-{path.name}" if self._in_package else str(path.relative_to(self._directory))


# Matches a line of an index that this program wrote, by the name of the WARC file in the line.
_OUR_LINE = re.compile(
    rb'[^ ]+ [0-9]{14} \{"url": .*"filename": "(?:partitions/[0-9]{2,}/warc/)?'
    + FORMS[WARC].stem.encode()
    + rb'[0-9]{6,8}\.warc\.gz"\}'
)
_LINE_MOST = 2**20


def _is_index(stream: BinaryIO) -> bool:
    return _OUR_LINE.match(stream.readline(_LINE_MOST)) is not None


def write_index(job: Path, out: Path) -> Packed:
    """Write the CDXJ index of the archive to the file ``out``. Raises ExportError, SourceError, JobError, OSError and
    any of DAMAGE."""
    out, source = free_file(out, job, _is_index), _Source(job, in_package=False)
    for _ in source.records():
        pass
    files = source.files()
    with file_made_beside(out) as part:
        count = 0
        with open(part / out.name, "wb") as stream:
            for line in _index(files, part):
                stream.write(line)
                count += 1
    return Packed(0, count, len(files), out.stat().st_size)


def package_place(job: Path, out: Path) -> Path:
    """Return the absolute path of ``out``, which must be outside the job's directory, or be ``archive.wacz`` in it.
    Raises ExportError if the archive cannot be written there, and OSError."""
    if out.suffix != ".wacz":
        raise ExportError(f"{out}: readers expect a name that ends in .wacz")
    return free_file(out, None if _is_own(job, out) else job, is_package)


def _is_own(job: Path, out: Path) -> bool:
    return os.path.abspath(out) == os.path.abspath(job / ARCHIVE)


def write_package(job: Path, out: Path, version: str, now: float, spare: int = 0) -> Packed:
    """Write the archive as WACZ to the file ``out``. If that would leave fewer than ``spare`` bytes of the disk free,
    raise OSError instead. ``version`` is that of this program. Raises ExportError, SourceError, JobError, OSError and
    any of DAMAGE."""
    out, source = package_place(job, out), _Source(job, in_package=True)
    with file_made_beside(out) as part:
        (part / out.name).touch(0o600 if _is_own(job, out) else 0o666)
        writer = WaczWriter(part / out.name, now)
        try:
            writer.pages(source.archived_pages())
            files = source.files()
            _check_room(part, sum(file.end for file in files), spare)
            for file in files:
                writer.warc(file)
            captures = writer.index(_index(files, part))
            writer.finish(job.resolve().name, version)
        finally:
            writer.close()
    return Packed(source.pages, captures, len(files), out.stat().st_size)


def _check_room(directory: Path, size: int, spare: int) -> None:
    """Raise OSError, rather than fill the disk, if it cannot take ``size`` more bytes."""
    free = shutil.disk_usage(directory).free
    if size + spare > free:
        kept = f", of which {spare:,} must stay free (durability.min_free)" if spare else ""
        raise OSError(f"it needs {size:,} bytes, but its disk has {free:,} free{kept}")


def _is_page(record: Record) -> bool:
    good = record["outcome"] == Outcome.FETCHED and record.get("status") == 200 and not record.get("probe")
    return good and record.get("content_type") in _PAGE_TYPES


def _index(files: list[WarcFile], directory: Path) -> Iterator[bytes]:
    """Yield the lines of the index in order. Data that does not fit into memory is written to ``directory``."""
    lines = SortedLines(directory)
    for file in files:
        with open(file.path, "rb") as stream:
            left = file.end

            def read(size: int, stream: Any = stream) -> bytes:
                nonlocal left
                piece: bytes = stream.read(min(size, left))
                left -= len(piece)
                return piece

            try:
                for found in read_records(read, HEAD_MOST):
                    line = line_of(found, file.name)
                    if line is not None:
                        lines.add(line)
            except WarcError as error:
                raise SourceError(f"{file.path}: {error}; run `crawler verify`") from error
            if left:
                raise SourceError(f"{file.path}: {left} bytes are missing at its end; run `crawler verify`")
    yield from lines
