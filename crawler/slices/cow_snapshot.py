"""The memory of a slice as it was at one moment, copied piece by piece while the slice goes on changing.

A slice that counts or moves what it holds cannot be stored as it changes: a key that is in the stored memory already
would be counted twice when the journal brings it back. Copying hundreds of megabytes at once would hold up whoever
waits. So the copy is made front to back in pieces, and whoever is about to change words that were not copied yet has
their old values kept. When all is copied these are put in place, the oldest last:

    the copy  =  each word as it was when its piece was copied, or when it was first about to change, if that was before

Memory: the copy, and some words for each key added meanwhile.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from crawler.slices.bit_storage import zeroed_words

Words = npt.NDArray[np.uint64]

PIECE = 2**16  # words: half a MiB, a fraction of a millisecond


class Imprinted(Protocol):
    """What has its memory copied so; it tells ``imprint``, while there is one, of each word before it changes."""

    words: Words
    imprint: Imprint | None


class Imprint:
    """The words of a slice at the moment when this was made."""

    def __init__(self, slice_: Imprinted, piece: int = PIECE) -> None:
        """Raises ``FilterError`` when there is no memory for the copy."""
        self.words = zeroed_words(len(slice_.words))
        self._slice = slice_
        self._live = slice_.words
        self._piece = piece
        self._copied = 0
        self._before: list[tuple[npt.NDArray[np.int64], Words]] = []
        slice_.imprint = self

    def keep(self, places: npt.NDArray[np.int64]) -> None:
        """The words at ``places`` are about to change."""
        left = places[places >= self._copied]
        if len(left):
            self._before.append((left, self._live.take(left)))

    def keep_one(self, place: int) -> None:
        """The same for one word."""
        if place >= self._copied:
            self.keep(np.array([place]))

    def advance(self) -> bool:
        """Copy the next piece; True while more are left."""
        start, end = self._copied, self._copied + self._piece
        if start < len(self.words):
            self.words[start:end] = self._live[start:end]
            self._copied = end
        if end < len(self.words):
            return True
        if self._slice.imprint is self:
            self._slice.imprint = None
        while self._before:
            places, values = self._before.pop()
            self.words[places] = values
        return False
