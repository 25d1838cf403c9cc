"""A snapshot of a slice's memory, copied in pieces while the slice continues to change.

The memory of a slice that counts or moves its content cannot be stored while it changes: the journal would restore keys
that the stored memory already contains, and count them twice. Copying hundreds of megabytes at once would stall the
crawl. So the copy is made in pieces from front to back. Before a word that has not been copied yet changes, its old
value is saved (copy on write). When everything is copied, the saved values are written over the copy, the oldest last:

    the copy  =  each word as it was when its piece was copied, or before its first change, if that was earlier

Memory: the copy, and a few words for each key added in the meantime.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from crawler.seen.slices.bit_storage import zeroed_words

Words = npt.NDArray[np.uint64]

PIECE = 2**16  # words: 512 KiB, copied in a fraction of a millisecond


class Copied(Protocol):
    """A slice that supports snapshots. While ``cow_snapshot`` is set, it reports each word before changing it."""

    words: Words
    cow_snapshot: CowSnapshot | None


class CowSnapshot:
    """The words of a slice at the time the snapshot was created."""

    def __init__(self, source: Copied, piece: int = PIECE) -> None:
        """Raises ``FilterError`` if there is not enough memory for the copy."""
        self.words = zeroed_words(len(source.words))
        self._source = source
        self._live = source.words
        self._piece = piece
        self._copied = 0
        self._before: list[tuple[npt.NDArray[np.int64], Words]] = []
        source.cow_snapshot = self

    def keep(self, places: npt.NDArray[np.int64]) -> None:
        """Save the words at ``places`` before they change."""
        left = places[places >= self._copied]
        if len(left):
            self._before.append((left, self._live.take(left)))

    def keep_one(self, place: int) -> None:
        """Save the word at ``place`` before it changes."""
        if place >= self._copied:
            self.keep(np.array([place]))

    def advance(self) -> bool:
        """Copy the next piece. Returns True while there is more to copy."""
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
