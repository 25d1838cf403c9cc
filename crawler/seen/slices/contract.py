"""The interface of a slice."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.cow_snapshot import CowSnapshot
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.errors import JSON
from crawler.seen.slices.sampling import Sampling

Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


class Slice(Protocol):
    """A fixed-size filter over digests. It knows its memory, but not its intended capacity."""

    words: Words  # all of its memory, as stored
    sampling: Sampling  # chooses the part that is read for statistics

    @property
    def crowded(self) -> bool:
        """True if so many keys collide in the same places that lookups would become slow: do not add any more keys."""

    @property
    def crowdable(self) -> bool:
        """True if an attacker can choose digests that make the slice crowded."""

    @property
    def hashes(self) -> int:
        """The number of positions per key."""

    def holds(self, batch: Batch) -> Bools:
        """Return, for each key of the batch, True if it is present or a false positive."""

    def put(self, batch: Batch) -> None:
        """Add every key of the batch. All must be new and distinct."""

    def fill(self) -> float:
        """Return the share of set bits or used places. Reads at most 1 MiB of the memory."""

    def spread(self, count: float) -> float:
        """Return an upper estimate of the standard deviation of ``count_estimated`` for ``count`` keys."""

    def fpp_estimated(self) -> float:
        """Return the false-positive probability that follows from the bits that are set."""

    def fpp_at(self, count: float) -> float:
        """Return the modelled chance of a false positive after ``count`` keys have been offered, including skipped
        ones."""

    def count_estimated(self) -> float:
        """Estimate the number of keys from the fill."""

    def geometry(self) -> dict[str, JSON]:
        """Return the properties that, together with ``words``, are enough to rebuild the slice."""


@runtime_checkable
class Forgetful(Slice, Protocol):
    """A slice that can forget keys. Its memory may only be stored as a copy while keys are being added, see
    ``cow_snapshot``."""

    cow_snapshot: CowSnapshot | None

    def forget_one(self, h1: int, h2: int) -> bool:
        """Remove one key. Returns False, without a change, if the memory shows that the key was not present."""

    def unite(self, other: Self) -> None:
        """Add the keys of ``other``, which has the same geometry."""
