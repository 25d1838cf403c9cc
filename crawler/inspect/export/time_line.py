"""Counts over time in at most ``COLUMNS`` columns, for a span that is not known before: whenever there are too many,
columns become twice as wide."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from crawler.job.output import Record
from crawler.job.survey import is_broken, is_unfetched, time_of

COLUMNS = 180
GOOD, BROKEN, NOT_FETCHED = "good", "broken", "not fetched"  # the kinds of records


class Columns(NamedTuple):
    """``counts``: of each column from the time ``start`` (seconds since 1970) on, by kind; each is ``width`` seconds
    wide."""

    start: int
    width: int
    counts: list[Counter[str]]


class TimeLine:
    """Counts of kinds over time."""

    def __init__(self) -> None:
        self._width = 1
        self._counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._first = self._last = 0

    def add_record(self, record: Record) -> None:
        """Count a visit."""
        moment = time_of(record.get("fetched_at"))
        if moment is not None:
            self.add(moment / 1000, BROKEN if is_broken(record) else NOT_FETCHED if is_unfetched(record) else GOOD)

    def add(self, moment: float, kind: str) -> None:
        """Count one of that kind at ``moment`` (seconds since 1970)."""
        place = int(moment // self._width)
        if not self._counts:
            self._first = self._last = place
        elif place < self._first or place > self._last:
            self._first, self._last = min(self._first, place), max(self._last, place)
            while self._last - self._first >= COLUMNS:
                self._widen()
            place = int(moment // self._width)
        self._counts[place][kind] += 1

    def _widen(self) -> None:
        wider: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for place, counts in self._counts.items():
            wider[place // 2].update(counts)
        self._counts, self._width = wider, self._width * 2
        self._first //= 2
        self._last //= 2

    def columns(self) -> Columns | None:
        """All columns from the first to the last; None if nothing was counted."""
        if not self._counts:
            return None
        counts = [self._counts.get(place, Counter()) for place in range(self._first, self._last + 1)]
        return Columns(self._first * self._width, self._width, counts)
