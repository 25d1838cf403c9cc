"""The other kinds that grow by slices: ``counting``, ``cuckoo`` and ``digest``.

    counting   counters of 2, 4 or 8 bits in place of bits: forgets, at four times the space (``counting``)
    cuckoo     tags of 8, 16 or 32 bits: forgets, at the space of a Bloom filter (``cuckoo``)
    digest     the digests themselves, 64 or 128 bits: no false positives in practice (``table``)

Counters and digests follow the schedule of the ``scalable`` filter: capacity * growth**i keys in slice i, and
for counters P0 * tightening**i as its fpp.

Tags come in three widths, so their fpp cannot follow a schedule. Slice i takes the narrowest tag that spends
at most half of what the slices before it have left of the fpp asked for: the sum stays below it for ever, and
at 1e-3 the first six slices (66 million keys from a first one of 2**20) make do with 16 bits.

Two digest tables are united by adding what one holds to the other, whatever their capacities.

With ``growth=None`` a counting or cuckoo filter has one slice. Counters take more keys than they were made
for; a cuckoo filter that has no room raises ``FullError``.
"""

from __future__ import annotations

from crawler.filters.chain import Chain, ForgettingChain
from crawler.filters.scalable import check_growing
from crawler.slices.contract import Slice
from crawler.slices.counting_slice import COUNTER_BITS, CountingSlice
from crawler.slices.cuckoo_slice import LOAD, TAG_BITS, CuckooSlice, cuckoo_fpp
from crawler.slices.digest_batch import Batch
from crawler.slices.errors import JSON, FilterError
from crawler.slices.table_slice import TableSlice


class CountingFilter(ForgettingChain):
    """Counters; see ``counting``."""

    kind = "counting"
    _few = 6  # a key has many counters, and a loop takes them one by one

    def __init__(
        self,
        fpp: float = 0.001,
        capacity: int = 2**20,
        *,
        growth: float | None = 2.0,
        tightening: float = 0.85,
        counter_bits: int = 4,
    ) -> None:
        """Raises ``FilterError`` when there is no such filter."""
        check_growing(fpp, capacity, 1.0 if growth is None else growth, tightening)
        if counter_bits not in COUNTER_BITS:
            raise FilterError(f"counter_bits must be 2, 4 or 8, not {counter_bits}")
        self.fpp = fpp
        self.capacity = capacity
        self.growth = growth
        self.tightening = tightening
        self.counter_bits = counter_bits
        super().__init__()

    def _make(self, number: int) -> tuple[Slice, int, float]:
        if self.growth is None:
            return CountingSlice.sized(self.capacity, self.fpp, self.counter_bits), self.capacity, self.fpp
        capacity = int(self.capacity * self.growth**number)
        fpp = self.fpp * (1 - self.tightening) * self.tightening**number
        return CountingSlice.sized(capacity, fpp, self.counter_bits), capacity, fpp

    def _room(self) -> int | None:
        return None

    @property
    def _overfills(self) -> bool:
        return self.growth is None

    def _unite(self, other: Chain) -> None:
        ours, theirs = self._chain[0], other._chain[0]
        mine, its = ours.filter, theirs.filter
        if self.growth is not None or not isinstance(mine, CountingSlice) or not isinstance(its, CountingSlice):
            super()._unite(other)
            return
        self._settle_skipped(other)
        mine.unite(its)
        ours.count += theirs.count
        ours.admitted += theirs.admitted
        ours.built = ours.admitted

    def parameters(self) -> dict[str, JSON]:
        return {
            "kind": self.kind,
            "fpp": self.fpp,
            "capacity": self.capacity,
            "growth": self.growth,
            "tightening": self.tightening,
            "counter_bits": self.counter_bits,
        }


class CuckooFilter(ForgettingChain):
    """Tags; see ``cuckoo``."""

    kind = "cuckoo"
    _few = 40

    def __init__(self, fpp: float = 0.001, capacity: int = 2**20, *, growth: float | None = 2.0) -> None:
        """Raises ``FilterError`` when there is no such filter."""
        check_growing(fpp, capacity, 1.0 if growth is None else growth, 0.5)
        self.fpp = fpp
        self.capacity = capacity
        self.growth = growth
        super().__init__()

    def _make(self, number: int) -> tuple[Slice, int, float]:
        left = self.fpp
        for link in self._chain[self._guests :]:
            left -= link.fpp_design
        may = left if self.growth is None else left / 2
        for tag_bits in TAG_BITS:
            fpp = cuckoo_fpp(LOAD, tag_bits)
            if fpp <= may:
                capacity = int(self.capacity * (self.growth or 1) ** number)
                return CuckooSlice.sized(capacity, tag_bits), capacity, fpp
        raise FilterError(f"no tag of a cuckoo filter is wide enough for an fpp of {may:.3g}")

    def _room(self) -> int | None:
        return None if self.growth is not None else self.capacity - len(self)

    @property
    def _overfills(self) -> bool:
        return False

    def _unite(self, other: Chain) -> None:
        ours, theirs = self._chain[0], other._chain[0]
        mine, its = ours.filter, theirs.filter
        if self.growth is not None or not isinstance(mine, CuckooSlice) or not isinstance(its, CuckooSlice):
            super()._unite(other)
            return
        self._need(theirs.count)
        self._settle_skipped(other)
        mine.unite(its)
        ours.count += theirs.count
        ours.admitted += theirs.admitted
        ours.built = ours.admitted

    def parameters(self) -> dict[str, JSON]:
        return {"kind": self.kind, "fpp": self.fpp, "capacity": self.capacity, "growth": self.growth}


class DigestTable(Chain):
    """Digests; see ``table``. ``fpp`` is what 64 or 128 bits give with 2**32 keys."""

    kind = "digest"
    _few = 128  # a search ends at once where the key is, and arrays are compared to the end

    def __init__(self, capacity: int = 2**20, *, growth: float = 2.0, digest_bits: int = 128) -> None:
        """Raises ``FilterError`` when there is no such table."""
        check_growing(0.5, capacity, growth, 0.5)
        if digest_bits not in (64, 128):
            raise FilterError(f"digest_bits must be 64 or 128, not {digest_bits}")
        self.capacity = capacity
        self.growth = growth
        self.digest_bits = digest_bits
        self.fpp = 2.0 ** (32 - digest_bits)
        super().__init__()

    def _make(self, number: int) -> tuple[Slice, int, float]:
        capacity = int(self.capacity * self.growth**number)
        return TableSlice.sized(capacity, self.digest_bits), capacity, capacity / 2.0**self.digest_bits

    def _room(self) -> int | None:
        return None

    @property
    def _overfills(self) -> bool:
        return False

    def _made_like(self) -> dict[str, JSON]:
        return {"kind": self.kind, "digest_bits": self.digest_bits}

    def _unite(self, other: Chain) -> None:
        for link in other._chain:
            if isinstance(link.filter, TableSlice):
                for halves in link.filter.digests():
                    batch = Batch(halves)
                    self._put(batch.at(self._unseen(batch)))

    def parameters(self) -> dict[str, JSON]:
        return {
            "kind": self.kind,
            "capacity": self.capacity,
            "growth": self.growth,
            "digest_bits": self.digest_bits,
        }
