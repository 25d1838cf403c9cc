"""One fixed filter of the blocked layouts, and how a digest becomes bits in it.

Layout. A slice is an array of *blocks*, each a few 64-bit words; ``blocked`` has blocks of 8 words (one cache
line of 512 bits), ``paired`` of 4 (half a line). The array has as many equal *regions* as a key has blocks (1
or 2), and a key has one block in each, so its blocks can never coincide.

From the digest. Let h1, h2 be its two little-endian 64-bit words, and all arithmetic modulo 2**64:

    z  = h1 * 0x9E3779B97F4A7C15  xor  h2 * 0xC2B2AE3D27D4EB4F
    z  = (z xor z >> 32) * 0xD6E8FEB86659FD93
    a  = z >> 32,   b = z mod 2**32                       two fractions of 2**32
    block in region 0:  a * R >> 32                       R = blocks in a region
    block in region 1:  R + (b * R >> 32)

Multiplying and shifting maps a fraction to 0 .. R-1 without a division, and R need not be a power of two. The
digest as eight little-endian 16-bit lanes says which bits: in word i of the key's eight words (region 0's
first), lane i sets bit ``lane & 63`` and, with 16 hashes, also bit ``lane >> 6 & 63``. The two may agree; the
model knows.

The same digest gives the fractions and lanes of every slice, so a batch is prepared once and asked of all of
them.

Cost. Asking a batch is one gather of 64 bytes a key and a comparison: numpy needs about 100 ns a key from
memory. Below about twelve keys its calls cost more than they save, and a plain loop over a memoryview
answers.
"""

from __future__ import annotations

import math
import struct
from functools import cached_property

import numpy as np
import numpy.typing as npt

from crawler.filters.model import BlockShape, best_shape, load_for
from crawler.filters.storage import zeroed_words

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]

_C1 = 0x9E3779B97F4A7C15
_C2 = 0xC2B2AE3D27D4EB4F
_C3 = 0xD6E8FEB86659FD93
_MASK64 = 2**64 - 1
_MASK32 = 2**32 - 1
_SHIFT = np.uint64(32)
_LANE = np.uint16(0xFFF)
_ALL_EIGHT = np.uint64(0x0101010101010101)

_values = np.arange(4096, dtype=np.uint64)
_first = np.uint64(1) << (_values & np.uint64(63))
_MASKS = {8: _first, 16: _first | np.uint64(1) << (_values >> np.uint64(6))}
_MASK_INTS: dict[int, list[int]] = {hashes: table.tolist() for hashes, table in _MASKS.items()}

_lanes_of = struct.Struct("<8H").unpack_from
_halves_of = struct.Struct("<QQ").unpack_from

LAYOUTS = {1: "blocked", 2: "paired"}

_SAMPLE_BLOCKS = 16_384

KeyBits = tuple[int, int, list[int]]


class Batch:
    """The digests of some keys, cut up once for all slices that are asked."""

    def __init__(self, halves: Words) -> None:
        """``halves`` has shape (n, 2), as ``digest_words`` gives it."""
        self.halves = halves
        self._masks: dict[int, Words] = {}

    def __len__(self) -> int:
        return len(self.halves)

    @cached_property
    def fractions(self) -> Words:
        """Shape (n, 2): a and b."""
        mixed = self.halves[:, 0] * np.uint64(_C1)
        mixed ^= self.halves[:, 1] * np.uint64(_C2)
        mixed ^= mixed >> _SHIFT
        mixed *= np.uint64(_C3)
        parts = mixed.view("<u4").reshape(-1, 2)
        return parts[:, ::-1].astype(np.uint64)

    def masks(self, hashes: int) -> Words:
        """Shape (n, 8): what each key sets in its eight words."""
        found = self._masks.get(hashes)
        if found is None:
            lanes = self.halves.view("<u2") & _LANE
            found = self._masks[hashes] = _MASKS[hashes].take(lanes)
        return found

    def at(self, positions: Indices) -> Batch:
        """Only the keys at ``positions``."""
        part = Batch(self.halves.take(positions, axis=0))
        part.fractions = self.fractions.take(positions, axis=0)
        part._masks = {hashes: masks.take(positions, axis=0) for hashes, masks in self._masks.items()}
        return part


def key_bits(digest: bytes, hashes: int, offset: int = 0) -> KeyBits:
    """a, b and the eight masks of the one digest at ``offset``, in plain integers."""
    h1, h2 = _halves_of(digest, offset)
    z = (h1 * _C1 ^ h2 * _C2) & _MASK64
    z = (z ^ z >> 32) * _C3 & _MASK64
    table = _MASK_INTS[hashes]
    return z >> 32, z & _MASK32, [table[lane & 0xFFF] for lane in _lanes_of(digest, offset)]


