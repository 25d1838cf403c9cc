"""Computes sums by key for the most frequent keys of a stream, in the memory that a fixed number of keys needs.

This is the algorithm of Misra and Gries, with a purge at the median as in "A High-Performance Algorithm for Identifying
Frequent Items in Data Streams" (Anderson et al., 2017). Each tracked key has a weight, to which every addition adds.
When a new key arrives and all places are taken, the median weight is subtracted from all keys, and keys with no weight
left are dropped. So an addition takes constant time on average, whatever the order of the keys.

The sums of a tracked key cover all additions since the key got its place. With ``N`` the total weight added:

* as long as there were at most ``places`` keys, all sums are exact;
* a sum is never too high, and is too low by at most the weight ``missed`` (for weights of 1: additions);
* every key with a weight above ``missed`` is tracked;
* ``missed`` is at most ``2 * N / places``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

from msgspec import Struct, field


class TopRows(Struct):
    """Rows of ``columns`` sums for at most ``places`` keys. ``missed``: the maximum weight that a row may lack.

    Each row in ``rows`` ends with its weight plus the value of ``missed`` when the key was added. This sum can be
    compared with ``missed`` directly, without a subtraction."""

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
        """Return the ``number`` keys with the highest sums in the first column, the highest first."""
        return sorted(self.items(), key=itemgetter(1), reverse=True)[:number]

    def get(self, key: str) -> list[int]:
        """Return the sums of a key; zeros if it is not tracked."""
        return self.rows.get(key, [0] * (self.columns + 1))[:-1]

    def items(self) -> Iterator[tuple[str, list[int]]]:
        return ((key, row[:-1]) for key, row in self.rows.items())
