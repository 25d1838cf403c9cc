"""One fixed-size filter of a blocked layout: its memory layout, and how a digest maps to bits.

Layout. A slice is an array of *blocks* of a few 64-bit words each: 8 words in ``blocked`` (one cache line of
512 bits), 4 in ``paired`` (half a line). The array has as many equal *regions* as a key has blocks (1 or 2).
A key has one block in each region, so its blocks never coincide.

From the digest. Let h1, h2 be its two little-endian 64-bit words, and all arithmetic modulo 2**64:

    z  = (h1 xor h2) * 0x9E3779B97F4A7C15
    a  = z mod 2**32,   b = z >> 32        two fractions of 2**32
    block in region 0:  a * R >> 32        R = blocks in a region
    block in region 1:  R + (b * R >> 32)  =  (b + 2**32) * R >> 32

Multiplying and shifting maps a fraction to 0 .. R-1 without a division, and R need not be a power of two. The
bits are chosen by the digest as eight little-endian 16-bit lanes: in word i of the key's eight words (region 0
first), lane i sets bit ``lane & 63`` and, with 16 hashes, also bit ``lane >> 6 & 63``. The two may be the same
bit; the model accounts for this.

Fractions and lanes depend only on the digest, so a batch is prepared once and looked up in every slice.

Cost. Looking up a batch gathers 64 bytes per key and compares them: with numpy about 100 ns per key from
memory.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.digest_batch import Batch, Indices, Words
from crawler.seen.slices.errors import JSON, FilterError
from crawler.seen.slices.fpp_model import BlockShape, best_shape, load_for
from crawler.seen.slices.sampling import PAGES, UNFORESEEN, Sampling

Bools = npt.NDArray[np.bool_]

# Zero-dimensional arrays: numpy's operators are faster with them than with its scalars.
_SHIFT = np.array(32, np.uint64)
_ALL_EIGHT = np.array(0x0101010101010101, np.uint64)

LAYOUTS = {1: "blocked", 2: "paired"}

_LEAST_LOAD = 1e-3  # keys per block; half a million bits per key


def sized_blocks(capacity: int, fpp: float, *, blocks: int) -> tuple[BlockShape, int]:
    """Return the shape of the smallest slice that stays within ``fpp`` until ``capacity`` keys have been added, and its
    blocks per region.

    Up to capacity / (1 - fpp) keys are offered by then; those that are false positives find their bits set, as if they
    had been added. Raises ``FilterError`` if even the lowest load exceeds ``fpp``.
    """
    shape = best_shape(blocks, fpp)
    load = load_for(shape, fpp)
    if load < _LEAST_LOAD:
        raise FilterError(f"an fpp of {fpp:.3g} is too small for a blocked layout; use a kind that stores digests")
    return shape, max(1, math.ceil(capacity / (1 - fpp) / load))


class BlockedSlice:
    """A fixed-size filter of ``shape.blocks * blocks_per_region`` blocks."""

    sampling: Sampling = UNFORESEEN
    crowded = crowdable = False

    def __init__(self, shape: BlockShape, blocks_per_region: int, words: Words | None = None) -> None:
        """Create an empty slice, or adopt the stored bits ``words`` without a copy.

        Raises ``ValueError`` if the length of ``words`` does not match the shape.
        """
        size = shape.blocks * blocks_per_region * shape.words
        if not 1 <= blocks_per_region < 2**31:
            raise FilterError(f"blocks per region must be 1 to 2**31 - 1, not {blocks_per_region}")
        if words is not None and len(words) != size:
            raise ValueError(f"a slice of {size * 8} bytes cannot be loaded from {len(words) * 8} bytes")
        self.shape = shape
        self.blocks_per_region = blocks_per_region
        self.words = zeroed_words(size) if words is None else words
        self._blocks = self.words.reshape(-1, shape.words)
        self._scale = np.array(blocks_per_region, np.uint64)
        self._word_numbers = np.arange(shape.words)

    @classmethod
    def sized(cls, capacity: int, fpp: float, *, blocks: int) -> BlockedSlice:
        """Return the smallest slice that stays within ``fpp`` until ``capacity`` keys have been added."""
        return cls(*sized_blocks(capacity, fpp, blocks=blocks))

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
        """Return the block indices of each key, with shape (n, blocks per key)."""
        fractions = batch.fractions if self.shape.blocks == 2 else batch.fractions[::2]
        scaled = fractions * self._scale
        scaled >>= _SHIFT
        return scaled.view(np.intp).reshape(-1, self.shape.blocks)

    def holds(self, batch: Batch) -> Bools:
        """Return, for each key of the batch, True if all its bits are set."""
        masks = batch.masks(self.hashes).reshape(-1, self.shape.words)
        found = self._blocks.take(self._addresses(batch).reshape(-1), axis=0)
        found &= masks
        return np.asarray(np.equal(found, masks).reshape(-1).view(np.uint64) == _ALL_EIGHT)

    def put(self, batch: Batch) -> None:
        """Set the bits of every key of the batch."""
        places = self._addresses(batch).reshape(-1, 1) * self.shape.words + self._word_numbers
        np.bitwise_or.at(self.words, places.reshape(-1), batch.masks(self.hashes).reshape(-1))

    def geometry(self) -> dict[str, JSON]:
        """Return the properties that, together with ``words``, are enough to rebuild the slice."""
        return {"layout": self.layout, "hashes": self.hashes, "blocks_per_region": self.blocks_per_region}

    def sample(self) -> list[Words]:
        """Return sampled blocks of each region, with shape (blocks, words); at most 1 MiB in total."""
        regions = self._blocks.reshape(self.shape.blocks, self.blocks_per_region, self.shape.words)
        return [self.sampling.rows(region, PAGES // self.shape.blocks) for region in regions]

    def fpp_at(self, count: float) -> float:
        """Return the modelled chance of a false positive in this slice after ``count`` keys."""
        return self.shape.fpp(count / self.blocks_per_region)

    def fill(self) -> float:
        """Return the share of set bits; exact up to 1 MiB, otherwise estimated from ``sample``."""
        parts = self.sample()
        return sum(int(np.bitwise_count(part).sum()) for part in parts) / (64 * sum(part.size for part in parts))

    def fpp_estimated(self) -> float:
        """Return the chance of a false positive in this slice, estimated from the sampled blocks."""
        chance = 1.0
        for part in self.sample():
            chance *= self.shape.fpp_from_words(part)
        return chance

    def count_estimated(self) -> float:
        """Estimate the number of keys from the fill."""
        return self.shape.load_from_fill(self.fill()) * self.blocks_per_region

    def spread(self, count: float) -> float:
        """Return the standard deviation of ``count_estimated``, from two parts taken as independent: the number of keys
        in the sampled blocks is Poisson distributed, and their bits coincide by chance, as in a classic filter."""
        blocks = sum(len(part) for part in self.sample())
        fallen = count * blocks / self.blocks_per_region
        clear = math.exp(-self.shape.hashes * count / self.bits)
        coinciding = self.bits / self.shape.hashes * math.sqrt((1 / clear - 1) / (blocks * self.shape.words * 64))
        return math.hypot(count / math.sqrt(max(1.0, fallen)), coinciding)
