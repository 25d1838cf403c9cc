"""A Bloom filter that can forget: counters instead of bits (Fan, Cao, Almeida and Broder, "Summary Cache",
1998).

Adding a key increments its k counters, forgetting it decrements them; a key is present while none of them is
zero. The positions and the fpp are those of a classic filter with as many bits as there are counters here,
so the price of forgetting is the width of a counter: 2, 4 or 8 bits instead of one.

A counter that reaches its maximum is *saturated*: the number of its keys is then unknown, so it is
never decremented again. Some forgotten keys then still appear present, but a present key is never denied. In a full
filter the value of a counter is Poisson distributed with mean ln 2, so one counter in 6 * 10**14 saturates with 4 bits,
and one in 30 with 2.

If two positions of a key are the same counter, it is incremented and decremented twice. A counter that is too low for
that shows that the key is absent: forgetting is refused and changes nothing.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.classic_slice import (
    MAX_HASHES,
    POSITIONS,
    classic_fpp,
    classic_size,
    classic_spread,
    positions_of,
)
from crawler.seen.slices.cow_snapshot import CowSnapshot
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.errors import JSON
from crawler.seen.slices.fpp_model import FULLEST
from crawler.seen.slices.sampling import UNFORESEEN, Sampling

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

COUNTER_BITS = (2, 4, 8)
_PIECE = 2**20  # bytes of the other filter to add at a time


class CountingSlice:
    """``counters`` counters (a multiple of 64) of ``counter_bits`` bits; a key has ``hashes`` of them.

    With ``per`` counters in a byte, counter i starts at bit ``counter_bits * (i mod per)`` of byte ``i // per``.
    """

    sampling: Sampling = UNFORESEEN
    crowded = crowdable = False

    def __init__(self, counters: int, hashes: int, counter_bits: int = 4, words: Words | None = None) -> None:
        """Raises ``ValueError`` for invalid parameters, or if ``words`` has the wrong length."""
        if counter_bits not in COUNTER_BITS:
            raise ValueError(f"counters must have 2, 4 or 8 bits, not {counter_bits}")
        if counters < 64 or counters % 64:
            raise ValueError(f"the number of counters must be a multiple of 64, not {counters}")
        if not 1 <= hashes <= MAX_HASHES:
            raise ValueError(f"the number of hashes must be 1 to {MAX_HASHES}, not {hashes}")
        size = counters * counter_bits // 64
        if words is not None and len(words) != size:
            raise ValueError(f"a slice of {size * 8} bytes cannot be loaded from {len(words) * 8} bytes")
        self.counters = counters
        self.hashes = hashes
        self.counter_bits = counter_bits
        self.words = zeroed_words(size) if words is None else words
        self.cow_snapshot: CowSnapshot | None = None
        self._bytes: Bytes = self.words.view(np.uint8)
        self._flat: memoryview[int] = self._bytes.data
        self._largest = (1 << counter_bits) - 1
        self._per = 8 // counter_bits
        self._to_byte = self._per.bit_length() - 1

    @classmethod
    def sized(cls, capacity: int, fpp: float, counter_bits: int) -> CountingSlice:
        """Return the smallest slice that stays within ``fpp`` while it holds up to ``capacity`` keys."""
        return cls(*classic_size(capacity, fpp), counter_bits)

    def _values(self, places: Words) -> tuple[npt.NDArray[np.intp], Bytes, Bytes]:
        """Return, for each counter, the index of its byte, its shift in the byte, and its value."""
        at = (places >> np.uint64(self._to_byte)).view(np.intp)
        shift = ((places & np.uint64(self._per - 1)) * np.uint64(self.counter_bits)).astype(np.uint8)
        return at, shift, (self._bytes.take(at) >> shift) & np.uint8(self._largest)

    def holds(self, batch: Batch) -> Bools:
        values = self._values(positions_of(batch, self.counters, self.hashes))[2]
        return np.asarray(values.all(axis=1))

    def put(self, batch: Batch) -> None:
        places, times = np.unique(positions_of(batch, self.counters, self.hashes), return_counts=True)
        at, shift, values = self._values(places)
        raised = np.minimum(times, self._largest - values.astype(np.int64)).astype(np.uint8)
        if self.cow_snapshot is not None:
            self.cow_snapshot.keep(at >> 3)
        # No counter exceeds its maximum, so the addition never carries into the next counter in the byte.
        np.add.at(self._bytes, at, raised << shift)

    def forget_one(self, h1: int, h2: int) -> bool:
        """Decrement the counters of one key. Returns False, without a change, if the key cannot be present."""
        times = Counter(positions_of(Batch.of_one(h1, h2), self.counters, self.hashes)[0].tolist())
        values = {at: self._value(at) for at in times}
        if any(values[at] < min(number, self._largest) for at, number in times.items()):
            return False
        for at, number in times.items():
            if values[at] < self._largest:
                self._about_to_change(at)
                self._flat[at >> self._to_byte] -= number << at % self._per * self.counter_bits
        return True

    def unite(self, other: CountingSlice) -> None:
        """Add the counters of ``other``, which has the same geometry, as if its keys were added here as well."""
        for start in range(0, len(self._bytes), _PIECE):
            mine, theirs = (part._bytes[start : start + _PIECE] for part in (self, other))
            total = np.zeros(len(mine), np.uint8)
            for place in range(self._per):
                shift = np.uint8(place * self.counter_bits)
                both = [(part >> shift & np.uint8(self._largest)).astype(np.uint16) for part in (mine, theirs)]
                total |= np.minimum(both[0] + both[1], self._largest).astype(np.uint8) << shift
            mine[:] = total

    def _about_to_change(self, at: int) -> None:
        if self.cow_snapshot is not None:
            self.cow_snapshot.keep_one(at * self.counter_bits >> 6)

    def _value(self, at: int) -> int:
        return self._flat[at >> self._to_byte] >> at % self._per * self.counter_bits & self._largest

    def fill(self) -> float:
        sample = self.sampling.rows(self._bytes)
        used = sum(
            int(np.count_nonzero(sample & np.uint8(self._largest << i * self.counter_bits))) for i in range(self._per)
        )
        return used / (len(sample) * self._per)

    def fpp_estimated(self) -> float:
        return float(self.fill() ** self.hashes)

    def fpp_at(self, count: float) -> float:
        return classic_fpp(count, self.counters, self.hashes)

    def count_estimated(self) -> float:
        """Estimate the number of keys from the fill; after keys were forgotten, saturated counters make the estimate
        too high."""
        return -math.log1p(-min(self.fill(), FULLEST)) * self.counters / self.hashes

    def spread(self, count: float) -> float:
        sample = len(self.sampling.rows(self._bytes)) * self._per
        return classic_spread(count, self.counters, self.hashes, sample)

    def geometry(self) -> dict[str, JSON]:
        return {
            "layout": "counters",
            "counters": self.counters,
            "hashes": self.hashes,
            "counter_bits": self.counter_bits,
            "positions": POSITIONS,
        }
