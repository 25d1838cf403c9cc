"""What a chain asks of one fixed filter, and how it asks several of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from crawler.slices.cow_snapshot import Imprint
from crawler.slices.digest_batch import Batch
from crawler.slices.errors import JSON

Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


class Slice(Protocol):
    """A filter of fixed size over digests. It knows its memory, not how many keys it is meant for."""

    words: Words  # all of its memory, as it is stored

    @property
    def hashes(self) -> int:
        """Positions a key has."""
        ...

    def holds(self, batch: Batch) -> Bools:
        """For each key of the batch: is it in, or taken for one that is?"""
        ...

    def put(self, batch: Batch) -> None:
        """Add every key of the batch; they are new, and no two are the same."""
        ...

    def holds_one(self, h1: int, h2: int) -> bool:
        """The same as ``holds`` for one key, the halves of its digest, without numpy."""
        ...

    def put_one(self, h1: int, h2: int) -> None:
        """The same as ``put`` for one key."""
        ...

    def fill(self) -> float:
        """The share of set bits, or of used places; read off at most a mebibyte of the memory."""
        ...

    def fpp_estimated(self) -> float:
        """The chance that an absent key is found here, from what the memory holds."""
        ...

    def fpp_at(self, count: float) -> float:
        """The same from the model, when ``count`` keys were asked for: those taken for known ones are among them."""
        ...

    def count_estimated(self) -> float:
        """How many keys the fill speaks of."""
        ...

    def geometry(self) -> dict[str, JSON]:
        """With ``words``, enough to make the same slice again."""
        ...


@runtime_checkable
class Forgetful(Slice, Protocol):
    """A slice that can lose keys again. Its memory must be copied to be stored while keys come in: see ``imprint``."""

    imprint: Imprint | None

    def forget_one(self, h1: int, h2: int) -> bool:
        """Take one key out; False, and nothing is changed, when it can be told that it was not in."""
        ...

    def copy(self) -> Forgetful:
        """The same filter in memory of its own."""
        ...


class Stack(Protocol):
    """Slices asked together: does any of them hold the key?"""

    def holds(self, batch: Batch) -> Bools: ...

    def holds_one(self, h1: int, h2: int) -> bool: ...


class InTurn:
    """A stack that asks one slice after the other."""

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
