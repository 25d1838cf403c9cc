"""Classic slices with the bit positions of Guava, so that a slice has the same words as a file written by Guava.

    guava      position i of a key  =  (h1 + i * h2  mod 2**63)  mod m          i = 0 .. k-1
    guava32    position i of a key  =  |low + i * high|  mod m                  i = 1 .. k

In ``guava32`` low and high are the halves of h1, the sum is a signed 32-bit number, and |x| is x, or ~x if x is
negative. So at most 2**31 bits are ever set.

``crawler.seen.filters.guava`` names the source. ``classic_slice`` uses all 64 bits of the sum, and adds a third term.
"""

from __future__ import annotations

import numpy as np

from crawler.seen.slices.classic_slice import ClassicSlice, Words, reduce_to, steps_of
from crawler.seen.slices.digest_batch import MASK32, Batch
from crawler.seen.slices.errors import JSON

MOST_HASHES = 255  # stored in one byte in the Guava format
_MASK63 = 2**63 - 1
_SIGN = 2**31


class GuavaSlice(ClassicSlice):
    """A filter of ``bits`` bits, a multiple of 64; a key sets ``hashes`` of them, up to 255."""

    layout = "guava"
    most_hashes = MOST_HASHES

    def _positions(self, batch: Batch) -> Words:
        places = batch.halves[:, 1:] * steps_of(self.hashes)[0]
        places += batch.halves[:, :1]
        places &= np.uint64(_MASK63)
        return reduce_to(places, self.bits)

    def geometry(self) -> dict[str, JSON]:
        return {"layout": self.layout, "bits": self.bits, "hashes": self.hashes}


class GuavaSlice32(GuavaSlice):
    """A slice with the positions of Guava's strategy MURMUR128_MITZ_32."""

    layout = "guava32"

    def _positions(self, batch: Batch) -> Words:
        firsts, mask = batch.halves[:, :1], np.uint64(MASK32)
        steps = np.arange(1, self.hashes + 1, dtype=np.uint64)
        places = (firsts & mask) + (firsts >> np.uint64(32)) * steps
        places &= mask
        np.bitwise_xor(places, mask, out=places, where=places >= np.uint64(_SIGN))
        return reduce_to(places, self.bits)


GUAVA_LAYOUTS: dict[str, type[GuavaSlice]] = {made.layout: made for made in (GuavaSlice, GuavaSlice32)}
