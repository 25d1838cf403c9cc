"""Counts the records of a job or crawl of partitions as they become final, for its dashboard, and
reads those chosen for a download."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.record_stream import ReplacedError, Tail
from crawler.job.directory import PAGES
from crawler.job.output.record_reader import Record, decoded
from crawler.job.records import Outcome
from crawler.job.survey.record_kinds import is_broken
from crawler.job.survey.survey import Survey
from crawler.url.urls.host_key import host_key

FinalRecords = list[tuple[Path, int]]  # jobs, each with the end of its final records


class SurveyReader:
    """Counts, in ``survey``, the records of the job in ``directory``; those of a crawl's partitions are counted in
    turn, one piece of each at a time. All calls must come from one thread."""

    def __init__(self, directory: Path, end: Callable[[], int | None] | None = None) -> None:
        """``end`` returns the offset up to which the job's records are final, or None if it is not known yet. Without
        ``end``, this offset is read from the files."""
        self.survey = Survey()
        self._directory = directory
        self._end = end
        self._tails: dict[Path, Tail] = {}
        self._ends: dict[Path, int | None] = {}

    @property
    def is_known(self) -> bool:
        """True if the end of the final records is known for at least one job."""
        return any(end is not None for end in self._ends.values())

    @property
    def part(self) -> float:
        """The share of the final records that has been counted, from 0 to 1."""
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
        """Return the jobs, each with the end of its final records; None until these ends are known for all jobs. Raises
        the exceptions of ``end``."""
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
                    self.survey.add(decoded(offset, line, PAGES))
            except ReplacedError:  # a repair or a restored backup did it; a survey cannot subtract records
                self.survey, self._tails, self._ends = Survey(), {}, {}
                return

    def _found(self) -> dict[Path, Tail]:
        jobs = [self._directory]
        if self._end is None:
            jobs = crawl_partitions(self._directory).jobs
        elif self._end() is None:
            return {}  # the job may not exist yet
        return {job: self._tails.get(job) or Tail(job, end=self._end) for job in jobs}


KINDS = ("all", "failed", "broken")
HOST = "host:"
PIECE = 256 * 1024  # bytes of records read in one step, which takes a few milliseconds

_FAILED = re.compile(b'"outcome":"failed"')
_BROKEN = re.compile(b'"status":[4-9][0-9]|"outcome":"soft404"')


Lines = list[tuple[bytes, Record]]  # each line with its record


class RecordChoice(Struct, frozen=True):
    """``kind`` is one of ``KINDS``, or empty with a ``host``."""

    kind: str
    host: str = ""

    @classmethod
    def parse(cls, text: str) -> RecordChoice:
        """Return the choice for the value of ``kind=`` in a query. Raises ValueError with a one-line message."""
        if text in KINDS:
            return cls(text)
        host = text.removeprefix(HOST).lower()
        if not text.startswith(HOST) or not host:
            raise ValueError(f"kind must be {', '.join(KINDS)} or {HOST}NAME:PORT, as in {HOST}a.test:80.")
        return cls("", host)

    @property
    def name(self) -> str:
        """The name of a file with these records, without its extension."""
        return "records" if self.kind == "all" else self.kind or f"host-{self.host}"

    def of(self, line: bytes, offset: int) -> Record | None:
        """Return the record in the line at that offset, if it is chosen. Raises JournalError."""
        if not self._may_be(line):
            return None
        record = decoded(offset, line, PAGES)
        return record if self._is(record) else None

    def _may_be(self, line: bytes) -> bool:
        """Return False if the line, before it is decoded, already shows that its record is not chosen."""
        if self.kind == "failed":
            return _FAILED.search(line) is not None
        if self.kind == "broken":
            return _BROKEN.search(line) is not None
        return self.kind == "all" or self.host.rpartition(":")[0].encode("ascii", "replace") in line

    def _is(self, record: Record) -> bool:
        if record.get("probe") and self.kind != "all":
            return False
        if self.kind == "failed":
            return str(record["outcome"]) == Outcome.FAILED
        if self.kind == "broken":
            return is_broken(record)
        return self.kind == "all" or host_key(str(record["url"])) == self.host


def pieces(choice: RecordChoice, job: Path, end: int) -> Iterator[Lines]:
    """Yield the chosen records before ``end``, one list per piece. Raises JobError, JournalError, OSError."""
    tail = Tail(job, end=lambda: end)
    while tail.at < end:
        lines = ((line, choice.of(line, offset)) for offset, line in tail.placed(PIECE))
        yield [(line, record) for line, record in lines if record is not None]
