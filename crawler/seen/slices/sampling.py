"""Selects the part of a slice that is read to estimate its fill.

The share of set bits is computed once a second, which must not require a pass over gigabytes. So at most 1 MiB is read:
256 pages, evenly distributed at random. An attacker who knew the pages could choose keys that fall outside them, and
fill the filter without any effect on its statistics. So the pages are derived from a secret seed, which comes from the
secret of the hash if it has one, otherwise from the operating system. The same seed always selects the same pages, so
that the statistics change only with the keys.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from crawler.base import entropy

PAGE = 4096
PAGES = 256  # maximum pages to read: 1 MiB


class Sampling:
    """Selects pages. Equal seeds select equal pages; with ``seed`` None the selection is unpredictable."""

    def __init__(self, seed: bytes | None = None) -> None:
        self._seed = entropy.random_bytes(16) if seed is None else seed
        self._chosen: dict[tuple[int, int], npt.NDArray[np.intp]] = {}

    def rows(self, memory: npt.NDArray[Any], pages: int = PAGES) -> npt.NDArray[Any]:
        """Return rows of ``memory``, an array in memory order: all of them if they fit into ``pages`` pages, otherwise
        those in ``pages`` pages chosen at random."""
        size = max(1, PAGE // (memory.nbytes // len(memory)))
        there = len(memory) // size
        if there <= pages:
            return memory
        chosen = self._chosen.get((there, pages))
        if chosen is None:
            # One page from each of ``pages`` equal parts. Importing numpy.random would take too long.
            drawn = np.frombuffer(hashlib.shake_128(self._seed + there.to_bytes(8)).digest(4 * pages), "<u4")
            edges = np.arange(pages + 1) * there // pages
            chosen = self._chosen[there, pages] = edges[:-1] + drawn % np.diff(edges)
        grouped = memory[: there * size].reshape(there, size, *memory.shape[1:])
        return grouped[chosen].reshape(pages * size, *memory.shape[1:])


def spread_of_places(count: float, buckets: int, places: int, sample: int) -> float:
    """Return the standard deviation of the number of keys estimated from the used places in ``sample`` of the
    ``buckets``. The number of keys per bucket is Poisson distributed, less those that move to another bucket. If all
    buckets are sampled, the deviation is 0."""
    if sample >= buckets:
        return 0.0
    used = min(1.0, count / (buckets * places))
    return buckets * math.sqrt(used * places / sample)


UNFORESEEN = Sampling()
