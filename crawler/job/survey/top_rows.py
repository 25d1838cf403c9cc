"""Sums by key for the most frequent of any number of keys, in memory for a fixed number of them.

The algorithm of Misra and Gries, with a purge at the median as in "A High-Performance Algorithm for Identifying
Frequent Items in Data Streams" (Anderson et al., 2017). Each key with a place has a weight, to which every addition
adds. When a new key finds no place, the median weight is taken from all, and keys that have nothing left lose their
places: those with a weight up to it. So an addition costs a constant time on average, whatever the
order of the keys.

The sums of a key with a place are what was added since it got that place. With ``N`` added in all:

* as long as there were no more keys than places, all sums are exact;
* a sum is never too high, and what it lacks weighs at most ``missed`` (for weights of 1: additions);
* a key that weighs more than ``missed`` has a place;
* ``missed`` is at most ``2 * N / places``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

from msgspec import Struct, field


class TopRows(Struct):
    """Rows of ``columns`` sums for at most ``places`` keys. ``missed``: the weight that a row may lack. At the end of a
    row in ``rows`` is its weight, and what was missed when it got its place: comparing that to ``missed`` needs no
    subtraction."""

    places: int
    columns: int = 1
    missed: int = 0
    rows: dict[str, list[int]] = field(default_factory=dict)

    def add(self, key: str, values: Iterable[int] = (1,), weight: int = 1) -> None:
        """Add the values to the columns of the key."""
        row = self.rows.get(key)
        if row is None:
            row = self._place(key)
        for column, value in enumerate(values):
            row[column] += value
        row[-1] += weight

    def _place(self, key: str) -> list[int]:
        if len(self.rows) >= self.places:
            ranks = sorted(row[-1] for row in self.rows.values())
            self.missed = ranks[len(ranks) // 2]
            self.rows = {each: row for each, row in self.rows.items() if row[-1] > self.missed}
        row = self.rows[key] = [0] * self.columns + [self.missed]
        return row

    def most(self, number: int) -> list[tuple[str, list[int]]]:
        """The keys with the highest sums in the first column, the highest first."""
        return sorted(self.items(), key=itemgetter(1), reverse=True)[:number]

    def get(self, key: str) -> list[int]:
        """The sums of a key; zeros if it has no place."""
        return self.rows.get(key, [0] * (self.columns + 1))[:-1]

    def items(self) -> Iterator[tuple[str, list[int]]]:
        return ((key, row[:-1]) for key, row in self.rows.items())
