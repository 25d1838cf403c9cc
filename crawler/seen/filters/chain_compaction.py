"""Compaction: replaces a whole chain by one larger slice.

The URLs of a long crawl are in many slices of a chain, and a new URL is looked up in each of them. The digests of all
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

Sizes. A successor has room for ``MARGIN`` more keys than the chain has when its construction starts, so that it remains
the only slice for a long time. The slice after it only needs to last until the next successor is built: an
``OVERFLOW``-th of its keys. With a margin of a half,

    bits per key   from 1.5 b down to b while it fills, b = 15.4 at P = 1e-3: 18.7 on average
    peak           old slice, new one and successor together: b + 3.1 + 1.5 b = 42, less than the 44 of a plain chain
                   right after growth
    work           1 + 1 / 1.5 + 1 / 1.5**2 + ... = 3 keys put into successors for each key in the last one

A key that was skipped as a false positive is not in the journal. The successor does not hold this key, so the key is
new when it is met again.
"""

from __future__ import annotations

import math

from crawler.seen.slices.compiled import CHUNK, slice_writer
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from crawler.seen.slices.layouts import sized_slice, stated_for_kernel

GROWTH = 2.0  # ratio of a slice's capacity to that of the slice before it
TIGHTENING = 0.85  # ratio of a slice's fpp to that of the slice before it
MARGIN = 0.5  # extra room in a successor, as a fraction of the number of keys in the chain
OVERFLOW = 8  # ratio of a successor's capacity to that of the slice after it
_TOUCH = 2**19  # words: 4 MiB, about a millisecond
_CHUNK = CHUNK  # keys; limits the memory of a batch


def successor_share(keys: int, fpp: float, tightening: float) -> tuple[int, float]:
    """Return the capacity and fpp of the successor of a chain that holds ``keys`` keys."""
    return max(1, math.ceil(keys * (1 + MARGIN))), fpp * tightening


def following_share(number: int, capacity: int, fpp: float, growth: float, tightening: float) -> tuple[int, float]:
    """Return the capacity and fpp of slice ``number`` (from 0) after a successor with this ``capacity``."""
    first = math.ceil(capacity / OVERFLOW)
    return int(first * growth**number), fpp * (1 - tightening) ** 2 * tightening**number


class SuccessorSlice:
    """The slice that will replace a chain, during its construction."""

    def __init__(self, layout: str, capacity: int, fpp: float) -> None:
        """Raises ``FilterError`` if there is not enough memory."""
        self.filter = sized_slice(layout, capacity, fpp)
        self.capacity = capacity
        self.fpp = fpp
        self.count = 0
        self._touched = 0
        stated = stated_for_kernel([self.filter])
        self._writer = None if stated is None else slice_writer(stated[0])

    @property
    def room(self) -> int:
        """The number of keys that still fit."""
        return self.capacity - self.count

    def touch(self) -> bool:
        """Write to the next part of the memory, before the first key is put. Returns True when all of it is touched.

        The operating system clears memory when it is first touched, in large pages. Otherwise the first keys would
        touch all pages, and clearing gigabytes at once would stall the crawl.
        """
        words = self.filter.words
        if self._touched < len(words):
            words[self._touched : self._touched + _TOUCH] = 0
            self._touched += _TOUCH
        return self._touched >= len(words)

    def put(self, digests: bytes) -> None:
        """Add keys of the chain, each once, and at most ``room`` of them."""
        halves = digest_words(digests)
        for start in range(0, len(halves), _CHUNK):
            if self._writer is not None:
                self._writer.put_digests(halves[start : start + _CHUNK])
            else:
                self.filter.put(Batch(halves[start : start + _CHUNK]))
        self.count += len(halves)
