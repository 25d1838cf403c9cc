"""``digest``: a table of the digests, of which 64 or 128 bits are stored. No false positives in practice.

Slice i holds capacity * growth**i keys. Tables of any capacities are united by adding the digests of one table to the
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import SupportsIndex

from crawler.seen.filters.chain import Chain
from crawler.seen.filters.key_filter import Filter
from crawler.seen.filters.scalable import check_growth
from crawler.seen.filters.slice_entry import SliceEntry
from crawler.seen.slices.contract import Slice
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.errors import JSON, FilterError, whole_number
from crawler.seen.slices.key_hash import KeyHash
from crawler.seen.slices.layouts import check_shape
from crawler.seen.slices.table_slice import TableSlice


class DigestTable(Filter):
    """A seen-set of digests; see ``table_slice``. ``fpp`` is the false-positive rate that 64 or 128 bits have at 2**32
    keys."""

    kind = "digest"
    _shaped_by = ("capacity", "growth", "digest_bits")

    def __init__(
        self,
        capacity: SupportsIndex = 2**20,
        *,
        growth: float = 2.0,
        digest_bits: SupportsIndex = 128,
        hash: KeyHash | None = None,
    ) -> None:
        """Raises ``FilterError`` for invalid parameters."""
        bits = whole_number(digest_bits, "digest_bits")
        if bits not in (64, 128):
            raise FilterError(f"digest_bits must be 64 or 128, not {bits}")
        self.fpp = 2.0 ** (32 - bits)
        self.capacity, _ = check_shape(capacity, self.fpp)
        self.growth = check_growth(growth)
        self.digest_bits = bits
        super().__init__(hash)

    @property
    def cannot_forget(self) -> str | None:
        return "its table cannot free places"

    def _make(self, number: int) -> tuple[Slice, int, float]:
        capacity = int(self.capacity * self.growth**number)
        part = TableSlice.sized(capacity, self.digest_bits, self.hash.multiplier())
        return part, capacity, capacity / 2.0**self.digest_bits

    def _made_like(self) -> dict[str, JSON]:
        return {"kind": self.kind, "digest_bits": self.digest_bits}

    def _unite(self, other: Chain, taken: Iterator[SliceEntry]) -> None:
        for entry in other._chain:
            if isinstance(entry.filter, TableSlice):
                for halves in entry.filter.digests():
                    batch = Batch(halves)
                    self._put(batch.at(self._unseen(batch)))
