"""Which shard a key belongs to, and which part of a slice its shard holds.

Let a be the fraction of 2**32 that ``slices.blocked_slice`` makes of a digest; in a slice of R blocks the key's block
is a * R >> 32. With S shards, a power of two, the key belongs to shard a * S >> 32. So the keys of a shard fall into
consecutive blocks of every slice: of slice i, shard s holds the blocks

    s * R >> log2(S)   to   ((s + 1) * 2**32 / S - 1) * R >> 32

and laid end to end the shards are the very slice that a local filter with the layout ``blocked`` has. A block on the
border of two shards is in both, each with the bits of its own keys; put together, they are combined with OR.

All shards grow by themselves. Slice i of a set has the size of slice i of the local chain with the same parameters,
and a shard's part of it is full when it has an S-th of its keys. So the load of the blocks, and with it the fpp, is
that of the local chain.

A producer sends 20 bytes a key, a *record*: a, then the digest, whose eight 16-bit lanes say which bits.
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
BLOCK = 64  # bytes
RECORD = 20  # bytes of a key in a request
MOST_SHARDS = 4096
LEAST_SHARDS = 16
_KEYS_A_SHARD = 2**14  # in the first slice: some 50 KB at an fpp of 0.001
_PACKED = struct.Struct("<IIIIQd")
WATCHED = 65_536  # keys that are watched exactly, in all shards

Indices = npt.NDArray[np.intp]


class SetParameters(Struct, frozen=True):
    """What shapes a set. They are fixed when it is made."""

    fpp: float
    capacity: int
    growth: float
    tightening: float
    shards: int

    def __post_init__(self) -> None:
        check_shape(self.capacity, self.fpp)
        if not 1 <= self.shards <= MOST_SHARDS or self.shards & (self.shards - 1):
            raise FilterError(f"a set has 1 to {MOST_SHARDS} shards, a power of two, not {self.shards}")

    @property
    def watched(self) -> int:
        """Keys that a shard watches at most."""
        return max(16, WATCHED // self.shards)


class Geometry(NamedTuple):
    """A shard's part of a slice."""

    hashes: int
    first: int  # of its blocks, in the whole slice
    blocks: int
    whole: int  # blocks of the whole slice
    capacity: int  # keys that the part takes
    fpp: float  # when it is full

    @property
    def size(self) -> int:
        """Bytes."""
        return self.blocks * BLOCK

    def pack(self) -> bytes:
        """As a shard stores it."""
        return _PACKED.pack(*self)

    def block_of(self, fraction: int) -> int:
        """Which of its blocks a key has."""
        return (fraction * self.whole >> 32) - self.first


def unpack_all(packed: bytes) -> list[Geometry]:
    """The inverse of ``pack``, of several."""
    return [Geometry(*fields) for fields in _PACKED.iter_unpack(packed)]


class Divided(NamedTuple):
    """The keys of one shard in a batch."""

    shard: int
    positions: Indices  # in the batch
    records: bytes


def shards_for(capacity: int) -> int:
    """How many shards suit a set whose first slice takes so many keys."""
    shards = LEAST_SHARDS
    while shards < MOST_SHARDS and shards * _KEYS_A_SHARD < capacity:
        shards *= 2
    return shards


@lru_cache(maxsize=256)
def _whole(parameters: SetParameters, number: int) -> tuple[BlockShape, int, int, float]:
    """Of slice ``number``, from 0: its shape, blocks, capacity and fpp, as ``ScalableBloomFilter`` makes it."""
    capacity = int(parameters.capacity * parameters.growth**number)
    fpp = parameters.fpp * (1 - parameters.tightening) * parameters.tightening**number
    shape, blocks = sized_blocks(capacity, fpp, blocks=1)
    return shape, blocks, capacity, fpp


def geometry_of(parameters: SetParameters, number: int, shard: int) -> Geometry:
    """The part of slice ``number``, from 0, that ``shard`` holds. Raises ``FilterError``."""
    shape, whole, capacity, fpp = _whole(parameters, number)
    first, blocks = part_of(whole, shard, parameters.shards)
    return Geometry(shape.hashes, first, blocks, whole, max(1, -(-capacity // parameters.shards)), fpp)


def part_of(whole: int, shard: int, shards: int) -> tuple[int, int]:
    """The first block that a shard has of a slice of ``whole`` blocks, and how many."""
    step = 2**32 // shards
    first = shard * step * whole >> 32
    last = ((shard + 1) * step - 1) * whole >> 32
    return first, last - first + 1


def divide(digests: bytes, shards: int) -> list[Divided]:
    """A batch by shards, the keys of each in the order of the batch."""
    halves = digest_words(digests)
    fractions = ((halves[:, 0] ^ halves[:, 1]) * np.uint64(MULTIPLIER)).astype("<u4")  # its lower half
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
    """The digests in records, concatenated."""
    return np.frombuffer(records, np.uint8).reshape(-1, RECORD)[:, 4:].tobytes()
