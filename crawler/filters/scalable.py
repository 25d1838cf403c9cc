"""A Bloom filter for a number of keys that nobody knows beforehand.

The idea (Almeida, Baquero, Preguica and Hutchison, "Scalable Bloom Filters", 2007). A Bloom filter of m bits
is made for n keys; with more, its false positives climb steeply. So it is closed when it holds the n keys it
was made for, and a new, larger one is opened beside it. A key is known if any *slice* of this chain holds it;
it is added to the newest one only. An absent key gets a chance to be misjudged from each slice, and these add
up:

    compound fpp  =  1 - prod(1 - p_i)  <=  sum p_i

If all slices had the same p the sum would grow without end. So each is made stricter than the one before:

    capacity_i = capacity * growth**i     slice i holds that many keys, then it is sealed and never changes
    p_i        = P0 * tightening**i       and is wrong that often when it is full

    sum p_i    <  P0 / (1 - tightening)   however many slices there will be

P0 is chosen such that this bound is the fpp asked for: ``P0 = fpp * (1 - tightening)``.

The price is bits: a stricter slice needs more of them a key, and the newest slice is half empty in the mean.
A growth of 2 and a tightening of 0.8 cost the fewest among the pairs of growth 2; with slices of the
``paired`` layout a chain with a first slice of 2**20 keys and fpp 1e-3 takes 31.5 bits a key in the mean over
10 to 80 million keys (docs/filters.md has the table). Asking costs one look into each slice that does not
hold the key, newest first, since that one holds half of all keys.

Batches. ``add_digests`` answers for a batch as if each key were asked in turn, with one difference: the keys
of a chunk (4,096 at most) are all compared with the state before it, and with one another exactly, by their
digests. So a key is never misjudged because of bits that its own chunk has set. A chunk may straddle the end
of a slice: its new keys fill the slice to its capacity, in order, and the others go to the next one. Which
key lands in which slice thus depends only on the order of the new keys, not on how they were batched: this is
what lets ``restore`` rebuild the very same chain from the journal.

Invariants: every slice but the last is full (count == capacity); a sealed slice's memory is never written
again; the last slice is replaced only when a key arrives that it has no room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from crawler.filters.blocked import LAYOUTS, Batch, BlockedSlice, Indices, Stack, halves_of, lookup
from crawler.filters.digests import DIGEST_BYTES, count_digests, digest_words
from crawler.filters.model import BlockShape, SkipCurve
from crawler.filters.protocol import (
    JSON,
    DigestSet,
    FilterError,
    SeenSnapshot,
    SeenStatistics,
    Segment,
    SliceStatistics,
)
from crawler.filters.sample import WatchedKeys
from crawler.filters.storage import adopt_words

_CHUNK = 4096  # keys compared with the same state; bounds what a batch takes besides the filter
_WATCHED = "watched"
_FEW = 12  # keys; below, plain loops are faster than numpy's calls
_NARROW = 256  # keys; from here on it pays to ask older slices only of what the newer ones do not hold
_BLOCKS = {layout: blocks for blocks, layout in LAYOUTS.items()}


class _Look(NamedTuple):
    """What the bits of a slice said when it held ``keys`` keys."""

    keys: int
    fill: float
    fpp: float
    count_estimated: float


@dataclass(slots=True, eq=False)
class _Link:
    """A slice of the chain: the bits, what they were made for, and how many keys they hold."""

    filter: BlockedSlice
    capacity: int
    fpp_design: float
    count: int = 0
    curve: SkipCurve | None = None
    last: _Look | None = None

    @property
    def sealed(self) -> bool:
        return self.count >= self.capacity

    def skip_curve(self) -> SkipCurve:
        if self.curve is None:
            self.curve = SkipCurve(self.filter.fpp_at, self.capacity)
        return self.curve

    def look(self) -> _Look:
        if self.last is None or self.last.keys != self.count:
            bits = self.filter
            self.last = _Look(self.count, bits.fill(), bits.fpp_estimated(), bits.count_estimated())
        return self.last

    def statistics(self) -> SliceStatistics:
        look = self.look()
        return {
            "capacity": self.capacity,
            "count": self.count,
            "bits": self.filter.bits,
            "hashes": self.filter.hashes,
            "fill": look.fill,
            "fpp_design": self.fpp_design,
            "fpp_estimated": look.fpp,
        }

    def header(self) -> dict[str, JSON]:
        """Enough to make the slice again around its stored bits."""
        return {
            "layout": self.filter.layout,
            "hashes": self.filter.hashes,
            "blocks_per_region": self.filter.blocks_per_region,
            "capacity": self.capacity,
            "fpp": self.fpp_design,
        }


class ScalableBloomFilter(DigestSet):
    """A chain of slices, as the text above has it."""

    kind = "scalable"

    def __init__(
        self,
        fpp: float = 0.001,
        capacity: int = 2**20,
        *,
        growth: float = 2.0,
        tightening: float = 0.8,
        layout: str = "paired",
    ) -> None:
        """``fpp`` bounds the compound fpp for ever; ``capacity`` is the number of keys in the first slice.

        Raises ``FilterError`` when no such chain can be made.
        """
        if not 0 < fpp < 1:
            raise FilterError(f"fpp must lie between 0 and 1, not be {fpp}")
        if capacity < 1:
            raise FilterError(f"the first slice needs a capacity of at least 1, not {capacity}")
        if not 1 <= growth <= 64:
            raise FilterError(f"growth must lie between 1 and 64, not be {growth}")
        if not 0 < tightening < 1:
            raise FilterError(f"tightening must lie between 0 and 1, not be {tightening}")
        if layout not in _BLOCKS:
            raise FilterError(f"layout must be one of {', '.join(_BLOCKS)}, not {layout}")
        self.fpp = fpp
        self.capacity = capacity
        self.growth = growth
        self.tightening = tightening
        self.layout = layout
        self._watched = WatchedKeys()
        self._chain: list[_Link] = []
        self._grow()

    # -- adding and asking

    def add_digests(self, digests: bytes) -> list[int]:
        if len(digests) == DIGEST_BYTES:
            return [0] if self._add_one(digests) else []
        if count_digests(digests) < _FEW:
            return self._add_few(digests)
        halves = digest_words(digests)
        new: list[int] = []
        for start in range(0, len(halves), _CHUNK):
            batch = Batch(halves[start : start + _CHUNK])
            fresh = _first_occurrences(batch, self._unseen(batch))
            self._watched.watch(batch.halves, fresh)
            if len(fresh):
                self._put(batch.at(fresh))
                new += (fresh + start).tolist()
        return new

    def contains_digests(self, digests: bytes) -> list[bool]:
        if count_digests(digests) < _FEW:
            return [lookup(self._plain, digests, offset) for offset in range(0, len(digests), DIGEST_BYTES)]
        halves = digest_words(digests)
        known: list[bool] = []
        for start in range(0, len(halves), _CHUNK):
            batch = Batch(halves[start : start + _CHUNK])
            found = np.ones(len(batch), np.bool_)
            found[self._unseen(batch)] = False
            known += found.tolist()
        return known

    def restore(self, digests: bytes) -> None:
        halves = digest_words(digests)
        for start in range(0, len(halves), _CHUNK):
            batch = Batch(halves[start : start + _CHUNK])
            self._watched.watch(batch.halves)
            self._put(batch)

    def __len__(self) -> int:
        return sum(link.count for link in self._chain)

    def _unseen(self, batch: Batch) -> Indices:
        """The positions, ascending, of the keys that no slice holds."""
        if len(batch) < _NARROW:
            first, *others = self._stacks
            found = first.holds(batch)
            for stack in others:
                found |= stack.holds(batch)
            return np.flatnonzero(~found)
        newest, *older = reversed(self._chain)
        left = np.flatnonzero(~newest.filter.holds(batch))
        if older and len(left):
            rest = batch.at(left)
            for link in older:
                keep = np.flatnonzero(~link.filter.holds(rest))
                left, rest = left.take(keep), rest.at(keep)
        return left

    def _put(self, batch: Batch) -> None:
        """Set the bits of keys known to be new, in order, across the ends of slices."""
        start = 0
        while start < len(batch):
            link = self._open()
            part = min(link.capacity - link.count, len(batch) - start)
            whole = part == len(batch)
            link.filter.put(batch if whole else batch.at(np.arange(start, start + part)))
            link.count += part
            start += part

    def _add_one(self, digest: bytes) -> bool:
        new = not lookup(self._plain, digest, 0)
        self._watched.watch_digest(digest, 0, new)
        if new:
            self._put_one(digest)
        return new

    def _add_few(self, digests: bytes) -> list[int]:
        fresh: dict[bytes, int] = {}
        for offset in range(0, len(digests), DIGEST_BYTES):
            new = not lookup(self._plain, digests, offset)
            self._watched.watch_digest(digests, offset, new)
            if new:
                fresh.setdefault(digests[offset : offset + DIGEST_BYTES], offset // DIGEST_BYTES)
        for digest in fresh:
            self._put_one(digest)
        return list(fresh.values())

    def _put_one(self, digest: bytes) -> None:
        link = self._open()
        link.filter.put_one(*halves_of(digest))
        link.count += 1

    # -- growing

    def _open(self) -> _Link:
        """The slice that takes the next key."""
        if self._chain[-1].sealed:
            self._grow()
        return self._chain[-1]

    def _grow(self) -> None:
        number = len(self._chain)
        capacity = int(self.capacity * self.growth**number)
        fpp = self.fpp * (1 - self.tightening) * self.tightening**number
        bits = BlockedSlice.sized(capacity, fpp, blocks=_BLOCKS[self.layout])
        self._chain.append(_Link(bits, capacity, fpp))
        self._stack()

    def _stack(self) -> None:
        """Gather the slices of one shape, newest first: the shape changes at most once along a chain."""
        slices = [link.filter for link in reversed(self._chain)]
        self._plain = [part.plain for part in slices]
        self._stacks = [Stack(list(alike)) for _, alike in groupby(slices, attrgetter("shape"))]

    # -- what can be told about it

    def parameters(self) -> dict[str, JSON]:
        return {
            "kind": self.kind,
            "fpp": self.fpp,
            "capacity": self.capacity,
            "growth": self.growth,
            "tightening": self.tightening,
            "layout": self.layout,
        }

    @property
    def expected_skipped(self) -> float:
        """How many absent keys were taken for present so far, in expectation."""
        skipped, before = 0.0, 0.0
        for link in self._chain:
            curve = link.skip_curve()
            skipped += curve.skipped(link.count, before)
            before = 1 - (1 - before) * (1 - curve.fpp(link.count))
        return skipped

    def statistics(self) -> SeenStatistics:
        slices = [link.statistics() for link in self._chain]
        right = 1.0
        for part in slices:
            right *= 1 - part["fpp_estimated"]
        size = sum(link.filter.words.nbytes for link in self._chain)
        count = len(self)
        return {
            "kind": self.kind,
            "slices": slices,
            "count": count,
            "count_estimated": sum(link.look().count_estimated for link in self._chain),
            "fpp_target": self.fpp,
            "fpp_bound": self.fpp,
            "fpp_estimated": 1 - right,
            "fpp_measured": self._watched.measured(),
            "expected_urls_skipped": self.expected_skipped,
            "bytes": size,
            "bits_per_url": size * 8 / count if count else None,
        }

    # -- storing

    def snapshot(self) -> SeenSnapshot:
        state: dict[str, JSON] = {
            "parameters": self.parameters(),
            "slices": [{"segment": name, "count": link.count, **link.header()} for name, link in self._named()],
        }
        segments = [
            Segment(name, link.sealed, link.header(), link.filter.words.data.cast("B")) for name, link in self._named()
        ]
        segments.append(Segment(_WATCHED, False, {"holds": "watched keys"}, self._watched.dump()))
        return SeenSnapshot(state, segments)

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any], segments: Mapping[str, memoryview]) -> ScalableBloomFilter:
        """The chain of which ``state`` is the state and ``segments`` are the stored buffers by name.

        Writable, aligned buffers (as ``read_segment`` returns them) are taken over, not copied. Raises
        ``FilterError`` when the parts do not fit together.
        """
        made = dict(state["parameters"])
        if made.pop("kind") != cls.kind:
            raise FilterError(f"the stored seen-set is of kind {state['parameters']['kind']}, not {cls.kind}")
        chain = cls(**made)
        chain._chain = [_stored_link(part, segments) for part in state["slices"]]
        if not chain._chain or any(not link.sealed for link in chain._chain[:-1]):
            raise FilterError("the stored seen-set has no slice to add to, or an unfilled one before the last")
        chain._stack()
        chain._watched = WatchedKeys.load(_segment(segments, _WATCHED))
        return chain

    def _named(self) -> Iterator[tuple[str, _Link]]:
        for number, link in enumerate(self._chain):
            yield f"slice-{number:04d}", link


def _segment(segments: Mapping[str, memoryview], name: str) -> memoryview:
    if name not in segments:
        raise FilterError(f"segment {name} of the stored seen-set is missing")
    return segments[name]


def _stored_link(part: Mapping[str, Any], segments: Mapping[str, memoryview]) -> _Link:
    name, count, capacity = part["segment"], part["count"], part["capacity"]
    if part["layout"] not in _BLOCKS or not 0 <= count <= capacity:
        raise FilterError(f"segment {name}: {count} keys of {capacity} in layout {part['layout']} cannot be")
    shape = BlockShape(part["hashes"], _BLOCKS[part["layout"]])
    try:
        bits = BlockedSlice(shape, part["blocks_per_region"], adopt_words(_segment(segments, name)))
    except ValueError as problem:
        raise FilterError(f"segment {name}: {problem}") from None
    return _Link(bits, capacity, part["fpp"], count)


def _first_occurrences(batch: Batch, positions: Indices) -> Indices:
    """``positions`` less those whose digest stands at an earlier one."""
    halves = batch.halves[:, 0].take(positions)
    halves.sort()
    if not (halves[1:] == halves[:-1]).any():
        return positions
    firsts: dict[bytes, int] = {}
    for position in positions.tolist():
        firsts.setdefault(batch.halves[position].tobytes(), position)
    return np.fromiter(firsts.values(), np.intp, len(firsts))
