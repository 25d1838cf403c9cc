"""The classic Bloom filter: k bits of a key anywhere in m (Bloom, 1970), and its degenerate case, the bitmap.

    position i of a key  =  (h1 + i * h2 + (i**3 - i) / 6  mod 2**64)  mod m          i = 0 .. k-1

Two hash values are enough for k positions without raising the fpp if m is large (Kirsch and Mitzenmacher, "Less
Hashing, Same Performance", 2006); both are halves of the one digest. With a small m, h1 + i * h2 alone raises the fpp:
a key whose h2 shares a large factor with m has few distinct positions, and keys whose sequences are shifted by one step
share most of theirs. This adds a quarter to a half of 1/m to the model's fpp: nine times that fpp at 1,000 keys and
1e-6. The third term bends the sequences (*enhanced double hashing*: Dillinger and Manolios, "Bloom Filters in
Probabilistic Verification", 2004), so that no sequence repeats itself or follows another.

For n keys and a target p, k = log2(1/p) hashes and m = n * k / ln 2 bits are optimal; half of the bits are then
set at capacity: 1.44 log2(1/p) bits per key, the fewest of the layouts here. k must be an integer, so m is
computed as m = -k n / ln(1 - p**(1/k)) for both neighbours, and the smaller is used. This layout is also the slowest:
each of the k positions is in a different cache line.

With k = 1 this is the *bitmap*, one hash and one bit: for an fpp of 1% it needs 99 bits per key, where seven
hashes need ten. It is included for comparison.

Tiny filters have a higher fpp than this formula gives, for two reasons. The share of set bits varies from filter to
filter, and the mean of its k-th power is larger than the k-th power of its mean (Bose et al., "On the False-Positive
Rate of Bloom Filters", 2008). And an absent key may have the same positions as a present one: a sequence is derived
from two numbers modulo m, so there are m**2 of them, times the number s of ways in which the sums can pass 2**64 (1 if
m is a power of two, which divides 2**64). Positions that are already set do not distinguish sequences; measured, s is
then above (k (1 - f))**3 / 40. With the fill f and its variance v,

    fpp  <  f**k * exp(k (k-1) / 2 * v / f**2)  +  n / (m**2 s)

``classic_size`` adds bits until this bound is met as well. Filters of more than a few thousand bits need none,
unless the fpp is below about 1e-8.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.errors import JSON
from crawler.seen.slices.fpp_model import FULLEST
from crawler.seen.slices.sampling import UNFORESEEN, Sampling

Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

MAX_HASHES = 30
POSITIONS = "enhanced"  # stored with each slice, because an earlier version of the program computed other positions
_ALLOWED = 1.01  # times the requested fpp; the terms omitted for large filters add less than this
_MORE = 1.005
_SIX = np.uint64(6)
_LOW_SIX = np.uint64(63)
_ONE = np.uint64(1)


def classic_fpp(count: float, size: float, hashes: int) -> float:
    """Return (1 - exp(-kn/m)) ** k."""
    return float((-math.expm1(-hashes * count / size)) ** hashes)


def classic_spread(count: float, size: int, hashes: int, sample: int) -> float:
    """Return the standard deviation of the number of keys estimated from ``sample`` positions: the estimate is -(m/k)
    ln(1 - fill), and each position is set with probability 1 - exp(-kn/m). If all positions are sampled, the deviation
    is smaller, because the total number of hits is fixed."""
    return size / hashes * math.sqrt(math.expm1(min(700.0, hashes * count / size)) / sample)


def tiny_fpp(count: float, size: int, hashes: int) -> float:
    """Return the fpp of a filter of any size, including tiny ones, as the module docstring derives it."""
    full = -math.expm1(hashes * count * math.log1p(-1 / size))
    load = hashes * count / size
    variance = math.exp(-load) * (1 - (1 + load) * math.exp(-load)) / size
    varied = full**hashes * math.exp(hashes * (hashes - 1) / 2 * variance / full**2)
    if hashes == 1:
        return min(1.0, varied)
    sequences = 1.0 if size & (size - 1) == 0 else max(1.0, (hashes * (1 - full)) ** 3 / 40)
    return min(1.0, varied + count / size**2 / sequences)


def promised_fpp(count: float, size: int, hashes: int) -> float:
    """Return the fpp to promise: ``classic_fpp``, or ``tiny_fpp`` if that is clearly higher."""
    simple, careful = classic_fpp(count, size, hashes), tiny_fpp(count, size, hashes)
    return careful if careful > _ALLOWED * simple else simple


def classic_size(capacity: int, fpp: float, hashes: int | None = None) -> tuple[int, int]:
    """Return the fewest bits for ``capacity`` keys at ``fpp``, and the number of hashes, which ``hashes`` can fix."""
    best = math.log2(1 / fpp)
    wanted = {min(max(round(k), 1), MAX_HASHES) for k in (math.floor(best), math.ceil(best))}
    asked = capacity / (1 - fpp)  # false positives find their bits set, as if they had been added
    sizes = {k: -k * asked / math.log1p(-math.exp(math.log(fpp) / k)) for k in ({hashes} if hashes else wanted)}
    chosen = min(sizes, key=lambda k: sizes[k])
    size = max(64, math.ceil(sizes[chosen] / 64) * 64)
    # Large filters keep their exact size, so that new ones can be united with stored ones.
    while tiny_fpp(asked, size, chosen) > _ALLOWED * fpp:
        size = max(size + 64, math.ceil(size * _MORE / 64) * 64)
    return size, chosen


@lru_cache(maxsize=256)
def steps_of(hashes: int) -> tuple[Words, Words]:
    """Return i and (i**3 - i) / 6 for i = 0 .. ``hashes`` - 1."""
    steps = np.arange(hashes, dtype=np.uint64)
    return steps, (steps**3 - steps) // np.uint64(6)


def reduce_to(places: Words, size: int) -> Words:
    """Reduce ``places`` modulo ``size``, in place."""
    # numpy divides by a scalar much faster than it computes the remainder.
    whole = places // np.uint64(size)
    whole *= np.uint64(size)
    places -= whole
    return places


def positions_of(batch: Batch, size: int, hashes: int) -> Words:
    """Return the positions of each key in ``size`` places, with shape (n, hashes)."""
    steps, bends = steps_of(hashes)
    places = batch.halves[:, 1:] * steps
    places += batch.halves[:, :1]
    places += bends
    return reduce_to(places, size)


class ClassicSlice:
    """A filter of ``bits`` bits, a multiple of 64; a key sets ``hashes`` of them."""

    layout = "classic"
    most_hashes = MAX_HASHES
    sampling: Sampling = UNFORESEEN
    crowded = crowdable = False

    def __init__(self, bits: int, hashes: int, words: Words | None = None) -> None:
        """Raises ``ValueError`` for invalid parameters, or if ``words`` has the wrong length."""
        if bits < 64 or bits % 64:
            raise ValueError(f"the number of bits must be a multiple of 64, not {bits}")
        if not 1 <= hashes <= self.most_hashes:
            raise ValueError(f"the number of hashes must be 1 to {self.most_hashes}, not {hashes}")
        if words is not None and len(words) * 64 != bits:
            raise ValueError(f"a slice of {bits // 8} bytes cannot be loaded from {len(words) * 8} bytes")
        self.bits = bits
        self.hashes = hashes
        self.words = zeroed_words(bits // 64) if words is None else words

    @classmethod
    def sized(cls, capacity: int, fpp: float) -> ClassicSlice:
        """Return the smallest slice that stays within ``fpp`` until ``capacity`` keys have been added."""
        return cls(*classic_size(capacity, fpp))

    def _positions(self, batch: Batch) -> Words:
        return positions_of(batch, self.bits, self.hashes)

    def holds(self, batch: Batch) -> Bools:
        places = self._positions(batch)
        found = self.words.take((places >> _SIX).view(np.intp))
        found >>= places & _LOW_SIX
        found &= _ONE
        return np.asarray(found.all(axis=1))

    def put(self, batch: Batch) -> None:
        places = self._positions(batch).reshape(-1)
        np.bitwise_or.at(self.words, (places >> _SIX).view(np.intp), _ONE << (places & _LOW_SIX))

    def fill(self) -> float:
        sample = self.sampling.rows(self.words)
        return int(np.bitwise_count(sample).sum()) / (64 * len(sample))

    def fpp_estimated(self) -> float:
        return float(self.fill() ** self.hashes)

    def fpp_at(self, count: float) -> float:
        return classic_fpp(count, self.bits, self.hashes)

    def count_estimated(self) -> float:
        """Return -(m/k) ln(1 - fill) (Swamidass and Baldi, 2007)."""
        return -math.log1p(-min(self.fill(), FULLEST)) * self.bits / self.hashes

    def spread(self, count: float) -> float:
        return classic_spread(count, self.bits, self.hashes, 64 * len(self.sampling.rows(self.words)))

    def geometry(self) -> dict[str, JSON]:
        return {"layout": self.layout, "bits": self.bits, "hashes": self.hashes, "positions": POSITIONS}
