"""The history of a crawl as time series that stay small however long it runs.

An observation is stored unchanged: counters as counts, not as rates. A rate is the difference of two kept observations
divided by the time between them. So it remains the exact mean over a longer time when observations in between are
dropped. There are three series:

- ``recent``: the last ``RECENT`` seconds, one observation per second;
- ``hour``: the last ``HOUR`` seconds, one per ten seconds;
- ``all``: observations at equal distances since the job started. Whenever the series reaches ``MOST``, every second
observation is dropped, and the distance doubles.

``dump`` and ``restore`` store and load the series, so that they outlast a run.

``EvenCounts`` sums counters over the partitions of a crawl, which report at different times, as of one point in time.
A partition reports every few seconds, and immediately when another process takes it over. Summing the latest reports
would make the rate of a partition drop to zero between reports, and would count all pages of a moved partition at a
single moment. So counts are interpolated linearly between reports, and summed as of a time up to which each partition
has reported.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from crawler.job.metrics.catalogue import total, value_at

RECENT = 300.0  # seconds
HOUR = 3600.0
MOST = 600
# Observations come a little early or late. These steps accept each one that is due, and at most one per step.
_RECENT_STEP = 0.75
_HOUR_STEP = 9.5
_NEARLY = 0.95
_HOUR_POINTS = 360

Value = float | None
Series = dict[str, list[Value]]

# Name of a rate (per second) -> the counter from which it is computed.
_RATES = {
    "pages_per_second": "pages_fetched",
    "bytes_per_second": "bytes_fetched",
    "commits_per_second": "commits",
}
COUNTERS = tuple(_RATES.values())  # the keys of statistics from which rates are computed
_LEVELS = {
    "pending": "urls_pending",
    "in_flight": "urls_in_flight",
    "hosts_pending": "hosts_pending",
    "failed": "urls_by_outcome.failed",
    "client_errors": "pages_by_status.4xx",
    "server_errors": "pages_by_status.5xx",
    "soft404": "urls_by_outcome.soft404",
    "blocked": "urls_by_outcome.blocked",
    "memory": "memory_bytes",
    "seen_bytes": "seen.bytes",
    "skipped": "seen.expected_urls_skipped",
    "fpp_estimated": "seen.fpp_estimated",
    "fpp_target": "seen.fpp_target",
    "fpp_bound": "seen.fpp_bound",
    "fpp_measured": "seen.fpp_measured.value",
    "fpp_measured_low": "seen.fpp_measured.low",
    "fpp_measured_high": "seen.fpp_measured.high",
}
_PATHS = (*_RATES.values(), *_LEVELS.values())
_ADDED = len(_PATHS) - 6  # leading paths whose values are summed over several jobs; the last six are probabilities
_COLUMNS = ("t", *(path.replace(".", "_") for path in _PATHS))

Row = tuple[float, tuple[Value, ...]]  # time, values in the order of `_PATHS`


class HistoryError(ValueError):
    """The stored data is not a history."""


class _Window:
    """The last ``span`` seconds, in fewer than ``MOST`` observations at least ``step`` seconds apart."""

    def __init__(self, step: float, span: float = math.inf) -> None:
        self.span = span
        self._step = step
        self.rows: deque[Row] = deque()

    def fill(self, rows: Sequence[Row]) -> None:
        """Replace the observations. Later ones are added at the same distance in time as these."""
        self.rows = deque(rows)
        if self.span == math.inf and len(rows) > 1:
            self._step = _NEARLY * min(after[0] - before[0] for before, after in pairwise(rows))

    def add(self, row: Row) -> None:
        rows, now = self.rows, row[0]
        if rows and now - rows[-1][0] < self._step:
            return
        rows.append(row)
        while now - rows[0][0] > self.span:
            rows.popleft()
        if len(rows) == MOST:
            self.fill(list(rows)[1::2])  # keep every second one, including the newest


class History:
    """The observations of a job. The caller sets their pace (for example once a second)."""

    def __init__(self) -> None:
        self._windows = {
            "recent": _Window(_RECENT_STEP, RECENT),
            "hour": _Window(_HOUR_STEP, HOUR),
            "all": _Window(_RECENT_STEP),
        }
        self._last: Row | None = None
        self._before: Row | None = None

    def observe(self, now: float, stats: Mapping[str, Any]) -> None:
        """Add ``stats`` as observed at ``now`` (seconds, increasing).

        An observation that is not later than the last one is ignored.
        """
        if self._last is not None and now <= self._last[0]:
            return
        row = (now, tuple(value_at(stats, path) for path in _PATHS))
        if self._last is None or now - self._last[0] >= _RECENT_STEP:  # a rate over a shorter time is noise
            self._before = self._last
        self._last = row
        for window in self._windows.values():
            window.add(row)

    @classmethod
    def pooled(cls, histories: Sequence[History]) -> History:
        """Return the sum of several histories: at each time, the sum of the observations of all jobs.

        A job counts as empty before its first observation. Levels that cannot be added are null."""
        made = cls()
        rows = [[row for window in each._windows.values() for row in window.rows] for each in histories]
        told = [sorted({row[0]: row for row in some}.values(), key=_time_of) for some in rows]
        ends = [some[-1][0] for some in told if some]
        if not ends:
            return made
        first, last = min(some[0][0] for some in told if some), max(ends)
        steps = (1.0, HOUR / _HOUR_POINTS, max(1.0, (last - first) / (MOST // 2)))
        for window, step in zip(made._windows.values(), steps, strict=True):
            window.fill(_together(told, max(first, last - window.span), last, step))
        made._last = made._windows["all"].rows[-1]
        return made

    def series(self) -> dict[str, Series]:
        """Return ``{"recent": series, "hour": series, "all": series}``; each series has lists of equal length.

        ``t`` is in seconds, as observed. The other lists have the names of rates (the mean since the previous point,
        null at the first) and of levels. Each list ends with the last observation.
        """
        return {name: _columns(self._until_last(window)) for name, window in self._windows.items()}

    def _until_last(self, window: _Window) -> Iterable[Row]:
        """Return the observations of a window, with the last one of all instead of those shortly before it."""
        last = self._last
        return [*(row for row in window.rows if row[0] <= last[0] - _RECENT_STEP), last] if last else []

    def point(self) -> dict[str, Value]:
        """Return the last observation by name, with rates since the previous one; empty before the first."""
        if self._last is None:
            return {}
        last = _columns([row for row in (self._before, self._last) if row is not None])
        return {name: values[-1] for name, values in last.items()}

    def dump(self) -> dict[str, Any]:
        """Return a mapping for ``restore``: the columns of each series, each a line of numbers, with a hyphen for
        null."""
        recent = self._until_last(self._windows["recent"])
        return {name: _written(window.rows) for name, window in self._windows.items()} | {"recent": _written(recent)}

    def restore(self, content: Mapping[str, Any], now: float) -> None:
        """Restore what ``dump`` returned. Observations after ``now`` are dropped (the clock was set back).

        Raises HistoryError, in which case nothing is changed."""
        try:
            read = {name: _read(content[name]) for name in self._windows}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HistoryError(f"not a history: {error}") from error
        if any(len(rows) > MOST for rows in read.values()):
            raise HistoryError("not a history: it was thinned in another way")
        for name, window in self._windows.items():
            window.fill([row for row in read[name] if row[0] < now])
        ends = [window.rows[-1] for window in self._windows.values() if window.rows]
        self._last = max(ends, key=_time_of, default=None)


def _together(told: Sequence[Sequence[Row]], first: float, last: float, step: float) -> list[Row]:
    """Return a row every ``step`` seconds from ``first`` to ``last``, both included."""
    count = int((last - first) / step)
    times = [last - step * (count - number) for number in range(count + 1)]
    return [_sum_at(told, time) for time in times]


def _sum_at(told: Sequence[Sequence[Row]], time: float) -> Row:
    there = [_row_at(rows, time)[1] for rows in told if rows and rows[0][0] <= time]
    columns = ([values[place] for values in there] for place in range(len(_PATHS)))
    return time, tuple(total(column) if place < _ADDED else None for place, column in enumerate(columns))


def _row_at(rows: Sequence[Row], time: float) -> Row:
    """Return the row at ``time``. Counters are interpolated linearly between two rows."""
    place = bisect_right(rows, time, key=_time_of)
    before = rows[place - 1]
    if place == len(rows):
        return before
    after = rows[place]
    part = (time - before[0]) / (after[0] - before[0])
    values = [
        old if place >= len(_RATES) or old is None or new is None or new < old else old + part * (new - old)
        for place, (old, new) in enumerate(zip(before[1], after[1], strict=True))
    ]
    return time, tuple(values)


def _time_of(row: Row) -> float:
    return row[0]


def _columns(rows: Iterable[Row]) -> Series:
    names = ("t", *_RATES, *_LEVELS)
    table: list[tuple[Value, ...]] = []
    before: Row | None = None
    for time, values in rows:
        rates: Sequence[Value] = [None] * len(_RATES)
        if before is not None:
            last, seconds = before[1][: len(_RATES)], time - before[0]
            rates = [_rate(old, new, seconds) for old, new in zip(last, values, strict=False)]
        table.append((time, *rates, *values[len(_RATES) :]))
        before = time, values
    return {name: [line[column] for line in table] for column, name in enumerate(names)}


def _rate(before: Value, after: Value, seconds: float) -> Value:
    """Return the rate per second; None if a value is unknown, or if the counter fell because it was reset."""
    if before is None or after is None or after < before:
        return None
    return round((after - before) / seconds, 3)


def _written(rows: Iterable[Row]) -> dict[str, str]:
    lines = [(time, *values) for time, values in rows]
    written = {
        name: " ".join("-" if line[column] is None else f"{line[column]:.12g}" for line in lines)
        for column, name in enumerate(_COLUMNS)
    }
    # Times need 17 digits: with 12, two times less than a hundredth of a second apart would be equal, and times must
    # increase.
    return {**written, _COLUMNS[0]: " ".join(f"{line[0]:.17g}" for line in lines)}


def _read(columns: Mapping[str, str]) -> list[Row]:
    """Read the columns. A missing column reads as null; an unknown one is ignored."""
    times = [float(word) for word in columns["t"].split()]
    table: list[list[Value]] = []
    for name in _COLUMNS[1:]:
        words = columns[name].split() if name in columns else ["-"] * len(times)
        if len(words) != len(times):
            raise ValueError(f"{len(words)} values of {name} for {len(times)} times")
        table.append([None if word == "-" else float(word) for word in words])
    numbers = [*times, *(value for column in table for value in column if value is not None)]
    if not all(map(math.isfinite, numbers)) or sorted(set(times)) != times:
        raise ValueError("times that do not increase, or a value that is not a number")
    return list(zip(times, zip(*table, strict=True), strict=True)) if times else []


_KEPT = 64  # reports kept per partition: more than arrive in two reporting intervals
_OF_OPENING = "commits"  # restarts at 0 whenever a job is opened

_Telling = tuple[float, list[float]]  # time, counts


class EvenCounts:
    """Recent counts of all partitions."""

    def __init__(self, counters: Iterable[str]) -> None:
        """``counters``: keys of statistics whose values only increase."""
        self._counters = tuple(counters)
        self._told: dict[int, deque[_Telling]] = {}
        self._raw: dict[int, list[float]] = {}
        self._has_summed = False

    def note(self, number: int, at: float, stats: Mapping[str, Any]) -> None:
        """Record the statistics of partition ``number`` at time ``at``, unless the partition's last report is as
        new."""
        told = self._told.setdefault(number, deque(maxlen=_KEPT))
        if told and at <= told[-1][0]:
            return
        raw = [float(stats.get(key) or 0) for key in self._counters]
        # Work done before a partition's first report must not appear to have been done at the moment of that report.
        grown = [0.0] * len(raw) if self._has_summed else raw
        if told:
            before = self._raw[number]
            # A killed process has lost its last counts, so the process that continues its work briefly reports lower
            # ones.
            raw = [
                new if key == _OF_OPENING else max(old, new)
                for key, old, new in zip(self._counters, before, raw, strict=True)
            ]
            pairs = zip(told[-1][1], before, raw, strict=True)
            grown = [count + (new - old if new >= old else new) for count, old, new in pairs]
        self._raw[number] = raw
        told.append((at, grown))

    def at(self, time: float) -> dict[str, float]:
        """Return the sums over all partitions at ``time``.

        After the last report of a partition, its counts stay as reported. If a partition first reports after the first
        sum, the work that it did before that report is not counted."""
        self._has_summed = True
        sums = [_between(told, time) for told in self._told.values()]
        return {key: sum(each[place] for each in sums) for place, key in enumerate(self._counters)}


def _between(told: deque[_Telling], time: float) -> list[float]:
    place = bisect_right(told, time, key=lambda each: each[0])
    if place == 0 or place == len(told):
        return told[max(0, place - 1)][1]
    (begin, before), (end, after) = told[place - 1], told[place]
    share = (time - begin) / (end - begin)
    return [old + (new - old) * share for old, new in zip(before, after, strict=True)]
