"""Counts the records of a job or of a crawl of partitions as they become final, for its dashboard."""

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

FinalRecords = list[tuple[Path, int]]  # files of records, and how far they are final
PIECE = 64 * 1024  # bytes of records that are counted in one step: some milliseconds


class _Source(Struct):
    """The records of a job: how far they are final, as far as that is known, and how far they were counted."""

    path: Path
    ask_end: Callable[[], int | None]
    end: int | None = None
    at: int = 0  # where what was counted ends
    file: tuple[int, int] | None = None

    def was_replaced(self) -> bool:
        """Whether a repair or a restored backup replaced the records since the last call, or cut off what was
        counted."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        before, self.file = self.file, (found.st_dev, found.st_ino)
        return self.at > (self.end or 0) or before not in (None, self.file)


class SurveyReader:
    """``survey`` counts the records of the job in ``directory``, or of the partitions of the crawl there, a piece of
    one after a piece of the other. Belongs to one thread."""

    def __init__(self, directory: Path, end: Callable[[], int | None] | None = None) -> None:
        """``end`` returns how far the records of the job are final, None if that is not known yet. Without it, the
        files say so."""
        self.survey = Survey()
        self._directory = directory
        self._end = end
        self._sources: dict[Path, _Source] = {}

    @property
    def is_known(self) -> bool:
        """Whether it is known how far the records of some job are final."""
        return any(source.end is not None for source in self._sources.values())

    @property
    def part(self) -> float:
        """How much of the final records was counted, 0 to 1."""
        if not self.is_known:
            return 0.0
        final = sum(source.end or 0 for source in self._sources.values())
        return min(1.0, sum(source.at for source in self._sources.values()) / final) if final else 1.0

    @property
    def is_complete(self) -> bool:
        """Whether all records that are final were counted, at the last step."""
        ends = [(source.end, source.at) for source in self._sources.values()]
        return bool(ends) and all(end is not None and at >= end for end, at in ends)

    def final(self) -> FinalRecords | None:
        """Which records are final now; None until that is known of all jobs. Raises what asking for the end raises."""
        found = [(source.path, source.ask_end()) for source in self._found().values()]
        final = [(path, end) for path, end in found if end is not None]
        return final if len(final) == len(found) else None

    def step(self) -> None:
        """Count some more records of each job. Raises JournalError, OSError, and what asking for the end raises."""
        self._sources = self._found() | self._sources
        for source in self._sources.values():
            source.end = source.ask_end()
            if source.end is None:
                continue
            if source.was_replaced():
                # What the records told cannot be taken back.
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
