"""The interface of one slice, and of several slices that are looked up together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.cow_snapshot import CowSnapshot
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.errors import JSON
from crawler.seen.slices.sampling import Sampling

Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


class Slice(Protocol):
    """A filter of a fixed size over digests. It knows its memory, not how many keys it is meant for."""

    words: Words  # all of its memory, as it is stored
    sampling: Sampling  # which part of it is read for the figures

    @property
    def crowded(self) -> bool:
        """Whether so many keys meet in the same places that lookups would become slow: add no more."""
        ...

    @property
    def crowdable(self) -> bool:
        """Whether digests can be chosen that make it so."""
        ...

    @property
    def hashes(self) -> int:
        """Positions a key has."""
        ...

    def holds(self, batch: Batch) -> Bools:
        """For each key of the batch: whether it is in, or mistaken for one that is."""
        ...

    def put(self, batch: Batch) -> None:
        """Add every key of the batch. All must be new and distinct."""
        ...

    def holds_one(self, h1: int, h2: int) -> bool:
        """``holds`` for one key, given the halves of its digest. Does without numpy."""
        ...

    def put_one(self, h1: int, h2: int) -> None:
        """``put`` for one key, given the halves of its digest."""
        ...

    def fill(self) -> float:
        """The share of set bits, or of used places. Reads at most a mebibyte of the memory."""
        ...

    def spread(self, count: float) -> float:
        """The standard deviation of ``count_estimated`` when ``count`` keys are in; rather too large."""
        ...

    def fpp_estimated(self) -> float:
        """The chance that an absent key is found here, measured on the memory."""
        ...

    def fpp_at(self, count: float) -> float:
        """The same from the model, after ``count`` keys were offered, including skipped ones."""
        ...

    def count_estimated(self) -> float:
        """The number of keys that explains the fill."""
        ...

    def geometry(self) -> dict[str, JSON]:
        """With ``words``, enough to rebuild the slice."""
        ...


@runtime_checkable
class Forgetful(Slice, Protocol):
    """A slice that can forget keys. While keys are added, only a copy of its memory may be stored, see
    ``cow_snapshot``."""

    cow_snapshot: CowSnapshot | None

    def forget_one(self, h1: int, h2: int) -> bool:
        """Remove one key. Returns False, without a change, if the memory shows that it was not in."""
        ...


class Stack(Protocol):
    """Slices that are looked up together: whether any of them holds the key."""

    def holds(self, batch: Batch) -> Bools: ...

    def holds_one(self, h1: int, h2: int) -> bool: ...


class InTurn:
    """A stack that looks up in one slice after the other."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices

    def holds(self, batch: Batch) -> Bools:
        first, *others = self._slices
        found = first.holds(batch)
        for part in others:
            found |= part.holds(batch)
        return found

    def holds_one(self, h1: int, h2: int) -> bool:
        return any(part.holds_one(h1, h2) for part in self._slices)
