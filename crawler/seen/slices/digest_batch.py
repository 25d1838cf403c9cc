"""The digests of a batch of keys, prepared for lookups.

``blocked_slice`` explains how a digest maps to bits. This module does the arithmetic that all slices have in common.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]

MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, odd
MASK64 = 2**64 - 1
MASK32 = 2**32 - 1

# Zero-dimensional arrays: numpy's operators are faster with them than with its scalars.
_MULTIPLIER = np.array(MULTIPLIER, np.uint64)
_STEP = np.array(2**32, np.uint64)
_LANE = np.array(0xFFF, np.uint16)
_values = np.arange(4096, dtype=np.uint64)
_first = np.uint64(1) << (_values & np.uint64(63))
_MASKS = {8: _first, 16: _first | np.uint64(1) << (_values >> np.uint64(6))}


def check_multiplier(multiplier: int) -> int:
    """Return ``multiplier``. Raises ``ValueError`` unless it is odd and has 64 bits, so that products are distinct."""
    if not isinstance(multiplier, int) or multiplier % 2 != 1 or not 0 < multiplier <= MASK64:
        raise ValueError(f"the multiplier must be an odd 64-bit number, not {multiplier!r}")
    return multiplier


def spread_all(h1: Words, h2: Words | int, multiplier: int) -> Words:
    """Return 64-bit numbers computed from both halves. Without knowing the multiplier, one cannot choose digests whose
    numbers are close to each other."""
    mixed = h1 * np.uint64(multiplier)
    mixed ^= mixed >> np.uint64(32)
    mixed += np.uint64(h2) if isinstance(h2, int) else h2
    mixed *= np.uint64(multiplier)
    return mixed


class Batch:
    """The digests of a batch of keys. The numbers that slices derive from the digests are computed once."""

    __slots__ = ("_fractions", "_masks", "halves")

    def __init__(self, halves: Words) -> None:
        """``halves`` has shape (n, 2), as returned by ``digest_words``."""
        self.halves = halves
        self._fractions: Words | None = None
        self._masks: dict[int, Words] = {}

    @classmethod
    def of_one(cls, h1: int, h2: int) -> Batch:
        """Return a batch of one key, given the halves of its digest."""
        return cls(np.array([[h1, h2]], np.uint64))

    def __len__(self) -> int:
        return len(self.halves)

    @property
    def fractions(self) -> Words:
        """a and b + 2**32 (b with the offset of region 1) for each key, with shape (2 n); see ``blocked_slice``."""
        found = self._fractions
        if found is None:
            halves = self.halves
            mixed = halves[:, 0] ^ halves[:, 1]
            mixed *= _MULTIPLIER
            found = self._fractions = mixed.view("<u4").astype(np.uint64)
            found[1::2] += _STEP
        return found

    def masks(self, hashes: int) -> Words:
        """Return the bits that each key sets in its eight words, with shape (n, 8)."""
        found = self._masks.get(hashes)
        if found is None:
            lanes = self.halves.view("<u2") & _LANE
            found = self._masks[hashes] = _MASKS[hashes].take(lanes)
        return found

    def at(self, positions: Indices) -> Batch:
        """Return a batch of the keys at ``positions``."""
        return Batch(self.halves.take(positions, axis=0))
