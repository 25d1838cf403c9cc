"""The course of a crawl as time series that stay small however long it runs.

Each observation is kept as it is: counters as counts, not as rates. A rate is the difference of two kept
observations by the time between them, so dropping observations in between leaves it the exact mean over
a longer time. Two series are kept:

- ``recent``: the last ``RECENT`` observations, all of them;
- ``all``: one in 2^k observations since the start; whenever there are ``MOST`` of them every second one
  goes and k grows by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

RECENT = 300
MOST = 600

Value = float | None
Series = dict[str, list[Value]]

# Name of the rate, a second -> the counter it comes from.
_RATES = {
    "pages_per_second": "pages_fetched",
    "links_per_second": "links_found",
    "new_per_second": "urls_admitted",
    "bytes_per_second": "bytes_fetched",
}
_LEVELS = {
    "pending": ("urls_pending",),
    "in_flight": ("urls_in_flight",),
    "fpp_estimated": ("seen", "fpp_estimated"),
    "fpp_target": ("seen", "fpp_target"),
    "fpp_bound": ("seen", "fpp_bound"),
    "fpp_measured": ("seen", "fpp_measured", "value"),
}

Row = tuple[float, tuple[Value, ...], tuple[Value, ...]]  # time, counters, levels


class History:
    """Observations of one run of a crawl, at the pace in which they are made (once a second, say)."""

    def __init__(self) -> None:
        self._recent: deque[Row] = deque(maxlen=RECENT)
        self._all: list[Row] = []
        self._stride = 1
        self._skipped = 0

    def observe(self, now: float, stats: Mapping[str, Any]) -> None:
        """Adds what ``stats`` says at ``now`` (seconds, growing).

        A time that is not after the last one is ignored.
        """
        if self._recent and now <= self._recent[-1][0]:
            return
        counters = tuple(stats.get(key) for key in _RATES.values())
        row = (now, counters, tuple(_at(stats, path) for path in _LEVELS.values()))
        self._recent.append(row)
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self._all.append(row)
        if len(self._all) == MOST:
            # The newest stays, so that strides go on from it.
            self._all = self._all[1::2]
            self._stride *= 2

    def series(self) -> dict[str, Series]:
        """``{"recent": series, "all": series}``, each of lists of equal length.

        ``t`` is in seconds, as observed; the others have the names of rates (the mean since the point before,
        null at the first) and of levels.
        """
        rows = list(self._all)
        if self._recent and rows[-1:] != [self._recent[-1]]:
            rows.append(self._recent[-1])
        return {"recent": _columns(self._recent), "all": _columns(rows)}

    def point(self) -> dict[str, Value]:
        """The last of ``recent``, by the same names; empty before the first observation."""
        last = _columns(list(self._recent)[-2:])
        return {name: values[-1] for name, values in last.items() if values}


def _at(stats: Mapping[str, Any], path: tuple[str, ...]) -> Value:
    value: Any = stats
    for key in path:
        value = None if value is None else value.get(key)
    return None if value is None else float(value)


def _columns(rows: Iterable[Row]) -> Series:
    names = ("t", *_RATES, *_LEVELS)
    table: list[tuple[Value, ...]] = []
    before: Row | None = None
    for row in rows:
        time, counters, levels = row
        if before is None:
            rates: tuple[Value, ...] = (None,) * len(counters)
        else:
            rates = tuple(_rate(last, value, time - before[0]) for last, value in zip(before[1], counters, strict=True))
        table.append((time, *rates, *levels))
        before = row
    return {name: [line[column] for line in table] for column, name in enumerate(names)}


def _rate(before: Value, after: Value, seconds: float) -> Value:
    """None also when a counter went back: it began anew, and the difference means nothing."""
    if before is None or after is None or after < before:
        return None
    return round((after - before) / seconds, 3)
