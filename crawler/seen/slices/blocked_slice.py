"""One fixed filter of the blocked layouts, and how a digest becomes bits in it.

Layout. A slice is an array of *blocks*, each a few 64-bit words; ``blocked`` has blocks of 8 words (one cache
line of 512 bits), ``paired`` of 4 (half a line). The array has as many equal *regions* as a key has blocks (1
or 2), and a key has one block in each, so its blocks can never coincide.

From the digest. Let h1, h2 be its two little-endian 64-bit words, and all arithmetic modulo 2**64:

    z  = (h1 xor h2) * 0x9E3779B97F4A7C15
    a  = z mod 2**32,   b = z >> 32        two fractions of 2**32
    block in region 0:  a * R >> 32        R = blocks in a region
    block in region 1:  R + (b * R >> 32)  =  (b + 2**32) * R >> 32

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
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.digest_batch import MASK32, MASK_INTS, MULTIPLIER, Batch, Indices, Words
from crawler.seen.slices.errors import JSON, FilterError
from crawler.seen.slices.fpp_model import BlockShape, best_shape, load_for
from crawler.seen.slices.sampling import PAGES, UNFORESEEN, Sampling

Bools = npt.NDArray[np.bool_]
PlainSlice = tuple["memoryview[int]", int, int, list[int]]  # words, blocks a region, where region 1 begins, masks

# Arrays of no dimension: numpy's operators take them faster than its scalars.
_SHIFT = np.array(32, np.uint64)
_ALL_EIGHT = np.array(0x0101010101010101, np.uint64)

LAYOUTS = {1: "blocked", 2: "paired"}

_LEAST_LOAD = 1e-3  # keys a block; half a million bits a key
_FEW_TO_PUT = 4  # keys; below, plain loops are faster than numpy's calls
_FEW_BLOCKS = 256  # up to which it pays to look whether all are different


def sized_blocks(capacity: int, fpp: float, *, blocks: int) -> tuple[BlockShape, int]:
    """The shape of the smallest slice that stays within ``fpp`` while up to ``capacity`` keys are found new.

    With it come the blocks a region. Up to capacity / (1 - fpp) keys are asked; those skipped find their bits set, as
    if they were in. Raises ``FilterError`` when no load is low enough.
    """
    shape = best_shape(blocks, fpp)
    load = load_for(shape, fpp)
    if load < _LEAST_LOAD:
        raise FilterError(f"an fpp of {fpp:.3g} is too small for blocks; use a kind that keeps digests")
    return shape, max(1, math.ceil(capacity / (1 - fpp) / load))


class BlockedSlice:
    """A fixed filter of ``shape.blocks * blocks_per_region`` blocks, whatever number of keys it is for."""

    sampling: Sampling = UNFORESEEN
    crowded = crowdable = False

    def __init__(self, shape: BlockShape, blocks_per_region: int, words: Words | None = None) -> None:
        """``words`` are the bits of a stored slice, taken over without a copy.

        Raises ``ValueError`` when there are not as many as the shape asks for.
        """
        size = shape.blocks * blocks_per_region * shape.words
        if not 1 <= blocks_per_region < 2**31:
            raise FilterError(f"a region has 1 to 2**31 - 1 blocks, not {blocks_per_region}")
        if words is not None and len(words) != size:
            raise ValueError(f"a slice of {size * 8} bytes cannot be made from {len(words) * 8}")
        self.shape = shape
        self.blocks_per_region = blocks_per_region
        self.words = zeroed_words(size) if words is None else words
        self._flat = self.words.data
        self._blocks = self.words.reshape(-1, shape.words)
        self._scale = np.array(blocks_per_region, np.uint64)
        self._word_numbers = np.arange(shape.words)
        # Where the second half of a key's words begins: in the other region, or in the same block.
        self._far = blocks_per_region * shape.words if shape.blocks == 2 else 0

    @classmethod
    def sized(cls, capacity: int, fpp: float, *, blocks: int) -> BlockedSlice:
        """The smallest slice that stays within ``fpp`` while up to ``capacity`` keys are found new."""
        return cls(*sized_blocks(capacity, fpp, blocks=blocks))

    @property
    def plain(self) -> PlainSlice:
        """What ``lookup`` needs of this slice."""
        return self._flat, self.blocks_per_region, self._far, MASK_INTS[self.shape.hashes]

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
        """Shape (n, blocks of a key): the blocks of each key."""
        if batch.blocks is not None and batch.blocks[0] is self:
            return batch.blocks[1]
        scaled = _fractions(batch, self.shape) * self._scale
        scaled >>= _SHIFT
        return scaled.view(np.intp).reshape(-1, self.shape.blocks)

    def holds(self, batch: Batch) -> Bools:
        """For each key of the batch: are all its bits set?"""
        masks = batch.masks(self.hashes).reshape(-1, self.shape.words)
        addresses = self._addresses(batch)
        if batch.blocks is None:
            batch.blocks = self, addresses
        found = self._blocks.take(addresses.reshape(-1), axis=0)
        found &= masks
        return np.asarray(np.equal(found, masks).reshape(-1).view(np.uint64) == _ALL_EIGHT)

    def put(self, batch: Batch) -> None:
        """Set the bits of every key of the batch."""
        if len(batch) < _FEW_TO_PUT:
            for h1, h2 in batch.halves.tolist():
                self.put_one(h1, h2)
            return
        addresses = self._addresses(batch).reshape(-1)
        masks = batch.masks(self.hashes)
        if len(addresses) <= _FEW_BLOCKS and len(set(addresses.tolist())) == len(addresses):
            blocks = self._blocks.take(addresses, axis=0)
            blocks |= masks.reshape(-1, self.shape.words)
            self._blocks[addresses] = blocks
            return
        places = addresses.reshape(-1, 1) * self.shape.words + self._word_numbers
        np.bitwise_or.at(self.words, places.reshape(-1), masks.reshape(-1))

    def put_one(self, h1: int, h2: int) -> None:
        """The same for one key, the halves of its digest, without numpy."""
        z = (h1 ^ h2) * MULTIPLIER
        a, b = z & MASK32, z >> 32 & MASK32
        words, blocks, table = self._flat, self.blocks_per_region, MASK_INTS[self.shape.hashes]
        if self._far:
            i = (a * blocks >> 32) * 4
            j = (b * blocks >> 32) * 4 + self._far
        else:
            i = (a * blocks >> 32) * 8
            j = i + 4
        words[i] |= table[h1 & 0xFFF]
        words[i + 1] |= table[h1 >> 16 & 0xFFF]
        words[i + 2] |= table[h1 >> 32 & 0xFFF]
        words[i + 3] |= table[h1 >> 48 & 0xFFF]
        words[j] |= table[h2 & 0xFFF]
        words[j + 1] |= table[h2 >> 16 & 0xFFF]
        words[j + 2] |= table[h2 >> 32 & 0xFFF]
        words[j + 3] |= table[h2 >> 48 & 0xFFF]

    def holds_one(self, h1: int, h2: int) -> bool:
        """The same as ``holds`` for one key, the halves of its digest, without numpy."""
        return lookup([self.plain], h1, h2)

    def geometry(self) -> dict[str, JSON]:
        """With ``words``, enough to make the same slice again."""
        return {"layout": self.layout, "hashes": self.hashes, "blocks_per_region": self.blocks_per_region}

    def sample(self) -> list[Words]:
        """Blocks of each region, of shape (blocks, words): at most a mebibyte in all."""
        regions = self._blocks.reshape(self.shape.blocks, self.blocks_per_region, self.shape.words)
        return [self.sampling.rows(region, PAGES // self.shape.blocks) for region in regions]

    def fpp_at(self, count: float) -> float:
        """The chance that an absent key is found here when ``count`` keys are in, from the model."""
        return self.shape.fpp(count / self.blocks_per_region)

    def fill(self) -> float:
        """The share of set bits; exact up to a mebibyte, from the sample above."""
        parts = self.sample()
        return sum(int(np.bitwise_count(part).sum()) for part in parts) / (64 * sum(part.size for part in parts))

    def fpp_estimated(self) -> float:
        """The chance that an absent key is found here, from the blocks as they are."""
        chance = 1.0
        for part in self.sample():
            chance *= self.shape.fpp_from_words(part)
        return chance

    def count_estimated(self) -> float:
        """How many keys explain the fill."""
        return self.shape.load_from_fill(self.fill()) * self.blocks_per_region

    def spread(self, count: float) -> float:
        """Two parts, as if independent: the keys that fall into the blocks of the sample are Poisson distributed; and
        which of their bits coincide is left to chance, as in a classic filter."""
        blocks = sum(len(part) for part in self.sample())
        fallen = count * blocks / self.blocks_per_region
        clear = math.exp(-self.shape.hashes * count / self.bits)
        coinciding = self.bits / self.shape.hashes * math.sqrt((1 / clear - 1) / (blocks * self.shape.words * 64))
        return math.hypot(count / math.sqrt(max(1.0, fallen)), coinciding)


class BlockedStack:
    """Blocked slices asked together, which suits small batches."""

    def __init__(self, slices: Sequence[BlockedSlice]) -> None:
        """``slices``, at least one, in the order in which they are asked one by one."""
        # For one key, the halves of its digest: does any slice hold it? Without numpy.
        self.holds_one = partial(lookup, [part.plain for part in slices])
        self._alike = [_Alike(list(alike)) for _, alike in groupby(slices, attrgetter("shape"))]

    def holds(self, batch: Batch) -> Bools:
        """For each key of the batch: does any slice hold it?"""
        first, *others = self._alike
        found = first.holds(batch)
        for alike in others:
            found |= alike.holds(batch)
        return found


class _Alike:
    """Slices of one shape: their blocks are found by one calculation and compared by another."""

    def __init__(self, slices: Sequence[BlockedSlice]) -> None:
        self.slices = slices
        self.shape = slices[0].shape
        self._scales = np.array([part.blocks_per_region for part in slices], np.uint64).reshape(-1, 1)
        self._arrays = [part._blocks for part in slices]

    def holds(self, batch: Batch) -> Bools:
        shape, size, count = self.shape, len(batch), len(self.slices)
        if count == 1:
            return self.slices[0].holds(batch)
        scaled = _fractions(batch, shape) * self._scales
        scaled >>= _SHIFT
        addresses = scaled.view(np.intp)
        if batch.blocks is None:
            batch.blocks = self.slices[0], addresses[0].reshape(-1, shape.blocks)
        masks = batch.masks(shape.hashes).reshape(-1, shape.words)
        found = np.empty((count, size * shape.blocks, shape.words), np.uint64)
        for array, address, into in zip(self._arrays, addresses, found, strict=True):
            # "clip" writes straight into the output; no address is out of range.
            array.take(address, axis=0, out=into, mode="clip")
        found &= masks
        held = np.equal(found, masks).reshape(-1).view(np.uint64) == _ALL_EIGHT
        return np.asarray(np.logical_or.reduce(held.reshape(count, size)))


def _fractions(batch: Batch, shape: BlockShape) -> Words:
    return batch.fractions if shape.blocks == 2 else batch.fractions[::2]


def lookup(slices: list[PlainSlice], h1: int, h2: int) -> bool:
    """Does any slice hold the key, the halves of its digest? The same as ``holds``, without numpy."""
    z = (h1 ^ h2) * MULTIPLIER
    a, b = z & MASK32, z >> 32 & MASK32
    known: list[int] = []
    for words, blocks, far, table in slices:
        if table is not known:
            known = table
            m0, m4 = table[h1 & 0xFFF], table[h2 & 0xFFF]
        # Most slices do not hold the key, and most of those say so by the first word: the rest is worked out after it.
        i = (a * blocks >> 32) * (4 if far else 8)
        if words[i] & m0 == m0:
            j = (b * blocks >> 32) * 4 + far if far else i + 4
            if (
                words[j] & m4 == m4
                and words[i + 1] & (m := table[h1 >> 16 & 0xFFF]) == m
                and words[j + 1] & (m := table[h2 >> 16 & 0xFFF]) == m
                and words[i + 2] & (m := table[h1 >> 32 & 0xFFF]) == m
                and words[j + 2] & (m := table[h2 >> 32 & 0xFFF]) == m
                and words[i + 3] & (m := table[h1 >> 48 & 0xFFF]) == m
                and words[j + 3] & (m := table[h2 >> 48 & 0xFFF]) == m
            ):
                return True
    return False
