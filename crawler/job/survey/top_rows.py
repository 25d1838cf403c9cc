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

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter


class TopRows:
    """Rows of ``columns`` sums for at most ``places`` keys. ``missed``: the weight that a row may lack."""

    def __init__(self, places: int, columns: int = 1) -> None:
        self.missed = 0
        self._places = places
        self._empty = [0] * columns
        self._rows: dict[str, list[int]] = {}
        # The weight of a key, and ``missed`` when it got its place: comparing it to ``missed`` needs no subtraction.
        self._ranks: dict[str, int] = {}

    def add(self, key: str, values: Iterable[int] = (1,), weight: int = 1) -> None:
        """Add the values to the columns of the key."""
        row = self._rows.get(key)
        if row is None:
            row = self._place(key)
        for column, value in enumerate(values):
            row[column] += value
        self._ranks[key] += weight

    def change(self, key: str, column: int, step: int) -> None:
        """Add to one column of the key if it has a place; no sum goes below 0."""
        row = self._rows.get(key)
        if row is not None:
            row[column] = max(0, row[column] + step)

    def _place(self, key: str) -> list[int]:
        ranks, rows = self._ranks, self._rows
        if len(rows) >= self._places:
            self.missed = sorted(ranks.values())[len(ranks) // 2]
            for each in [each for each, rank in ranks.items() if rank <= self.missed]:
                del ranks[each], rows[each]
        ranks[key] = self.missed
        row = rows[key] = self._empty.copy()
        return row

    def most(self, number: int) -> list[tuple[str, list[int]]]:
        """The keys with the highest sums in the first column, the highest first."""
        return sorted(self._rows.items(), key=_first, reverse=True)[:number]

    def get(self, key: str) -> Sequence[int] | None:
        return self._rows.get(key)

    def items(self) -> Iterator[tuple[str, list[int]]]:
        return iter(self._rows.items())

    def __len__(self) -> int:
        return len(self._rows)

    def dump(self) -> dict[str, str]:
        """All keys with their sums and weight, for ``restore``, and ``missed`` under an empty key."""
        found = {key: " ".join(map(str, (*row, self._ranks[key]))) for key, row in self._rows.items()}
        return found | {"": str(self.missed)}

    def restore(self, stored: dict[str, str]) -> None:
        """Take what ``dump`` returned. Raises ValueError if it cannot be that."""
        self.missed = _count(stored[""])
        for key, text in stored.items():
            if key:
                *row, rank = map(_count, text.split(" "))
                if len(row) != len(self._empty) or len(self._rows) >= self._places or rank < self.missed:
                    raise ValueError(f"a row of {text!r}")
                self._rows[key], self._ranks[key] = row, rank


_first = itemgetter(1)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is not a count")
    return int(text)
