"""Assigns keys to shards, and computes the part of a slice that a shard holds.

Let a be the fraction of 2**32 that ``slices.blocked_slice`` computes from a digest; in a slice of R blocks the key's
block is a * R >> 32. With S shards, a power of two, the key belongs to shard a * S >> 32. So the keys of a shard are in
consecutive blocks of every slice: shard s holds the blocks

    s * R >> log2(S)   to   ((s + 1) * 2**32 / S - 1) * R >> 32

of slice i, and all shards concatenated are exactly the slice of a local filter with the layout ``blocked``. A block on
the border of two shards is in both, each with the bits of its own keys; concatenation combines them with OR.

Each shard grows independently. Slice i of a set has the size of slice i of the local chain with the same parameters,
and a shard's part of it is full when it has an S-th of its keys. So the load of the blocks, and the fpp, are
the same as in the local chain.

A producer sends a *record* of 20 bytes per key: a, then the digest, whose eight 16-bit lanes determine the bits.
"""

from __future__ import annotations

import itertools
import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from crawler.seen.slices.blocked_slice import sized_blocks
from crawler.seen.slices.digest_batch import MULTIPLIER
from crawler.seen.slices.digests import DIGEST_BYTES, digest_words
from crawler.seen.slices.errors import FilterError
from crawler.seen.slices.fpp_model import BlockShape
from crawler.seen.slices.layouts import check_shape

LAYOUT = "blocked"
BLOCK = 64  # bytes of a block
RECORD = 20  # bytes per key in a request
MOST_SHARDS = 4096
LEAST_SHARDS = 16
_KEYS_A_SHARD = 2**14  # maximum number of keys of a shard in the first slice: about 50 KB at an fpp of 0.001
_PACKED = struct.Struct("<IIIIQd")
WATCHED = 65_536  # keys watched exactly, in all shards together

Indices = npt.NDArray[np.intp]


class SetParameters(Struct, frozen=True):
    """The parameters that shape a set, fixed at its creation."""

    fpp: float
    capacity: int
    growth: float
    tightening: float
    shards: int

    def __post_init__(self) -> None:
        check_shape(self.capacity, self.fpp)
        if not 1 <= self.shards <= MOST_SHARDS or self.shards & (self.shards - 1):
            raise FilterError(f"the number of shards must be a power of two from 1 to {MOST_SHARDS}, not {self.shards}")

    @property
    def watched(self) -> int:
        """The maximum number of keys that a shard watches."""
        return max(16, WATCHED // self.shards)


class Geometry(NamedTuple):
    """A shard's part of a slice."""

    hashes: int
    first: int  # its first block in the whole slice
    blocks: int
    whole: int  # blocks of the whole slice
    capacity: int  # number of keys when full
    fpp: float  # when full

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.blocks * BLOCK

    def pack(self) -> bytes:
        """Return this part in the form that a shard stores."""
        return _PACKED.pack(*self)


def unpack_all(packed: bytes) -> list[Geometry]:
    """Unpack several concatenated outputs of ``pack``."""
    return [Geometry(*fields) for fields in _PACKED.iter_unpack(packed)]


class Divided(NamedTuple):
    """The keys of one shard in a batch."""

    shard: int
    positions: Indices  # positions of these keys in the batch
    records: bytes


def shards_for(capacity: int) -> int:
    """Return the number of shards for a set whose first slice takes ``capacity`` keys."""
    shards = LEAST_SHARDS
    while shards < MOST_SHARDS and shards * _KEYS_A_SHARD < capacity:
        shards *= 2
    return shards


@lru_cache(maxsize=256)
def _whole(parameters: SetParameters, number: int) -> tuple[BlockShape, int, int, float]:
    """Return the shape, blocks, capacity and fpp of slice ``number``, from 0, as in ``ScalableBloomFilter``."""
    capacity = int(parameters.capacity * parameters.growth**number)
    fpp = parameters.fpp * (1 - parameters.tightening) * parameters.tightening**number
    shape, blocks = sized_blocks(capacity, fpp, blocks=1)
    return shape, blocks, capacity, fpp


def geometry_of(parameters: SetParameters, number: int, shard: int) -> Geometry:
    """Return the part of slice ``number``, from 0, that ``shard`` holds. Raises ``FilterError``."""
    shape, whole, capacity, fpp = _whole(parameters, number)
    first, blocks = part_of(whole, shard, parameters.shards)
    return Geometry(shape.hashes, first, blocks, whole, max(1, -(-capacity // parameters.shards)), fpp)


def part_of(whole: int, shard: int, shards: int) -> tuple[int, int]:
    """Return the first block that a shard has in a slice of ``whole`` blocks, and how many blocks it has there."""
    step = 2**32 // shards
    first = shard * step * whole >> 32
    last = ((shard + 1) * step - 1) * whole >> 32
    return first, last - first + 1


def divide(digests: bytes, shards: int) -> list[Divided]:
    """Divide a batch by shards; the keys of each shard stay in the order of the batch."""
    halves = digest_words(digests)
    fractions = ((halves[:, 0] ^ halves[:, 1]) * np.uint64(MULTIPLIER)).astype("<u4")  # the lower half of the product
    records = np.empty((len(halves), RECORD), np.uint8)
    records[:, :4] = fractions.view(np.uint8).reshape(-1, 4)
    records[:, 4:] = halves.view(np.uint8).reshape(-1, DIGEST_BYTES)
    numbers = fractions.astype(np.uint64) * np.uint64(shards) >> np.uint64(32)
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    edges = np.flatnonzero(np.diff(sorted_numbers)) + 1
    grouped = records[order]
    starts = [0, *edges.tolist(), len(order)]
    return [
        Divided(int(sorted_numbers[start]), order[start:end], grouped[start:end].tobytes())
        for start, end in itertools.pairwise(starts)
        if end > start
    ]


def digests_of(records: bytes) -> bytes:
    """Return the concatenated digests in records."""
    return np.frombuffer(records, np.uint8).reshape(-1, RECORD)[:, 4:].tobytes()
