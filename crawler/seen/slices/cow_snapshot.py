"""The memory of a slice at one moment, copied in pieces while the slice continues to change.

A slice that counts or moves its content cannot be stored while it changes: a key that is already in the stored memory
would be counted twice when the journal restores it. Copying hundreds of megabytes at once would stall the crawl. So the
copy is made from front to back in pieces. Before a word changes that was not copied yet, its old value is kept (copy on
write). When everything is copied, the kept values are put in place, the oldest last:

    the copy  =  each word as it was when its piece was copied, or when it was first about to change, if that was before

Memory: the copy, and some words for each key added in the meantime.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.bit_storage import zeroed_words

Words = npt.NDArray[np.uint64]

PIECE = 2**16  # words: half a MiB, a fraction of a millisecond


class Copied(Protocol):
    """A slice that can be copied this way. While it has a ``cow_snapshot``, it reports each word before it changes."""

    words: Words
    cow_snapshot: CowSnapshot | None


class CowSnapshot:
    """The words of a slice at the moment when this was made."""

    def __init__(self, source: Copied, piece: int = PIECE) -> None:
        """Raises ``FilterError`` when there is no memory for the copy."""
        self.words = zeroed_words(len(source.words))
        self._source = source
        self._live = source.words
        self._piece = piece
        self._copied = 0
        self._before: list[tuple[npt.NDArray[np.int64], Words]] = []
        source.cow_snapshot = self

    def keep(self, places: npt.NDArray[np.int64]) -> None:
        """The words at ``places`` are about to change."""
        left = places[places >= self._copied]
        if len(left):
            self._before.append((left, self._live.take(left)))

    def keep_one(self, place: int) -> None:
        """The word at ``place`` is about to change."""
        if place >= self._copied:
            self.keep(np.array([place]))

    def advance(self) -> bool:
        """Copy the next piece. True while there is more to copy."""
        start, end = self._copied, self._copied + self._piece
        if start < len(self.words):
            self.words[start:end] = self._live[start:end]
            self._copied = end
        if end < len(self.words):
            return True
        if self._source.cow_snapshot is self:
            self._source.cow_snapshot = None
        while self._before:
            places, values = self._before.pop()
            self.words[places] = values
        return False
