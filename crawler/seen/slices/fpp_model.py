"""The false-positive probability of a filter, computed before the filter is built.

A Bloom filter of m bits that holds n keys of k bits each reports an absent key as present if all k bits of that
key are set. If the bits are spread over all m, the share of set bits is 1 - exp(-kn/m) with very little
deviation, and

    fpp = (1 - exp(-kn/m)) ** k                                                                   (classic)

A *blocked* filter puts all bits of a key into one small block (Putze, Sanders and Singler, "Cache-, hash- and
space-efficient Bloom filters", 2007). That costs one cache miss instead of k, but the blocks are not equally
full: the number of keys per block is Poisson distributed, full blocks raise the fpp far more than empty ones
lower it, and the classic formula is too optimistic. The correct fpp is the mean over the blocks.

The blocks here consist of words of 64 bits, and a key sets the same number c of bits (1 or 2) in every word
of its block. With L keys in the block, one of its words covers the c bits of an absent key with probability

    c = 1:  C(L) = 1 - (63/64)**L
    c = 2:  C(L) = 1 - 2 q + q/64 + (63/64) (62/64)**(2L),        q = (63/64)**(2L)

(by inclusion and exclusion over its two positions, which are drawn independently and agree one time in 64).
The words of a block are independent given L, so a block of w words covers an absent key with probability

    B(load) = sum over L of Poisson(L; load) * C(L)**w

and a key that is spread over h blocks is covered with B(load)**h. Two blocks of half the size (``paired``) have a lower
fpp than one (``blocked``): a false positive needs both blocks to be full, which happens more
rarely. At fpp 1e-4 the bits per key are: classic 19.2, paired 20.9, blocked 22.9.

Poisson is the limit for many blocks. With few blocks the load varies less (binomially), so the result is an upper
bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Floats = npt.NDArray[np.float64]

WORDS_PER_KEY = 8
_MAX_LOAD = 512.0
_HOPELESS_LOAD = 8192.0  # (63/64)**8192 is 1e-56: every bit is set, and no sum is needed
_NEARLY_ONE = 1 - 1e-12
FULLEST = 1 - 2.0**-24  # used for a fill of 1; 2**23 sampled bits cannot show a fill closer to 1


def _most(load: float) -> int:
    """Return the number of keys at which the sum may end: blocks with more keys are negligible."""
    return int(load + 12 * math.sqrt(load)) + 40


@cache
def _keys() -> tuple[Floats, Floats]:
    """Return the integers from 0 to the end of the longest sum, and the logarithms of their factorials."""
    keys = np.arange(_most(_HOPELESS_LOAD), dtype=np.float64)
    return keys, np.concatenate(([0.0], np.cumsum(np.log(keys[1:]))))


@cache
def _covers(words: int, bits: int) -> Floats:
    """Return C(L)**w of the module docstring, for each L of ``_keys``."""
    keys, _ = _keys()
    unset = (63 / 64) ** (bits * keys)
    once = 1 - unset if bits == 1 else 1 - 2 * unset + unset / 64 + (63 / 64) * (62 / 64) ** (2 * keys)
    return np.asarray(once**words, np.float64)


@lru_cache(maxsize=2**14)
def _covered(load: float, words: int, bits: int) -> float:
    """Return B(load) of the module docstring. Cached, because slices of the same size need it for the same loads."""
    (keys, factorials), end = _keys(), _most(load)
    weights = np.exp(keys[:end] * math.log(load) - factorials[:end] - load)
    return float(weights @ _covers(words, bits)[:end])


def compound(fpps: Iterable[float]) -> float:
    """Return 1 - prod(1 - p): the fpp of several filters combined. This is exact for tiny values, too."""
    # The result is subtracted from 0.0, so that an empty filter does not show a negative zero.
    return 0.0 - math.expm1(sum(math.log1p(-min(fpp, _NEARLY_ONE)) for fpp in fpps))


class BlockShape(Struct, frozen=True):
    """The shape of a key: ``hashes`` bits (8 or 16) in ``blocks`` blocks (1 or 2), which have 8 words in total."""

    hashes: int
    blocks: int

    def __post_init__(self) -> None:
        if self.hashes not in (8, 16) or self.blocks not in (1, 2):
            raise ValueError(f"a key must set 8 or 16 bits in 1 or 2 blocks, not {self.hashes} bits in {self.blocks}")

    @property
    def words(self) -> int:
        """64-bit words of one block."""
        return WORDS_PER_KEY // self.blocks

    @property
    def bits_per_word(self) -> int:
        return self.hashes // WORDS_PER_KEY

    def fpp(self, load: float) -> float:
        """Return the false-positive probability at a mean of ``load`` keys per block."""
        if load <= 0:
            return 0.0
        if load > _HOPELESS_LOAD:
            return 1.0
        return _covered(load, self.words, self.bits_per_word) ** self.blocks

    def load_from_fill(self, fill: float) -> float:
        """Return the mean load that explains the share ``fill`` of set bits: Swamidass and Baldi (2007) for this
        layout.

        A bit stays clear with probability (63/64)**(cL); its mean over Poisson(L; load) is
        exp(-load * (1 - (63/64)**c)), which is solved for the load. A fill of 1 is treated as ``FULLEST``.
        """
        return -math.log1p(-min(fill, FULLEST)) / (1 - (63 / 64) ** self.bits_per_word)

    def fpp_from_words(self, words: npt.NDArray[np.uint64]) -> float:
        """Return the chance that a block covers an absent key: the mean over ``words``, of shape (blocks, words)."""
        if not len(words):
            return 0.0
        share = (np.bitwise_count(words) / 64.0) ** self.bits_per_word
        return float(np.prod(share, axis=1).mean())


@lru_cache(maxsize=1024)
def load_for(shape: BlockShape, fpp: float) -> float:
    """Return the largest mean load at which ``shape`` stays within ``fpp``."""
    low, high = 0.0, _MAX_LOAD
    for _ in range(60):
        middle = (low + high) / 2
        if shape.fpp(middle) <= fpp:
            low = middle
        else:
            high = middle
    return low


def best_shape(blocks: int, fpp: float) -> BlockShape:
    """Return the shape that needs the fewest bits for ``fpp``."""
    shapes = (BlockShape(8, blocks), BlockShape(16, blocks))
    return max(shapes, key=lambda shape: load_for(shape, fpp))


class SkipCurve:
    """The number of false positives while a filter fills from 0 to ``capacity`` keys.

    Each key that was found new stands for 1/(1-p) new keys that were looked up at that moment; a share p of them were
    false positives, so p/(1-p) skipped keys are expected per added key (docs/explanation/filters.md derives it). A
    skipped key finds all its bits set, so the filter looks as if the key had been added as well. With a keys looked up,
    S(a) of them skipped,

        S(a) = integral of p(a) da,      n(a) = a - S(a) keys are in the filter,

    where p(a) is the model's fpp for a keys. S and p are tabulated against a and looked up by n. So the figures depend
    on counts alone, and a filter rebuilt from its journal reports exactly the same figures as before.
    """

    _POINTS = 128  # the fpp is at most the 16th power of the fill: an interpolation error of 0.2%
    _LIMIT = 8  # times the capacity; a filter that is not full after that many lookups is useless

    def __init__(self, fpp_at: Callable[[float], float], capacity: int) -> None:
        asked = float(capacity)
        while True:
            grid = np.linspace(0.0, asked, self._POINTS + 1)
            self._fpp = np.array([fpp_at(count) for count in grid])
            steps = (self._fpp[1:] + self._fpp[:-1]) / 2 * np.diff(grid)
            self._skipped = np.concatenate(([0.0], np.cumsum(steps)))
            self._counts = grid - self._skipped
            if self._counts[-1] >= capacity or asked > self._LIMIT * capacity:
                return
            asked = asked * 1.25 if asked > capacity else min(1.25 * asked, asked + 2 * self._skipped[-1])

    def fpp(self, count: int) -> float:
        """Return p when ``count`` keys are in the filter."""
        return float(np.interp(count, self._counts, self._fpp))

    def skipped(self, count: int, before: float = 0.0) -> float:
        """Return the number of absent keys skipped while the first ``count`` keys were added.

        ``before`` is q, the compound fpp of the sealed slices that are looked up as well. The compound p is then
        1 - (1-q)(1-p(j)), and p/(1-p) = 1/(1-q) - 1 + 1/(1-q) * p(j)/(1-p(j)).
        """
        ask = 1 / (1 - before)
        return (ask - 1) * count + ask * float(np.interp(count, self._counts, self._skipped))
