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

The price is bits: a stricter slice needs more of them a key, and the newest slice is half empty in the mean. With a
growth of 2, a tightening of 0.85 and slices of the ``paired`` layout, a chain with a first slice of 2**20 keys and fpp
1e-3 takes 31.7 bits a key in the mean over 10 to 80 million keys, and 44 at the worst moment, right after growth
(docs/explanation/filters.md has the table). Asking costs one look into each slice that does not hold the key, newest
first, since that one holds half of all keys.

Where the digests of all keys are kept, as in the journal of a crawl, a long chain can be rebuilt as one larger slice:
``compaction`` says how the bound is kept then. How batches, growth and snapshots work is told in ``chain``.
"""

from __future__ import annotations

from crawler.filters.chain import Chain
from crawler.filters.chain_compaction import Successor, following_share, successor_share
from crawler.filters.slice_entry import Link
from crawler.slices.contract import Slice
from crawler.slices.errors import JSON, FilterError
from crawler.slices.layouts import check_shape, sized_slice


def check_growing(fpp: float, capacity: int, growth: float, tightening: float) -> None:
    """Raises ``FilterError`` when no growing chain can have these parameters."""
    check_shape(capacity, fpp)
    if not 1 <= growth <= 64:
        raise FilterError(f"growth must lie between 1 and 64, not be {growth}")
    if not 0 < tightening < 1:
        raise FilterError(f"tightening must lie between 0 and 1, not be {tightening}")


class ScalableBloomFilter(Chain):
    """A chain of slices, as the text above has it."""

    kind = "scalable"

    def __init__(
        self,
        fpp: float = 0.001,
        capacity: int = 2**20,
        *,
        growth: float = 2.0,
        tightening: float = 0.85,
        layout: str = "paired",
    ) -> None:
        """``fpp`` bounds the compound fpp for ever; ``capacity`` is the number of keys in the first slice.

        Raises ``FilterError`` when no such chain can be made.
        """
        check_growing(fpp, capacity, growth, tightening)
        self.fpp = fpp
        self.capacity = capacity
        self.growth = growth
        self.tightening = tightening
        self.layout = layout
        super().__init__()

    def _make(self, number: int) -> tuple[Slice, int, float]:
        if self._compactions:
            first = self._chain[self._guests].capacity
            capacity, fpp = following_share(number - 1, first, self.fpp, self.growth, self.tightening)
        else:
            capacity = int(self.capacity * self.growth**number)
            fpp = self.fpp * (1 - self.tightening) * self.tightening**number
        return sized_slice(self.layout, capacity, fpp), capacity, fpp

    def _room(self) -> int | None:
        return None

    @property
    def _overfills(self) -> bool:
        return False

    @property
    def slices(self) -> int:
        """How many slices a key that is new is asked of."""
        return len(self._chain)

    def successor(self) -> Successor:
        """An empty slice that can take the place of all when every key was put into it.

        Raises ``FilterError`` when there is no memory for it.
        """
        return Successor(self.layout, *successor_share(len(self), self.fpp, self.tightening))

    def succeed(self, successor: Successor) -> None:
        """Let ``successor`` take the place of all slices; it must not be used any more.

        It must hold the keys of the chain, those added since it was begun among them. Raises ``FilterError``, and
        changes nothing, when it does not hold as many, or more than it has room for.
        """
        count = successor.count
        if count != len(self) or successor.room < 0:
            raise FilterError(
                f"a slice for {successor.capacity} keys that holds {count} cannot stand for a chain of {len(self)}"
            )
        self._skipped_before = self.expected_skipped
        self._compactions += 1
        self._guests, self._guests_bound = 0, 0.0
        part, capacity, fpp = successor.filter, successor.capacity, successor.fpp
        self._chain = [Link(part, capacity, fpp, count, count, compactions=self._compactions, built=count)]
        self._restack()

    def parameters(self) -> dict[str, JSON]:
        return {
            "kind": self.kind,
            "fpp": self.fpp,
            "capacity": self.capacity,
            "growth": self.growth,
            "tightening": self.tightening,
            "layout": self.layout,
        }
