"""Counts the records of a job or crawl of partitions as they become final, for its dashboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.record_stream import ReplacedError, Tail, checked
from crawler.job.survey.survey import Survey

FinalRecords = list[tuple[Path, int]]  # jobs, each with the end of its final records
PIECE = 64 * 1024  # bytes of records counted in one step, which takes a few milliseconds


class SurveyReader:
    """``survey`` counts the records of the job in ``directory``, or of the crawl's partitions there, which take turns
    piece by piece. Belongs to one thread."""

    def __init__(self, directory: Path, end: Callable[[], int | None] | None = None) -> None:
        """``end`` returns how far the job's records are final, None if not known yet. Without ``end``, this is read
        from the files."""
        self.survey = Survey()
        self._directory = directory
        self._end = end
        self._tails: dict[Path, Tail] = {}
        self._ends: dict[Path, int | None] = {}

    @property
    def is_known(self) -> bool:
        """True if it is known for some job how far its records are final."""
        return any(end is not None for end in self._ends.values())

    @property
    def part(self) -> float:
        """The share of the final records that was counted, 0 to 1."""
        if not self.is_known:
            return 0.0
        final = sum(end or 0 for end in self._ends.values())
        return min(1.0, sum(tail.at for tail in self._tails.values()) / final) if final else 1.0

    @property
    def is_complete(self) -> bool:
        """True if all records that were final at the last step have been counted."""
        ends = [(end, self._tails[job].at) for job, end in self._ends.items()]
        return bool(ends) and all(end is not None and at >= end for end, at in ends)

    def final(self) -> FinalRecords | None:
        """Return the final records; None until they are known for all jobs. Raises the exceptions of ``end``."""
        found = [(job, tail.end()) for job, tail in self._found().items()]
        final = [(job, end) for job, end in found if end is not None]
        return final if final and len(final) == len(found) else None

    def step(self) -> None:
        """Count some more records of each job. Raises JobError, JournalError, OSError and the exceptions of ``end``."""
        self._tails = self._found() | self._tails
        for job, tail in self._tails.items():
            self._ends[job] = tail.end()
            try:
                for offset, line in tail.placed(PIECE):
                    self.survey.add(checked(line, offset))
            except ReplacedError:  # by a repair or a restored backup; counted records cannot be removed from a survey
                self.survey, self._tails, self._ends = Survey(), {}, {}
                return

    def _found(self) -> dict[Path, Tail]:
        jobs = [self._directory]
        if self._end is None:
            jobs = crawl_partitions(self._directory).jobs
        elif self._end() is None:
            return {}  # the job may not exist yet
        return {job: self._tails.get(job) or Tail(job, end=self._end) for job in jobs}
