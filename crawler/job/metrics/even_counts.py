"""The counts of a crawl whose partitions are told of at different times, as they were at one time.

A partition is told of every few seconds, and at once when its process changes. If the latest counts were added as they
are, those seconds would count as nothing, and a moved partition's as pages of one moment. So the counts between two
tellings are taken to have grown evenly, and the sum is that of a time up to which each partition was told of.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

_KEPT = 64  # tellings of a partition: more than there are in two pauses
_OF_OPENING = "commits"  # begins at 0 with each opening of a job

_Telling = tuple[float, list[float]]  # when, and the counts


class EvenCounts:
    """Counts of partitions over the last seconds."""

    def __init__(self, counters: Iterable[str]) -> None:
        """``counters``: keys of statistics that hold numbers which only grow."""
        self._counters = tuple(counters)
        self._told: dict[int, deque[_Telling]] = {}
        self._raw: dict[int, list[float]] = {}
        self._has_summed = False

    def note(self, number: int, at: float, stats: Mapping[str, Any]) -> None:
        """A partition had these statistics at that time. One that was told of later before is left as it is."""
        told = self._told.setdefault(number, deque(maxlen=_KEPT))
        if told and at <= told[-1][0]:
            return
        raw = [float(stats.get(key) or 0) for key in self._counters]
        # What one had done before it was first told of is not done in that moment.
        grown = [0.0] * len(raw) if self._has_summed else raw
        if told:
            before = self._raw[number]
            # What lost its last moments with its process has less for a moment.
            raw = [
                new if key == _OF_OPENING else max(old, new)
                for key, old, new in zip(self._counters, before, raw, strict=True)
            ]
            pairs = zip(told[-1][1], before, raw, strict=True)
            grown = [count + (new - old if new >= old else new) for count, old, new in pairs]
        self._raw[number] = raw
        told.append((at, grown))

    def at(self, time: float) -> dict[str, float]:
        """The sums over all partitions at that time, but for what a partition had done before it was first told of, if
        that was after the first sum. After it was last told of, its counts are those of then."""
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