class BlockedSlice:
    """A fixed filter of ``shape.blocks * blocks_per_region`` blocks, whatever number of keys it is for."""

    def __init__(self, shape: BlockShape, blocks_per_region: int, words: Words | None = None) -> None:
        """``words`` are the bits of a stored slice, taken over without a copy.

        Raises ``ValueError`` when there are not as many as the shape asks for.
        """
        size = shape.blocks * blocks_per_region * shape.words
        if not 1 <= blocks_per_region < 2**32:
            raise ValueError(f"a region has 1 to 2**32 - 1 blocks, not {blocks_per_region}")
        if words is not None and len(words) != size:
            raise ValueError(f"a slice of {size * 8} bytes cannot be made from {len(words) * 8}")
        self.shape = shape
        self.blocks_per_region = blocks_per_region
        self.words = zeroed_words(size) if words is None else words
        self._flat = self.words.data
        self._blocks = self.words.reshape(-1, shape.words)
        self._scale = np.uint64(blocks_per_region)
        self._regions = np.arange(shape.blocks, dtype=np.uint64) * self._scale
        # Where the second half of a key's words begins: in the other region, or in the same block.
        self._far = blocks_per_region * shape.words if shape.blocks == 2 else 0

    @classmethod
    def sized(cls, capacity: int, fpp: float, *, blocks: int) -> BlockedSlice:
        """The smallest slice that stays within ``fpp`` while it holds up to ``capacity`` keys."""
        shape = best_shape(blocks, fpp)
        return cls(shape, max(1, math.ceil(capacity / load_for(shape, fpp))))

    @property
    def layout(self) -> str:
        return LAYOUTS[self.shape.blocks]

    @property
    def bits(self) -> int:
        return len(self.words) * 64

    @property
    def hashes(self) -> int:
        return self.shape.hashes

    def _addresses(self, batch: Batch) -> Indices:
        """Shape (n, blocks): the blocks of each key."""
        scaled = batch.fractions[:, : self.shape.blocks] * self._scale
        scaled >>= _SHIFT
        scaled += self._regions
        return scaled.view(np.intp)

    def holds(self, batch: Batch) -> Bools:
        """For each key of the batch: are all its bits set?"""
        masks = batch.masks(self.hashes).reshape(-1, self.shape.words)
        found = self._blocks.take(self._addresses(batch).reshape(-1), axis=0)
        found &= masks
        return np.asarray(np.equal(found, masks).reshape(-1).view(np.uint64) == _ALL_EIGHT)

    def put(self, batch: Batch) -> None:
        """Set the bits of every key of the batch."""
        addresses = self._addresses(batch).reshape(-1)
        masks = batch.masks(self.hashes).reshape(-1, self.shape.words)
        while True:
            # Where keys share a block, the last one written wins; the others are found wanting and go again.
            self._blocks[addresses] = self._blocks.take(addresses, axis=0) | masks
            wanting = ((self._blocks.take(addresses, axis=0) & masks) != masks).any(axis=1)
            if not wanting.any():
                return
            addresses, masks = addresses[wanting], masks[wanting]

    def holds_key(self, key: KeyBits) -> bool:
        """The same as ``holds`` for one key, without numpy."""
        a, b, (m0, m1, m2, m3, m4, m5, m6, m7) = key
        words, blocks = self._flat, self.blocks_per_region
        if self._far:
            i = (a * blocks >> 32) * 4
            j = (b * blocks >> 32) * 4 + self._far
        else:
            i = (a * blocks >> 32) * 8
            j = i + 4
        return (
            words[i] & m0 == m0
            and words[j] & m4 == m4
            and words[i + 1] & m1 == m1
            and words[i + 2] & m2 == m2
            and words[i + 3] & m3 == m3
            and words[j + 1] & m5 == m5
            and words[j + 2] & m6 == m6
            and words[j + 3] & m7 == m7
        )

    def put_key(self, key: KeyBits) -> None:
        """The same as ``put`` for one key, without numpy."""
        a, b, masks = key
        words, blocks = self._flat, self.blocks_per_region
        if self._far:
            i = (a * blocks >> 32) * 4
            j = (b * blocks >> 32) * 4 + self._far
        else:
            i = (a * blocks >> 32) * 8
            j = i + 4
        for place, mask in zip((i, i + 1, i + 2, i + 3, j, j + 1, j + 2, j + 3), masks, strict=True):
            words[place] |= mask

    def sample(self) -> list[Words]:
        """The first blocks of each region, of shape (blocks, words): at most a mebibyte in all.

        Keys are spread evenly, so these stand for all: read once a second, they must not cost a pass over
        gigabytes.
        """
        size = min(self.blocks_per_region, _SAMPLE_BLOCKS)
        starts = [region * self.blocks_per_region for region in range(self.shape.blocks)]
        return [self._blocks[start : start + size] for start in starts]

    def fpp_at(self, count: float) -> float:
        """The chance that an absent key is found here when ``count`` keys are in, from the model."""
        return self.shape.fpp(count / self.blocks_per_region)

    def fill(self) -> float:
        """The share of set bits; exact up to a mebibyte, from the sample above."""
        parts = self.sample()
        return sum(int(np.bitwise_count(part).sum()) for part in parts) / (
            64 * sum(part.size for part in parts)
        )

    def fpp_estimated(self) -> float:
        """The chance that an absent key is found here, from the blocks as they are."""
        chance = 1.0
        for part in self.sample():
            chance *= self.shape.fpp_from_words(part)
        return chance

    def count_estimated(self) -> float:
        """How many keys the fill ratio speaks of."""
        return self.shape.load_from_fill(self.fill()) * self.blocks_per_region
