"""Which part of a slice is read to judge all of it.

The share of set bits is read once a second, and must not cost a pass over gigabytes. So at most a mebibyte is read: 256
pages, evenly distributed at random. Whoever knew the pages could choose keys that fall beside them, and so fill the
filter without its figures showing it. So the pages follow from a seed that nobody can know: from the secret of the hash
if it has one, otherwise from the operating system. The same seed gives the same pages each time, so that the figures
move only with the keys.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from crawler.base import entropy

PAGE = 4096
PAGES = 256  # a mebibyte


class Sampling:
    """Chooses pages. ``seed``: the same one chooses the same; None: nobody can foretell which."""

    def __init__(self, seed: bytes | None = None) -> None:
        self._seed = entropy.random_bytes(16) if seed is None else seed
        self._chosen: dict[tuple[int, int], npt.NDArray[np.intp]] = {}

    def rows(self, memory: npt.NDArray[Any], pages: int = PAGES) -> npt.NDArray[Any]:
        """Rows of ``memory``, an array in memory order: all of them if they take at most so many pages, otherwise
        those in as many pages chosen at random."""
        size = max(1, PAGE // (memory.nbytes // len(memory)))
        there = len(memory) // size
        if there <= pages:
            return memory
        chosen = self._chosen.get((there, pages))
        if chosen is None:
            # One in each of as many equal parts. numpy.random would do, but takes longer to import than all else here.
            drawn = np.frombuffer(hashlib.shake_128(self._seed + there.to_bytes(8)).digest(4 * pages), "<u4")
            edges = np.arange(pages + 1) * there // pages
            chosen = self._chosen[there, pages] = edges[:-1] + drawn % np.diff(edges)
        grouped = memory[: there * size].reshape(there, size, *memory.shape[1:])
        return grouped[chosen].reshape(pages * size, *memory.shape[1:])


def spread_of_places(count: float, buckets: int, places: int, sample: int) -> float:
    """The standard deviation of the number of keys that is estimated from the used places in ``sample`` of the
    ``buckets``. The keys of a bucket are Poisson distributed, less those that go to another one; all buckets together
    hold all keys."""
    if sample >= buckets:
        return 0.0
    used = min(1.0, count / (buckets * places))
    return buckets * math.sqrt(used * places / sample)


UNFORESEEN = Sampling()
