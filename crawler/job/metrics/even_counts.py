"""Sums counters over the partitions of a crawl, which report at different times, as of one point in time.

A partition reports every few seconds, and at once when its process changes. Summing the latest reports would make the
rate of a partition drop to zero between reports, and would count all pages of a moved partition in one moment. So
counts are interpolated linearly between reports, and summed as of a time up to which each partition has reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

_KEPT = 64  # reports kept per partition: more than arrive in two pauses
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
        """Record the statistics of partition ``number`` at time ``at``. Ignored unless newer than its last report."""
        told = self._told.setdefault(number, deque(maxlen=_KEPT))
        if told and at <= told[-1][0]:
            return
        raw = [float(stats.get(key) or 0) for key in self._counters]
        # Work done before a partition's first report must not appear as done in that moment.
        grown = [0.0] * len(raw) if self._has_summed else raw
        if told:
            before = self._raw[number]
            # A process that was killed lost its last counts, so its successor briefly reports less.
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

        After a partition's last report, its counts stay as reported. If a partition first reports after the first sum,
        the work that it did before that report is not counted."""
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
