"""The fixed-size Bloom filter, for a known number of keys; and the bitmap, its baseline.

It is specified in one of three ways:

    BloomFilter(capacity, fpp)                       n keys at p: the fewest bits of that layout
    BloomFilter.with_bits_per_key(capacity, bits)    n keys with ``bits`` bits each: k = round(bits * ln 2), 1 to 30
    BloomFilter.with_geometry(bits, hashes)          m bits and k hashes: sized for n = m ln 2 / k keys

The filter accepts more keys than its capacity, but its fpp then rises. ``statistics`` shows the fpp, and a
crawl warns before the target is exceeded. A chain (``scalable``) opens another slice instead.

Filters of the same geometry can be united: the OR of their bits is the filter of the keys of both. The number of keys
is then only an estimate, because it is unknown how many keys are in both: it is at least the larger count, and at most
the sum of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import SupportsIndex

from crawler.seen.filters.chain import Chain
from crawler.seen.filters.key_filter import Filter
from crawler.seen.filters.slice_entry import SliceEntry
from crawler.seen.slices.bit_storage import as_bits
from crawler.seen.slices.classic_slice import MAX_HASHES, ClassicSlice, classic_size, promised_fpp
from crawler.seen.slices.contract import Slice
from crawler.seen.slices.errors import JSON, FilterError, real_number, whole_number
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS
from crawler.seen.slices.key_hash import SEED_ZERO, KeyHash
from crawler.seen.slices.layouts import check_shape, sized_slice

_TOO_LARGE = "the filter is larger than any machine's memory"
_WITH_BITS: dict[str, type[ClassicSlice]] = {ClassicSlice.layout: ClassicSlice, **GUAVA_LAYOUTS}


class FixedFilter(Filter):
    """A filter of one slice, which accepts more keys than its capacity."""

    capacity: int
    _overfills = True

    def _made_like(self) -> dict[str, JSON]:
        return {**self.parameters(), **self._chain[0].filter.geometry()}

    def _unite(self, other: Chain, taken: Iterator[SliceEntry]) -> None:
        self._settle_skipped(other, [])
        ours, theirs = self._chain[0], other._chain[0]
        bits = as_bits(ours.filter.words)
        bits |= as_bits(theirs.filter.words)
        estimated = round(ours.filter.count_estimated())
        ours.count = min(max(ours.count, theirs.count, estimated), ours.count + theirs.count)
        ours.admitted = ours.built = ours.count


class BloomFilter(FixedFilter):
    """A Bloom filter for ``capacity`` keys at ``fpp``."""

    kind = "bloom"
    _shaped_by = ("capacity", "fpp", "layout")

    def __init__(
        self,
        capacity: SupportsIndex,
        fpp: float = 0.001,
        *,
        layout: str = "paired",
        bits: SupportsIndex | None = None,
        hashes: SupportsIndex | None = None,
        hash: KeyHash | None = None,
    ) -> None:
        """``bits`` and ``hashes`` override the geometry computed from (capacity, fpp).

        They apply to the layouts ``classic``, ``guava`` and ``guava32`` (see ``guava_slice``); the last two require
        them, and Guava's hash.

        Raises ``FilterError`` for invalid parameters.
        """
        self.capacity, self.fpp = check_shape(capacity, fpp)
        if (bits is None) != (hashes is None) or (bits is not None and layout not in _WITH_BITS):
            raise FilterError("give bits and hashes together, and only for the layouts classic, guava and guava32")
        self.layout = layout
        self.bits = None if bits is None else whole_number(bits, "bits")
        self.hashes = None if hashes is None else whole_number(hashes, "hashes")
        if layout in GUAVA_LAYOUTS:
            if hash not in (None, SEED_ZERO):
                raise FilterError(f"the layout {layout} always uses Guava's hash: omit the hash")
            hash = SEED_ZERO
        super().__init__(hash)

    @classmethod
    def with_bits_per_key(cls, capacity: SupportsIndex, bits: float, hash: KeyHash | None = None) -> BloomFilter:
        """Return a filter for ``capacity`` keys with ``bits`` bits each. Raises ``FilterError`` for invalid numbers."""
        keys, bits = whole_number(capacity, "a capacity"), real_number(bits)
        if keys < 1 or not 0 < bits < 1000:
            raise FilterError(f"invalid filter size: {keys} keys at {bits} bits each")
        try:
            size = math.ceil(keys * bits)
        except OverflowError:
            raise FilterError(_TOO_LARGE) from None
        return cls.with_geometry(size, best_hashes(bits), keys, hash)

    @classmethod
    def with_geometry(
        cls,
        bits: SupportsIndex,
        hashes: SupportsIndex,
        capacity: SupportsIndex | None = None,
        hash: KeyHash | None = None,
    ) -> BloomFilter:
        """Return a filter of ``bits`` bits (rounded up to a multiple of 64) with ``hashes`` hashes. Raises
        ``FilterError``."""
        size, positions = whole_number(bits, "bits"), whole_number(hashes, "hashes")
        if size < 1 or not 1 <= positions <= MAX_HASHES:
            raise FilterError(f"invalid filter geometry: {size} bits with {positions} hashes")
        size = -(-size // 64) * 64
        try:
            keys = whole_number(capacity or max(1, int(size * math.log(2) / positions)), "a capacity")
            fpp = promised_fpp(keys, size, positions)
        except OverflowError:
            raise FilterError(_TOO_LARGE) from None
        return cls(keys, fpp, layout="classic", bits=size, hashes=positions, hash=hash)

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
        own: dict[str, JSON] = {} if self.bits is None else {"bits": self.bits, "hashes": self.hashes}
        return super().parameters() | own


def best_hashes(bits_per_key: float) -> int:
    """Return round(bits * ln 2), limited to 1 to 30."""
    return min(max(round(bits_per_key * math.log(2)), 1), MAX_HASHES)


class Bitmap(FixedFilter):
    """A filter with one hash and one bit per key: m = -n / ln(1 - p)."""

    kind = "bitmap"
    _shaped_by = ("capacity", "fpp")

    def __init__(self, capacity: SupportsIndex, fpp: float = 0.001, *, hash: KeyHash | None = None) -> None:
        """Raises ``FilterError`` for invalid parameters."""
        self.capacity, self.fpp = check_shape(capacity, fpp)
        super().__init__(hash)

    def _make(self, number: int) -> tuple[Slice, int, float]:
        return ClassicSlice(*classic_size(self.capacity, self.fpp, 1)), self.capacity, self.fpp
