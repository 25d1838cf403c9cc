"""Visits over time, in at most ``COLUMNS`` columns."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import NamedTuple

from crawler.job.output import Record
from crawler.job.survey.record_kinds import is_broken, is_unfetched, time_of

COLUMNS = 180
KINDS = GOOD, BROKEN, NOT_FETCHED = "good", "broken", "not fetched"


class Columns(NamedTuple):
    """``counts``: of each column from the time ``start`` (seconds since 1970) on, by kind; each is ``width`` seconds
    wide."""

    start: int
    width: int
    counts: list[Counter[str]]


class TimeLine:
    """The times of visits by kind: 8 bytes each."""

    def __init__(self) -> None:
        self.times = {kind: array("q") for kind in KINDS}

    def add(self, record: Record) -> None:
        """Count a visit."""
        moment = time_of(record.get("fetched_at"))
        if moment is not None:
            kind = BROKEN if is_broken(record) else NOT_FETCHED if is_unfetched(record) else GOOD
            self.times[kind].append(moment // 1000)

    def columns(self) -> Columns | None:
        """All columns from the first to the last; None if nothing was counted."""
        ends = [each(times) for times in self.times.values() if times for each in (min, max)]
        if not ends:
            return None
        start, last = min(ends), max(ends)
        width = (last - start) // COLUMNS + 1
        counts = [Counter[str]() for _ in range((last - start) // width + 1)]
        for kind, times in self.times.items():
            for moment in times:
                counts[(moment - start) // width][kind] += 1
        return Columns(start, width, counts)
