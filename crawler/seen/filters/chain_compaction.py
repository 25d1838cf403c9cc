"""Compaction: replaces a whole chain by one larger slice.

A chain keeps the URLs of a long crawl in many slices, and a new URL is looked up in each of them. The digests of all
its keys are in the journal, so they can be copied into one larger slice, the *successor*, while the chain stays in use.
When the successor holds every key of the chain, it replaces the chain.

The bound. Let P be the target fpp and r the tightening. In a chain that was never compacted, slice i has the share
P0 r**i, with P0 = P (1 - r), as derived in ``scalable``. A successor gets the share P r, and the slices after it divide
the rest in the same way as a chain divides P:

    successor                      P r
    slice i after it               P (1 - r) * (1 - r) r**i          i = 0, 1, 2, ...

    P r  +  P (1 - r) * sum (1 - r) r**i   <   P r + P (1 - r)   =   P

so the compound fpp, at most the sum, stays below P for any number of slices. The next successor replaces all of them
and frees their shares, so the sum is the same after any number of compactions.

Sizes. A successor has room for ``MARGIN`` more keys than the chain has when it is begun, so that it is the only slice
for a long while, and the slice that follows it needs to last only until the next successor is built: an ``OVERFLOW``-th
of its keys. With a margin of a half,

    bits a key     from 1.5 b down to b while it fills, b = 15.4 at P = 1e-3: 18.7 in the mean
    peak           old slice, new one and successor together: b + 3.1 + 1.5 b = 42, less than the 44 of a plain chain
                   right after growth
    work           1 + 1 / 1.5 + 1 / 1.5**2 + ... = 3 keys put into successors for each key in the last one

A key that was skipped as a false positive is not in the journal. The successor does not hold it, so it is new when it
is met again.
"""

from __future__ import annotations

import math

from crawler.seen.slices.compiled import CHUNK, slice_writer
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from crawler.seen.slices.layouts import sized_slice, stated_for_kernel

GROWTH = 2.0  # capacity of a slice over the one before
TIGHTENING = 0.85  # fpp of a slice over the one before
MARGIN = 0.5  # extra room of a successor, as a share of the chain's keys
OVERFLOW = 8  # capacity of a successor over that of the slice which follows it
_TOUCH = 2**19  # words: 4 MiB, about a millisecond
_CHUNK = CHUNK  # keys; bounds what a batch takes besides the filter


def successor_share(keys: int, fpp: float, tightening: float) -> tuple[int, float]:
    """Capacity and fpp of the successor of a chain that holds ``keys`` keys."""
    return max(1, math.ceil(keys * (1 + MARGIN))), fpp * tightening


def following_share(number: int, capacity: int, fpp: float, growth: float, tightening: float) -> tuple[int, float]:
    """Capacity and fpp of slice ``number`` (from 0) after a successor of that ``capacity``."""
    first = math.ceil(capacity / OVERFLOW)
    return int(first * growth**number), fpp * (1 - tightening) ** 2 * tightening**number


class SuccessorSlice:
    """The slice that will replace a chain, while it is built."""

    def __init__(self, layout: str, capacity: int, fpp: float) -> None:
        """Raises ``FilterError`` when there is no memory for it."""
        self.filter = sized_slice(layout, capacity, fpp)
        self.capacity = capacity
        self.fpp = fpp
        self.count = 0
        self._touched = 0
        stated = stated_for_kernel([self.filter])
        self._writer = None if stated is None else slice_writer(stated[0])

    @property
    def room(self) -> int:
        """How many more keys fit."""
        return self.capacity - self.count

    def touch(self) -> bool:
        """Write to the next part of the memory, before the first key is put. True when all of it is touched.

        The system clears memory on first touch, in large pages. The first keys would touch all pages, and clearing
        gigabytes at once would stall the crawl.
        """
        words = self.filter.words
        if self._touched < len(words):
            words[self._touched : self._touched + _TOUCH] = 0
            self._touched += _TOUCH
        return self._touched >= len(words)

    def put(self, digests: bytes) -> None:
        """Add keys of the chain, each once, and no more than there is room for."""
        halves = digest_words(digests)
        for start in range(0, len(halves), _CHUNK):
            if self._writer is not None:
                self._writer.put_digests(halves[start : start + _CHUNK])
            else:
                self.filter.put(Batch(halves[start : start + _CHUNK]))
        self.count += len(halves)
