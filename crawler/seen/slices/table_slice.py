"""A hash table of digests: no false positives in practice, and no memory overhead per digest.

A Python ``set`` of 16-byte digests takes about 100 bytes per key. Here the digests are in an array
of *buckets*, each one cache line: eight places of 64 bits, or four of 128. A key belongs to bucket ``(h1 >>
32) * N >> 32`` of N and takes the first empty place; if the bucket is full, it goes to the next one (the last is
followed by the first). So a search ends at the first bucket that holds the key or has an empty place. At the
maximum load of three quarters, 94% of the present keys are in their first bucket, and a search for an absent key reads
1.7 buckets on average (with 128 bits, four to a bucket: 87%, and 2.7), which are adjacent in memory.

With 128 bits, two of n keys have the same digest with probability n**2 / 2**129: never. With 64 bits an absent key
matches a stored digest with probability n / 2**64: at 10**9 keys about one false positive in 2 * 10**10.

An attacker could choose digests that all start in one bucket, and a search would pass all of them. A slice for a
forgeable hash mixes both halves with a secret odd number, and takes the bucket from the result. A slice without one
(made by an earlier version) is *crowded* as soon as a digest is 2,048 places from its first place, which does not
happen by chance (for 10**9 keys with a chance of 1 in 10**8): it then takes no more keys, and the next slice uses a
secret multiplier.

An empty place is all zeros. So a digest whose first half is zero, one in 2**64, is stored with 1 instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.digest_batch import Batch, check_multiplier, spread_all
from crawler.seen.slices.errors import JSON, FilterError
from crawler.seen.slices.sampling import UNFORESEEN, Sampling, spread_of_places

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]

_BUCKET_WORDS = 8
_LOAD = 0.75
_SAMPLE_BUCKETS = 2**14  # buckets checked at a time: 1 MiB
_BUCKETS = 2**10  # buckets per array of digests
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)
_FAR = 2048  # maximum number of places between a digest and its bucket


def table_buckets(capacity: int, digest_bits: int) -> int:
    """Return the number of cache lines that ``capacity`` digests of ``digest_bits`` bits take."""
    return math.ceil(capacity * digest_bits / 64 / _BUCKET_WORDS / _LOAD)


class TableSlice:
    """A table of ``buckets`` cache lines, which hold digests of ``digest_bits`` bits."""

    hashes = 1
    sampling: Sampling = UNFORESEEN

    def __init__(
        self,
        buckets: int,
        digest_bits: int = 128,
        words: Words | None = None,
        multiplier: int = 1,
        *,
        crowded: bool = False,
    ) -> None:
        """Raises ``ValueError`` for invalid parameters, or if ``words`` has the wrong length or no empty place (without
        one, a search would not end)."""
        if digest_bits not in (64, 128):
            raise ValueError(f"digests must have 64 or 128 bits, not {digest_bits}")
        if not 1 <= buckets < 2**32:
            raise FilterError(f"a table must have 1 to 2**32 - 1 buckets, not {buckets}")
        if words is not None and len(words) != buckets * _BUCKET_WORDS:
            raise ValueError(f"a slice of {buckets * _BUCKET_WORDS * 8} bytes cannot be loaded from {len(words) * 8}")
        self.buckets = buckets
        self.digest_bits = digest_bits
        self.multiplier = check_multiplier(multiplier)
        self.crowded = crowded
        self.words = zeroed_words(buckets * _BUCKET_WORDS) if words is None else words
        # Shape (buckets, places, words per digest).
        self._lines = self.words.reshape(buckets, _BUCKET_WORDS)
        self._places = self.words.reshape(buckets, _BUCKET_WORDS * 64 // digest_bits, digest_bits // 64)
        if words is not None and not self._has_room():
            raise ValueError("a table of digests without an empty place cannot be searched")

    @classmethod
    def sized(cls, capacity: int, digest_bits: int, multiplier: int = 1) -> TableSlice:
        """Return a table for ``capacity`` keys."""
        return cls(table_buckets(capacity, digest_bits), digest_bits, multiplier=multiplier)

    def _stored(self, batch: Batch) -> tuple[Words, Words, Indices]:
        """Return, for each key, the first and second halves as stored, and the bucket where its search starts."""
        firsts = np.maximum(batch.halves[:, 0], _ONE)
        if self.multiplier == 1:
            buckets = firsts >> _SHIFT
        else:
            seconds = batch.halves[:, 1] if self.digest_bits == 128 else 0
            buckets = spread_all(firsts, seconds, self.multiplier) >> _SHIFT
        buckets *= np.uint64(self.buckets)
        buckets >>= _SHIFT
        return firsts, batch.halves[:, 1], buckets.view(np.intp)

    def _are_in(self, rows: Words, firsts: Words, seconds: Words) -> Bools:
        """Return True for each of the buckets ``rows``, of shape (n, words per bucket), that has its key's digest."""
        if self.digest_bits == 64:
            return np.asarray((rows == firsts[:, np.newaxis]).view(np.uint64).reshape(-1) != 0)
        equal = rows[:, ::2] == firsts[:, np.newaxis]
        equal &= rows[:, 1::2] == seconds[:, np.newaxis]
        return np.asarray(equal.view(np.uint32).reshape(-1) != 0)

    def _are_full(self, rows: Words) -> Bools:
        """Return, for each bucket, True if it is full. Places are taken in order and never freed, so the last place
        decides."""
        return np.asarray(rows[:, -(self.digest_bits // 64)] != 0)

    def holds(self, batch: Batch) -> Bools:
        firsts, seconds, buckets = self._stored(batch)
        rows = self._lines.take(buckets, axis=0)
        found = self._are_in(rows, firsts, seconds)
        on = np.flatnonzero(self._are_full(rows) > found)
        while len(on):
            buckets[on] = (buckets[on] + 1) % self.buckets
            rows = self._lines.take(buckets[on], axis=0)
            here = self._are_in(rows, firsts[on], seconds[on])
            found[on[here]] = True
            on = on[self._are_full(rows) > here]
        return found

    def put(self, batch: Batch) -> None:
        """Add the keys. Keys that are already present are left unchanged."""
        firsts, seconds, buckets = self._stored(batch)
        rounds, size = 0, self.digest_bits // 64
        while len(buckets):
            rounds += 1
            rows = self._lines.take(buckets, axis=0)
            done = self._are_in(rows, firsts, seconds)
            full = self._are_full(rows)
            takes = np.flatnonzero(~(done | full))
            # One key per bucket and round, because two would choose the same place.
            takes = takes[np.unique(buckets[takes], return_index=True)[1]]
            places = buckets[takes] * _BUCKET_WORDS + (rows[takes, ::size] != 0).sum(axis=1) * size
            self.words[places] = firsts[takes]
            if size == 2:
                self.words[places + 1] = seconds[takes]
            done[takes] = True
            left = ~done
            buckets = np.where(full, (buckets + 1) % self.buckets, buckets)[left]
            firsts, seconds = firsts[left], seconds[left]
        # Only keys that share a bucket need more rounds than there are full buckets, and a batch has few of them.
        self.crowded |= rounds > _FAR * size // _BUCKET_WORDS

    def digests(self) -> Iterator[Words]:
        """Yield all stored digests, in arrays of shape (n, 2); with 64 bits the second half is 0."""
        for start in range(0, self.buckets, _BUCKETS):
            rows = self._places[start : start + _BUCKETS]
            found = np.zeros((np.count_nonzero(rows[:, :, 0]), 2), np.uint64)
            found[:, : self.digest_bits // 64] = rows[rows[:, :, 0] != 0]
            yield found

    @property
    def crowdable(self) -> bool:
        return self.multiplier == 1

    def _has_room(self) -> bool:
        # In tables written by this program, the first piece has room: a quarter of all places is empty.
        starts = range(0, self.buckets, _SAMPLE_BUCKETS)
        return any(not self._places[start : start + _SAMPLE_BUCKETS, :, 0].all() for start in starts)

    def _capacity(self) -> int:
        return self._places.shape[0] * self._places.shape[1]

    def fill(self) -> float:
        sample = self.sampling.rows(self._places)[:, :, 0]
        return int(np.count_nonzero(sample)) / sample.size

    def fpp_estimated(self) -> float:
        return self.fpp_at(self.count_estimated())

    def fpp_at(self, count: float) -> float:
        return float(count / 2.0**self.digest_bits)

    def count_estimated(self) -> float:
        return self.fill() * self._capacity()

    def spread(self, count: float) -> float:
        return spread_of_places(count, self.buckets, self._places.shape[1], len(self.sampling.rows(self._places)))

    def geometry(self) -> dict[str, JSON]:
        made: dict[str, JSON] = {"layout": "table", "buckets": self.buckets, "digest_bits": self.digest_bits}
        if self.multiplier != 1:
            made["multiplier"] = self.multiplier
        if self.crowded:
            made["crowded"] = True
        return made
