"""``cuckoo``: tags of 8, 16 or 32 bits. This kind can forget keys, and takes about as much space as a Bloom filter.

Slice i holds capacity * growth**i keys. Tags come in three widths, so the fpp of the slices cannot follow the schedule
of the ``scalable`` filter. Slice i uses the narrowest tag whose fpp is at most half of the target that earlier slices
have left over. So the sum always stays below the target. At 1e-3, 16 bits are enough for the first six slices (66
million keys with a first slice of 2**20).

With ``growth=None`` there is one slice, and adding keys for which it has no room raises ``FullError``.
"""

from __future__ import annotations

from typing import SupportsIndex

from crawler.seen.filters.key_filter import ForgettingFilter
from crawler.seen.filters.scalable import check_growth
from crawler.seen.slices.contract import Slice
from crawler.seen.slices.cuckoo_slice import LOAD, TAG_BITS, CuckooSlice, cuckoo_fpp
from crawler.seen.slices.errors import FilterError
from crawler.seen.slices.key_hash import KeyHash
from crawler.seen.slices.layouts import check_shape


class CuckooFilter(ForgettingFilter):
    """A seen-set of tags; see ``cuckoo_slice``."""

    kind = "cuckoo"
    _shaped_by = ("fpp", "capacity", "growth")

    def __init__(
        self,
        fpp: float = 0.001,
        capacity: SupportsIndex = 2**20,
        *,
        growth: float | None = 2.0,
        hash: KeyHash | None = None,
    ) -> None:
        """Raises ``FilterError`` for invalid parameters."""
        self.capacity, self.fpp = check_shape(capacity, fpp)
        self.growth = None if growth is None else check_growth(growth)
        super().__init__(hash)

    def _make(self, number: int) -> tuple[Slice, int, float]:
        left = self.fpp
        for entry in self._chain[self._merged :]:
            left -= entry.fpp_design
        may = left if self.growth is None else left / 2
        for tag_bits in TAG_BITS:
            fpp = cuckoo_fpp(LOAD, tag_bits)
            if fpp <= may:
                capacity = int(self.capacity * (self.growth or 1) ** number)
                return CuckooSlice.sized(capacity, tag_bits, self._multiplier()), capacity, fpp
        raise FilterError(f"the widest tag of a cuckoo filter is too narrow for an fpp of {may:.3g}")

    def _multiplier(self) -> int:
        # Single-slice filters can only be united if they put keys into the same places.
        return self.hash.multiplier() if self.growth is not None or self.hash.keyed else 1

    def _room(self) -> int | None:
        if self.growth is not None:
            return None
        return 0 if self._chain[0].filter.crowded else self.capacity - len(self)
