"""A cuckoo filter: can forget keys, in less space than counters (Fan, Andersen, Kaminsky and Mitzenmacher, 2014).

It stores a *tag* of f bits for every key, in one of two buckets of four places. The second bucket is computed
from the first and the tag alone, so a tag can be moved to its other bucket without knowing the key
(partial-key cuckoo hashing). With N buckets, and h1 and h2 the halves of the digest:

    tag    t = top f bits of (h2 * 0x9E3779B97F4A7C15 mod 2**64), and 1 if that is 0; 0 marks an empty place
    first  i = (h1 >> 32) * N >> 32
    other  j = (g(t) - i) mod N,       g(t) = ((t * 0xD6E8FEB86659FD93 mod 2**64) >> 32) * N >> 32

``other`` is its own inverse, and N need not be a power of two. A new tag takes an empty place in either bucket. If
there is none, it evicts a tag, which moves to its own other bucket and may evict another one there, until one
finds room. Below a load of 95% this nearly always succeeds with buckets of four; a slice here is
full at 92%, and a tag without a place after 500 moves is kept in a *stash* outside the buckets, so that no
key is ever lost.

An attacker could choose digests that all share a few buckets, and fill the stash. A slice for a forgeable hash first
mixes both halves with a secret odd number. A slice without one (made by an earlier version) is *crowded* when its stash
holds 64 tags, which does not happen by chance: it then takes no more keys, and the next slice uses a secret multiplier.

A false positive is an absent key with the same tag and the same pair of buckets as a present one. Such a key
is not added, so no two of the n keys share both, and each adds the same amount to the fpp. With the load a = n / 4 N,
and a tag of 1 twice as likely as the others,

    fpp  =  n * 2/N * sum over the tags of P(t)**2  =  8 a (2**f + 2) / 4**f         about 8 a / 2**f

For m offered keys, including false positives, the fpp is 1 - exp(-x), where x is this formula with a = m / 4 N.

Tags have 8, 16 or 32 bits (plain buckets, not packed): fpp 2.9%, 1.1e-4 and 1.7e-9 when full, at 8.7, 17.4
and 34.8 bits per key. A Bloom filter with 1.1e-4 needs 19 to 23, and cannot forget.

Forgetting a key removes one matching tag from its two buckets. If the key was never added, that tag may belong
to another key, which would then be denied. So forget only keys that were new when added. If there is no matching tag,
``forget_one`` returns False.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.cow_snapshot import CowSnapshot
from crawler.seen.slices.digest_batch import MASK64, MULTIPLIER, Batch, check_multiplier, spread_all
from crawler.seen.slices.errors import JSON, FilterError
from crawler.seen.slices.sampling import UNFORESEEN, Sampling, spread_of_places

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]

TAG_BITS = (8, 16, 32)
PLACES = 4
LOAD = 0.92
_MOVES, _FEW_MOVES = 500, 8
_MOST_STASHED = 64
_SPREAD = 0xD6E8FEB86659FD93
_SHIFT = np.uint64(32)
_BUCKETS = 2**12  # buckets of the other filter to add at a time
_TYPES: dict[int, np.dtype[Any]] = {8: np.dtype("<u1"), 16: np.dtype("<u2"), 32: np.dtype("<u4")}


def cuckoo_fpp(load: float, tag_bits: int) -> float:
    """Return the chance that the tag of an absent key is found in its buckets; ``load`` is the share of used places."""
    return 2 * PLACES * load * (2.0**tag_bits + 2) / 4.0**tag_bits


class CuckooSlice:
    """A cuckoo filter of ``buckets`` buckets, each with four tags of ``tag_bits`` bits."""

    hashes = 2
    sampling: Sampling = UNFORESEEN

    def __init__(
        self,
        buckets: int,
        tag_bits: int,
        words: Words | None = None,
        stash: Iterable[tuple[int, int]] = (),
        multiplier: int = 1,
    ) -> None:
        """Raises ``ValueError`` for invalid parameters, or if ``words`` has the wrong length."""
        if tag_bits not in TAG_BITS:
            raise ValueError(f"tags must have 8, 16 or 32 bits, not {tag_bits}")
        if not 2 <= buckets < 2**32:
            raise FilterError(f"a cuckoo filter must have 2 to 2**32 - 1 buckets, not {buckets}")
        size = math.ceil(buckets * PLACES * tag_bits / 64)
        if words is not None and len(words) != size:
            raise ValueError(f"a slice of {size * 8} bytes cannot be loaded from {len(words) * 8} bytes")
        self.buckets = buckets
        self.tag_bits = tag_bits
        self.multiplier = check_multiplier(multiplier)
        self.words = zeroed_words(size) if words is None else words
        self.cow_snapshot: CowSnapshot | None = None
        self._tags = self.words.view(_TYPES[tag_bits])[: buckets * PLACES].reshape(buckets, PLACES)
        self._flat = memoryview(self._tags.reshape(-1).data)
        self._stash = Counter(stash)
        self._moves = 0

    @classmethod
    def sized(cls, capacity: int, tag_bits: int, multiplier: int = 1) -> CuckooSlice:
        """Return a filter that is full after ``capacity`` keys."""
        return cls(max(2, math.ceil(capacity / (PLACES * LOAD))), tag_bits, multiplier=multiplier)

    @property
    def crowdable(self) -> bool:
        return self.multiplier == 1

    @property
    def crowded(self) -> bool:
        return len(self._stash) >= _MOST_STASHED

    # -- tags and buckets of a key

    def _belongs(self, batch: Batch) -> tuple[Words, Indices, Indices]:
        """Return the tag and both buckets of each key."""
        scale = np.uint64(self.buckets)
        places, h2 = batch.halves[:, 0], batch.halves[:, 1]
        if self.multiplier != 1:
            places, h2 = spread_all(places, h2, self.multiplier), h2 * np.uint64(self.multiplier)
        tags = h2 * np.uint64(MULTIPLIER) >> np.uint64(64 - self.tag_bits)
        np.maximum(tags, 1, out=tags)
        first = (places >> _SHIFT) * scale >> _SHIFT
        return tags, first.view(np.intp), self._others(tags, first)

    def _others(self, tags: Words, buckets: Words) -> Indices:
        scale = np.uint64(self.buckets)
        spread = (tags * np.uint64(_SPREAD) >> _SHIFT) * scale >> _SHIFT
        return np.asarray((spread + (scale - buckets)) % scale).view(np.intp)

    def _other(self, bucket: int, tag: int) -> int:
        spread = ((tag * _SPREAD & MASK64) >> 32) * self.buckets >> 32
        return (spread - bucket) % self.buckets

    # -- adding, looking up, forgetting

    def holds(self, batch: Batch) -> Bools:
        tags, first, other = self._belongs(batch)
        wanted = tags.astype(self._tags.dtype)[:, np.newaxis]
        found = (self._tags.take(first, axis=0) == wanted).any(axis=1)
        found |= (self._tags.take(other, axis=0) == wanted).any(axis=1)
        if self._stash:
            for position in np.flatnonzero(~found).tolist():
                found[position] = self._stashed(int(tags[position]), int(first[position]), int(other[position]))
        return np.asarray(found)

    def put(self, batch: Batch) -> None:
        self._put(*self._belongs(batch))

    def unite(self, other: CuckooSlice) -> None:
        """Add the tags of ``other``, which has the same geometry, as if its keys were added here as well."""
        for start in range(0, self.buckets, _BUCKETS):
            rows = other._tags[start : start + _BUCKETS]
            buckets, places = rows.nonzero()
            tags = rows[buckets, places].astype(np.uint64)
            buckets += start
            self._put(tags, buckets, self._others(tags, buckets.view(np.uint64)))
        if stash := list(other._stash.elements()):
            buckets, tags = np.array(stash, np.uint64).T
            self._put(tags, buckets.view(np.intp), self._others(tags, buckets))

    def _put(self, tags: Words, first: Indices, other: Indices) -> None:
        left = np.arange(len(tags))
        for buckets in (first, other):
            tried = left
            while len(tried):
                rows = self._tags.take(buckets[tried], axis=0)
                empty = rows == 0
                tried = tried[empty.any(axis=1)]
                # One key per bucket and round, because two would choose the same place.
                takes = np.unique(buckets[tried], return_index=True)[1]
                chosen = tried[takes]
                places = empty[empty.any(axis=1)][takes].argmax(axis=1)
                if self.cow_snapshot is not None:
                    self.cow_snapshot.keep((buckets[chosen] * PLACES + places) * self.tag_bits >> 6)
                self._tags[buckets[chosen], places] = tags[chosen]
                tried = np.delete(tried, takes)
                left = np.setdiff1d(left, chosen, assume_unique=True)
        for position in left.tolist():
            self._move_in(int(first[position]), int(tags[position]))

    def forget_one(self, h1: int, h2: int) -> bool:
        tag, *buckets = (int(each[0]) for each in self._belongs(Batch.of_one(h1, h2)))
        for bucket in buckets:
            place = self._place_of(bucket, tag)
            if place >= 0:
                self._set(place, 0)
                return True
            if (bucket, tag) in self._stash:
                self._stash -= Counter([(bucket, tag)])
                return True
        return False

    def _set(self, place: int, tag: int) -> None:
        if self.cow_snapshot is not None:
            self.cow_snapshot.keep_one(place * self.tag_bits >> 6)
        self._flat[place] = tag

    def _place_of(self, bucket: int, tag: int) -> int:
        """Return the index of the place in ``bucket`` that holds ``tag``, or -1."""
        start, tags = bucket * PLACES, self._flat
        for place in range(start, start + PLACES):
            if tags[place] == tag:
                return place
        return -1

    def _stashed(self, tag: int, first: int, other: int) -> bool:
        return (first, tag) in self._stash or (other, tag) in self._stash

    def _move_in(self, bucket: int, tag: int) -> None:
        """Make room for a tag whose buckets are both full."""
        # If an attacker chose the keys, no number of moves makes room.
        for _ in range(_FEW_MOVES if self.crowded else _MOVES):
            # Any choice that does not go round in circles works; the one made here needs no random numbers.
            self._moves = self._moves * 5 + 7 & 0xFFFF
            place = bucket * PLACES + (self._moves >> 8) % PLACES
            thrown = self._flat[place]
            self._set(place, tag)
            tag = thrown
            bucket = self._other(bucket, tag)
            free = self._place_of(bucket, 0)
            if free >= 0:
                self._set(free, tag)
                return
        self._stash[bucket, tag] += 1

    # -- statistics

    def fill(self) -> float:
        sample = self.sampling.rows(self._tags)
        return np.count_nonzero(sample) / int(sample.size)

    def fpp_estimated(self) -> float:
        return cuckoo_fpp(self.fill(), self.tag_bits)

    def fpp_at(self, count: float) -> float:
        return -math.expm1(-cuckoo_fpp(count / (self.buckets * PLACES), self.tag_bits))

    def count_estimated(self) -> float:
        return self.fill() * self.buckets * PLACES + self._stash.total()

    def spread(self, count: float) -> float:
        return spread_of_places(count, self.buckets, PLACES, len(self.sampling.rows(self._tags)))

    def geometry(self) -> dict[str, JSON]:
        stash: list[JSON] = [[bucket, tag] for bucket, tag in sorted(self._stash.elements())]
        made: dict[str, JSON] = {"layout": "cuckoo", "buckets": self.buckets, "tag_bits": self.tag_bits, "stash": stash}
        if self.multiplier != 1:
            made["multiplier"] = self.multiplier
        return made
