"""Chooses records of a job for a download, and reads their lines piece by piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from crawler.inspect.record_stream import Tail, checked
from crawler.job.output import Record
from crawler.job.records import Outcome
from crawler.job.survey.record_kinds import is_broken
from crawler.url.urls.host_key import host_key

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
        """Return the choice for ``kind=`` of a query. Raises ValueError with one line."""
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
        """Return the record of a line, at an offset, if it is chosen. Raises JournalError."""
        if not self._may_be(line):
            return None
        record = checked(line, offset)
        return record if self._is(record) else None

    def _may_be(self, line: bytes) -> bool:
        """Return False if the line cannot be chosen, without decoding it."""
        if self.kind == "failed":
            return _FAILED.search(line) is not None
        if self.kind == "broken":
            return _BROKEN.search(line) is not None
        return self.kind == "all" or self.host.rpartition(":")[0].encode("ascii", "replace") in line

    def _is(self, record: Record) -> bool:
        if record.get("probe") and self.kind != "all":
            return False
        if self.kind == "failed":
            return record["outcome"] == Outcome.FAILED
        if self.kind == "broken":
            return is_broken(record)
        return self.kind == "all" or host_key(str(record["url"])) == self.host


def pieces(choice: RecordChoice, job: Path, end: int) -> Iterator[Lines]:
    """Yield the chosen records before ``end``, one list per piece. Raises JobError, JournalError, OSError."""
    tail = Tail(job, end=lambda: end)
    while tail.at < end:
        lines = ((line, choice.of(line, offset)) for offset, line in tail.placed(PIECE))
        yield [(line, record) for line, record in lines if record is not None]
