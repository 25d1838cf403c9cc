"""``counting``: counters of 2, 4 or 8 bits instead of single bits. This kind can forget keys, in about four times the
space.

The slices follow the schedule of the ``scalable`` filter: slice i has capacity * growth**i keys and an fpp of
P0 * tightening**i. With ``growth=None`` there is one slice, which accepts more keys than its capacity.
"""

from __future__ import annotations

from typing import SupportsIndex

from crawler.seen.filters.key_filter import ForgettingFilter
from crawler.seen.filters.scalable import check_growth, check_tightening
from crawler.seen.slices.contract import Slice
from crawler.seen.slices.counting_slice import COUNTER_BITS, CountingSlice
from crawler.seen.slices.errors import FilterError, whole_number
from crawler.seen.slices.key_hash import KeyHash
from crawler.seen.slices.layouts import check_shape


class CountingFilter(ForgettingFilter):
    """A seen-set of counters; see ``counting_slice``."""

    kind = "counting"
    _shaped_by = ("fpp", "capacity", "growth", "tightening", "counter_bits")

    def __init__(
        self,
        fpp: float = 0.001,
        capacity: SupportsIndex = 2**20,
        *,
        growth: float | None = 2.0,
        tightening: float = 0.85,
        counter_bits: SupportsIndex = 4,
        hash: KeyHash | None = None,
    ) -> None:
        """Raises ``FilterError`` for invalid parameters."""
        bits = whole_number(counter_bits, "counter_bits")
        if bits not in COUNTER_BITS:
            raise FilterError(f"counter_bits must be 2, 4 or 8, not {bits}")
        self.capacity, self.fpp = check_shape(capacity, fpp)
        self.growth = None if growth is None else check_growth(growth)
        self._overfills = growth is None
        self.tightening = check_tightening(tightening)
        self.counter_bits = bits
        super().__init__(hash)

    def _make(self, number: int) -> tuple[Slice, int, float]:
        if self.growth is None:
            return CountingSlice.sized(self.capacity, self.fpp, self.counter_bits), self.capacity, self.fpp
        capacity = int(self.capacity * self.growth**number)
        fpp = self.fpp * (1 - self.tightening) * self.tightening**number
        return CountingSlice.sized(capacity, fpp, self.counter_bits), capacity, fpp
