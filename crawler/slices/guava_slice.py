"""A classic slice whose bits lie where Guava has them, so that its words are those of a file of Guava's.

    position i of a key  =  (h1 + i * h2  mod 2**63)  mod m          i = 0 .. k-1

``crawler.filters.guava`` names the source. ``classic_slice`` takes another bit of the sum, and bends it.
"""

from __future__ import annotations

import numpy as np

from crawler.slices.classic_slice import ClassicSlice, Words, reduce_to, steps_of
from crawler.slices.digest_batch import Batch
from crawler.slices.errors import JSON

MOST_HASHES = 255  # the file of Guava has a byte for it
_MASK63 = 2**63 - 1


class GuavaSlice(ClassicSlice):
    """``bits`` bits, a multiple of 64, of which a key sets ``hashes``, up to 255."""

    layout = "guava"
    most_hashes = MOST_HASHES

    def _positions(self, batch: Batch) -> Words:
        places = batch.halves[:, 1:] * steps_of(self.hashes)[0]
        places += batch.halves[:, :1]
        places &= np.uint64(_MASK63)
        return reduce_to(places, self.bits)

    def _positions_of_one(self, h1: int, h2: int) -> list[int]:
        return [(h1 + i * h2 & _MASK63) % self.bits for i in range(self.hashes)]

    def geometry(self) -> dict[str, JSON]:
        return {"layout": self.layout, "bits": self.bits, "hashes": self.hashes}
