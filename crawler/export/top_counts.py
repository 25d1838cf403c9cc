"""The most frequent of any number of keys, in memory for a fixed number of them: the algorithm of Misra and Gries.

As long as there are no more keys than places, all counts are exact. When a key finds no place, one is taken from the
count of each key that has one. So a count is never too high, and at most ``missed`` too low; a key that is more
frequent than ``missed`` has a place. Each key that loses its place was counted before, so an addition costs a constant
time on average, whatever the order.
"""

from __future__ import annotations

from operator import itemgetter


class TopCounts:
    """Counts of at most ``places`` keys."""

    def __init__(self, places: int) -> None:
        self.missed = 0  # how much too low a count may be
        self._places = places
        self._counts: dict[str, int] = {}

    def add(self, key: str) -> None:
        counts = self._counts
        if key in counts:
            counts[key] += 1
        elif len(counts) < self._places:
            counts[key] = 1
        else:
            self.missed += 1
            self._counts = {each: count - 1 for each, count in counts.items() if count > 1}

    def most(self, number: int) -> list[tuple[str, int]]:
        """The keys with the highest counts, the highest first."""
        return sorted(self._counts.items(), key=itemgetter(1), reverse=True)[:number]

    def __len__(self) -> int:
        return len(self._counts)
