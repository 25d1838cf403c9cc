"""The Bloom filter of fixed size, for when the number of keys is known; and the bitmap, its baseline.

Asked for in one of three ways, each of which says the other two:

    BloomFilter(capacity, fpp)                       n keys at p: the fewest bits of that layout
    BloomFilter.with_bits_per_key(capacity, bits)    n keys at so many bits each: k = round(bits * ln 2), 1 to 30
    BloomFilter.with_geometry(bits, hashes)          m bits and k hashes: made for n = m ln 2 / k keys

The filter takes more keys than it was made for, and its fpp climbs then; ``statistics`` shows it, and the
advisor warns before the target is passed. A chain (``scalable``) opens another slice instead.

Filters of the same geometry can be united: the OR of their bits is what adding the keys of both would have
set. How many keys it holds then is estimated, since nobody knows how many were in both: no fewer than either has, and
no more than both together.
"""

from __future__ import annotations

import math

from crawler.filters.chain import Chain
from crawler.slices.bit_storage import as_bits
from crawler.slices.classic_slice import MAX_HASHES, ClassicSlice, classic_fpp, classic_size
from crawler.slices.contract import Slice
from crawler.slices.errors import JSON, FilterError
from crawler.slices.guava_slice import GuavaSlice
from crawler.slices.layouts import check_shape, sized_slice

_TOO_LARGE = "such a filter is larger than any memory"
_WITH_BITS = {made.layout: made for made in (ClassicSlice, GuavaSlice)}


class FixedChain(Chain):
    """One slice that takes whatever comes."""

    capacity: int

    def _room(self) -> int | None:
        return None

    @property
    def _overfills(self) -> bool:
        return True

    def _made_like(self) -> dict[str, JSON]:
        return {**self.parameters(), **self._chain[0].filter.geometry()}

    def _unite(self, other: Chain) -> None:
        self._settle_skipped(other)
        ours, theirs = self._chain[0], other._chain[0]
        bits = as_bits(ours.filter.words)
        bits |= as_bits(theirs.filter.words)
        estimated = round(ours.filter.count_estimated())
        ours.count = min(max(ours.count, theirs.count, estimated), ours.count + theirs.count)
        ours.admitted = ours.built = ours.count


class BloomFilter(FixedChain):
    """Made for ``capacity`` keys at ``fpp``."""

    kind = "bloom"

    def __init__(
        self,
        capacity: int,
        fpp: float = 0.001,
        *,
        layout: str = "paired",
        bits: int | None = None,
        hashes: int | None = None,
    ) -> None:
        """``bits`` and ``hashes`` overrule what (capacity, fpp) asks for.

        They belong to the layouts ``classic`` and ``guava`` (see ``mitz``); the latter must have them.

        Raises ``FilterError`` when there is no such filter.
        """
        check_shape(capacity, fpp)
        if (bits is None) != (hashes is None) or (bits is not None and layout not in _WITH_BITS):
            raise FilterError("bits and hashes are given together, and for the classic layout or that of Guava")
        self.capacity = capacity
        self.fpp = fpp
        self.layout = layout
        self.bits = bits
        self.hashes = hashes
        super().__init__()

    @classmethod
    def with_bits_per_key(cls, capacity: int, bits: float) -> BloomFilter:
        """``capacity`` keys at ``bits`` bits each. Raises ``FilterError`` when that is no filter."""
        if capacity < 1 or not 0 < bits < 1000:
            raise FilterError(f"{capacity} keys at {bits} bits each are no filter")
        try:
            size = math.ceil(capacity * bits)
        except OverflowError:
            raise FilterError(_TOO_LARGE) from None
        return cls.with_geometry(size, best_hashes(bits), capacity)

    @classmethod
    def with_geometry(cls, bits: int, hashes: int, capacity: int | None = None) -> BloomFilter:
        """``bits`` bits (rounded up to a multiple of 64) and ``hashes`` hashes. Raises ``FilterError``."""
        if bits < 1 or not 1 <= hashes <= MAX_HASHES:
            raise FilterError(f"{bits} bits with {hashes} hashes are no filter")
        bits = -(-bits // 64) * 64
        try:
            keys = capacity or max(1, int(bits * math.log(2) / hashes))
            fpp = classic_fpp(keys, bits, hashes)
        except OverflowError:
            raise FilterError(_TOO_LARGE) from None
        return cls(keys, fpp, layout="classic", bits=bits, hashes=hashes)

    def _make(self, number: int) -> tuple[Slice, int, float]:
        if self.bits is None or self.hashes is None:
            return sized_slice(self.layout, self.capacity, self.fpp), self.capacity, self.fpp
        try:
            return _WITH_BITS[self.layout](self.bits, self.hashes), self.capacity, self.fpp
        except FilterError:
            raise
        except ValueError as problem:
            raise FilterError(str(problem)) from None

    def parameters(self) -> dict[str, JSON]:
        made: dict[str, JSON] = {
            "kind": self.kind,
            "capacity": self.capacity,
            "fpp": self.fpp,
            "layout": self.layout,
        }
        if self.bits is not None:
            made |= {"bits": self.bits, "hashes": self.hashes}
        return made


def best_hashes(bits_per_key: float) -> int:
    """round(bits * ln 2), within 1 to 30."""
    return min(max(round(bits_per_key * math.log(2)), 1), MAX_HASHES)


class Bitmap(FixedChain):
    """One hash, one bit: m = -n / ln(1 - p)."""

    kind = "bitmap"

    def __init__(self, capacity: int, fpp: float = 0.001) -> None:
        """Raises ``FilterError`` when there is no such filter."""
        check_shape(capacity, fpp)
        self.capacity = capacity
        self.fpp = fpp
        super().__init__()

    def _make(self, number: int) -> tuple[Slice, int, float]:
        return ClassicSlice(*classic_size(self.capacity, self.fpp, 1)), self.capacity, self.fpp

    def parameters(self) -> dict[str, JSON]:
        return {"kind": self.kind, "capacity": self.capacity, "fpp": self.fpp}
