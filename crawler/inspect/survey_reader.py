"""Counts the records of a job or crawl of partitions as they become final, for its dashboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.record_stream import Tail
from crawler.job.directory import PAGES
from crawler.job.output import lines_of, record_of
from crawler.job.output.record_text import path_at
from crawler.job.records import JournalError
from crawler.job.survey.survey import Survey

FinalRecords = list[tuple[Path, int]]  # files of records, each with the end of its final records
PIECE = 64 * 1024  # bytes of records counted in one step, which takes a few milliseconds


class _Source(Struct):
    """The records of a job: the end of the final ones, if known, and of those counted."""

    path: Path
    ask_end: Callable[[], int | None]
    end: int | None = None
    at: int = 0  # end of the records counted
    file: tuple[int, int] | None = None

    def was_replaced(self) -> bool:
        """True if a repair or restored backup has replaced the records since the last call, or removed counted ones."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        before, self.file = self.file, (found.st_dev, found.st_ino)
        return self.at > (self.end or 0) or before not in (None, self.file)


class SurveyReader:
    """``survey`` counts the records of the job in ``directory``, or of the crawl's partitions there, which take turns
    piece by piece. Belongs to one thread."""

    def __init__(self, directory: Path, end: Callable[[], int | None] | None = None) -> None:
        """``end`` returns how far the job's records are final, None if not known yet. Without ``end``, this is read
        from the files."""
        self.survey = Survey()
        self._directory = directory
        self._end = end
        self._sources: dict[Path, _Source] = {}

    @property
    def is_known(self) -> bool:
        """True if it is known for some job how far its records are final."""
        return any(source.end is not None for source in self._sources.values())

    @property
    def part(self) -> float:
        """The share of the final records that was counted, 0 to 1."""
        if not self.is_known:
            return 0.0
        final = sum(source.end or 0 for source in self._sources.values())
        return min(1.0, sum(source.at for source in self._sources.values()) / final) if final else 1.0

    @property
    def is_complete(self) -> bool:
        """True if all records that were final at the last step have been counted."""
        ends = [(source.end, source.at) for source in self._sources.values()]
        return bool(ends) and all(end is not None and at >= end for end, at in ends)

    def final(self) -> FinalRecords | None:
        """Return the final records; None until they are known for all jobs. Raises the exceptions of ``end``."""
        found = [(source.path, source.ask_end()) for source in self._found().values()]
        final = [(path, end) for path, end in found if end is not None]
        return final if len(final) == len(found) else None

    def step(self) -> None:
        """Count some more records of each job. Raises JournalError, OSError and the exceptions of ``end``."""
        self._sources = self._found() | self._sources
        for source in self._sources.values():
            source.end = source.ask_end()
            if source.end is None:
                continue
            if source.was_replaced():
                # Counted records cannot be removed from a survey.
                self.survey, self._sources = Survey(), {}
                return
            self._count(source, source.end)

    def _count(self, source: _Source, end: int) -> None:
        at = source.at
        if at >= end:
            return
        until, line = min(end, at + PIECE), b""
        for offset, line in lines_of(source.path, until, at):
            record = record_of(line)
            if record is None or offset + len(line) > end:
                name = path_at(source.path, offset).name
                raise JournalError(f"{name}: offset {offset}: not a record; run `crawler verify`")
            self.survey.add(record)
            at = offset + len(line)
        if not line:
            raise JournalError(f"{PAGES}: offset {at}: records up to {end} are missing; run `crawler verify`")
        source.at = at

    def _found(self) -> dict[Path, _Source]:
        if self._end is not None:
            return {self._directory: _Source(self._directory / PAGES, self._end)}
        known = self._sources
        return {
            job: known.get(job) or _Source(job / PAGES, Tail(job).end) for job in crawl_partitions(self._directory).jobs
        }
