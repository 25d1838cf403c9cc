"""The web archive of a job for others: its index, or all of it as one file.

What is exported ends with the last record of ``pages.jsonl`` that no crash can undo: whatever the WARC files have up to
there is durable too. The files are read from their beginnings, since only they say where each record is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from msgspec import Struct, field

from crawler.archive.cdxj import HEAD_MOST, line_of
from crawler.archive.warc_reader import WarcError, read_records
from crawler.export.beside import ExportError, SourceError, file_made_beside, free_file
from crawler.export.final_records import final_records
from crawler.export.kept_parts import ends_of_outputs
from crawler.export.sorted_lines import SortedLines
from crawler.export.wacz import ArchivedPage, WaczWriter, WarcFile, is_package
from crawler.job.job_lock import lock_holder
from crawler.output import Record
from crawler.output.outputs import FORMS
from crawler.records import Outcome, file_in_output
from crawler.settings import OUTPUTS

WARC = OUTPUTS.index("warc") + 1

_PAGE_TYPES = ("text/html", "application/xhtml+xml")


class Indexed(NamedTuple):
    """What an index holds."""

    captures: int
    files: int
    size: int  # bytes of OUT


class Packed(NamedTuple):
    """What a package holds."""

    pages: int
    captures: int
    files: int
    size: int  # bytes of OUT


class _Survey(Struct):
    """What the records say of the archive: where each file ends, by its number, and how many pages there are."""

    ends: dict[int, int] = field(default_factory=dict)
    pages: int = 0

    def add(self, record: Record) -> bool:
        """Note where the archive has the answer to a URL; returns whether it does."""
        kept: Any = record.get("kept")
        place = kept.get("warc") if isinstance(kept, dict) else None
        if place is None:
            return False
        number, start, length, _ = place
        self.ends[number] = max(self.ends.get(number, 0), start + length)
        return True

    def add_end(self, job: Path) -> None:
        """Note the end of the archive of a job that is not running: behind the last page may be the robots.txt of a
        host of which no page was archived. Of a running one it may still be undone."""
        if lock_holder(job) is not None:
            return
        end = ends_of_outputs(job).get(WARC)
        if end is not None and end.offset:
            number = file_in_output(end.file)
            self.ends[number] = max(self.ends.get(number, 0), end.offset)

    def files(self, job: Path) -> list[WarcFile]:
        """The files, in order. Raises ExportError if there are none, SourceError if one is missing."""
        self.add_end(job)
        if not self.ends:
            raise ExportError(f"{job} has no web archive: --output warc keeps one")
        form, last, found = FORMS[WARC], max(self.ends), list[WarcFile]()
        for number in sorted({*form.numbers(job), *self.ends}):
            path = form.path(job, number)
            if not path.exists():
                raise SourceError(f"{path} is missing: put it back")
            if number <= last:
                found.append(WarcFile(path, self.ends[number] if number == last else path.stat().st_size))
        return found


# A line of an index of ours: it names a file of an archive as this program does.
_OUR_LINE = re.compile(
    rb'[^ ]+ [0-9]{14} \{"url": .*"filename": "' + FORMS[WARC].stem.encode() + rb'[0-9]{6,8}\.warc\.gz"\}'
)
_LINE_MOST = 2**20


def _is_index(stream: BinaryIO) -> bool:
    return _OUR_LINE.match(stream.readline(_LINE_MOST)) is not None


def write_index(job: Path, out: Path) -> Indexed:
    """Write the index of the job's archive, CDXJ, to the file ``out``. Raises ExportError, SourceError, JobError,
    OSError and JournalError."""
    out, survey = free_file(out, job, _is_index), _Survey()
    for record, _ in final_records(job):
        survey.add(record)
    files = survey.files(job)
    with file_made_beside(out) as part:
        count = 0
        with open(part / out.name, "wb") as stream:
            for line in _index(files, part):
                stream.write(line)
                count += 1
    return Indexed(count, len(files), out.stat().st_size)


def write_package(job: Path, out: Path, version: str, now: float) -> Packed:
    """Write the job's archive as WACZ to the file ``out``. ``version`` is that of this program. Raises ExportError,
    SourceError, JobError, OSError and JournalError."""
    if out.suffix != ".wacz":
        raise ExportError(f"{out}: readers want a name that ends in .wacz")
    out, survey = free_file(out, job, is_package), _Survey()
    with file_made_beside(out) as part:
        writer = WaczWriter(part / out.name, now)
        try:
            writer.pages(_pages(job, survey))
            files = survey.files(job)
            for file in files:
                writer.warc(file)
            captures = writer.index(_index(files, part))
            writer.finish(job.resolve().name, version)
        finally:
            writer.close()
    return Packed(survey.pages, captures, len(files), out.stat().st_size)


def _pages(job: Path, survey: _Survey) -> Iterator[ArchivedPage]:
    for record, _ in final_records(job):
        if survey.add(record) and _is_page(record):
            survey.pages += 1
            title = record.get("title")
            yield ArchivedPage(str(record["url"]), str(record["fetched_at"]), title if isinstance(title, str) else None)


def _is_page(record: Record) -> bool:
    good = record["outcome"] == Outcome.FETCHED and record.get("status") == 200 and not record.get("probe")
    return good and record.get("content_type") in _PAGE_TYPES


def _index(files: list[WarcFile], directory: Path) -> Iterator[bytes]:
    """The lines of the index, in order. ``directory`` holds what does not fit into memory."""
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
                    line = line_of(found, file.path.name)
                    if line is not None:
                        lines.add(line)
            except WarcError as error:
                raise SourceError(f"{file.path}: {error}; run `crawler verify`") from error
            if left:
                raise SourceError(f"{file.path}: {left} bytes are missing at its end; run `crawler verify`")
    yield from lines
