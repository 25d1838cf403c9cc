"""A Bloom filter for an unknown number of keys.

The idea (Almeida, Baquero, Preguica and Hutchison, "Scalable Bloom Filters", 2007). A Bloom filter of m bits
is sized for n keys; with more, its false-positive rate rises steeply. So the filter is sealed when it holds its n keys,
and a larger one is opened. A key is known if any *slice* of this chain holds it; it is added only to the newest one.
Each slice may misjudge an absent key, and the probabilities add up:

    compound fpp  =  1 - prod(1 - p_i)  <=  sum p_i

If all slices had the same p, the sum would grow without bound. So each slice is stricter than the one before:

    capacity_i = capacity * growth**i     the keys that slice i holds; then it is sealed and never changes
    p_i        = P0 * tightening**i       its fpp when it is full

    sum p_i    <  P0 / (1 - tightening)   for any number of slices

P0 is chosen so that this bound is the target fpp: ``P0 = fpp * (1 - tightening)``.

The price is bits: a stricter slice needs more bits per key, and the newest slice is half empty on average. With a
growth of 2, a tightening of 0.85 and slices of the ``paired`` layout, a chain with a first slice of 2**20 keys and fpp
1e-3 takes 31.7 bits per key on average over 10 to 80 million keys, and 44 at the worst moment, right after growth
(docs/explanation/filters.md has the table). A key is looked up in each slice until one holds it, newest first, because
the newest holds half of all keys.

If the digests of all keys are stored, as in the journal of a crawl, a long chain can be rebuilt as one larger slice:
``chain_compaction`` explains how the bound is kept, and ``chain`` how batches, growth and snapshots work.
"""

from __future__ import annotations

from typing import SupportsIndex

from crawler.seen.filters.chain_compaction import SuccessorSlice, following_share, successor_share
from crawler.seen.filters.key_filter import Filter
from crawler.seen.filters.protocol import Compactable
from crawler.seen.filters.slice_entry import SliceEntry
from crawler.seen.slices.contract import Slice
from crawler.seen.slices.errors import FilterError, real_number
from crawler.seen.slices.key_hash import KeyHash
from crawler.seen.slices.layouts import check_shape, sized_slice


def check_growth(growth: float) -> float:
    """Return ``growth`` as a plain number. Raises ``FilterError`` for an invalid value."""
    growth = real_number(growth)
    if not 1 <= growth <= 64:
        raise FilterError(f"growth must be between 1 and 64, not {growth}")
    return growth


def check_tightening(tightening: float) -> float:
    """Return ``tightening`` as a plain number. Raises ``FilterError`` for an invalid value."""
    tightening = real_number(tightening)
    if not 0 < tightening < 1:
        raise FilterError(f"tightening must be between 0 and 1, not {tightening}")
    return tightening


class ScalableBloomFilter(Filter):
    """A chain of slices that grows as the module docstring describes."""

    kind = "scalable"
    _compacts = True
    _shaped_by = ("fpp", "capacity", "growth", "tightening", "layout")

    def __init__(
        self,
        fpp: float = 0.001,
        capacity: SupportsIndex = 2**20,
        *,
        growth: float = 2.0,
        tightening: float = 0.85,
        layout: str = "paired",
        hash: KeyHash | None = None,
    ) -> None:
        """``fpp`` bounds the compound fpp for any number of keys; ``capacity`` is the number of keys in the first
        slice.

        Raises ``FilterError`` for invalid parameters.
        """
        self.capacity, self.fpp = check_shape(capacity, fpp)
        self.growth = check_growth(growth)
        self.tightening = check_tightening(tightening)
        self.layout = layout
        super().__init__(hash)

    def _make(self, number: int) -> tuple[Slice, int, float]:
        if self._compactions:
            first = self._chain[self._merged].capacity
            capacity, fpp = following_share(number - 1, first, self.fpp, self.growth, self.tightening)
        else:
            capacity = int(self.capacity * self.growth**number)
            fpp = self.fpp * (1 - self.tightening) * self.tightening**number
        return sized_slice(self.layout, capacity, fpp), capacity, fpp

    # -- compaction

    @property
    def compactable(self) -> Compactable:
        """The filter itself, see ``SeenSet``."""
        return self

    @property
    def slices(self) -> int:
        """The number of slices in which a new key is looked up."""
        return len(self._chain)

    def successor(self) -> SuccessorSlice:
        """Return an empty slice that can replace all slices, see ``Compactable``."""
        return SuccessorSlice(self.layout, *successor_share(len(self), self.fpp, self.tightening))

    def succeed(self, successor: SuccessorSlice) -> None:
        """Replace all slices by ``successor``, see ``Compactable``."""
        count = successor.count
        with self._lock:
            if count != len(self) or successor.room < 0:
                raise FilterError(
                    f"a slice with {count} of {successor.capacity} keys cannot replace a chain of {len(self)} keys"
                )
            self._skipped_before = self._expected_skipped()
            self._compactions += 1
            self._merged, self._merged_bound = 0, 0.0
            entry = SliceEntry(successor.filter, successor.capacity, successor.fpp, count, count, built=count)
            entry.compactions = self._compactions
            self._chain = [entry]
            self._restack()
