"""Digests met lately: a memo of bounded size, which may forget but never says that it met what it did not.

What is compiled (``native/recent.c``) holds them in lines of four, the latest first, 16 bytes each. The reference here
has two sets: when the younger one is full, it becomes the older one, which is dropped. Both compare whole digests.
"""

from __future__ import annotations

from typing import Protocol

from crawler.seen.exact.rows import DIGEST_BYTES
from crawler.seen.slices.compiled import recent_digests

_SET_BYTES = 128  # of memory for a digest in a set, which has room for as many again


class RecentDigests(Protocol):
    """What the ledger asks of a memo."""

    def meet(self, digests: bytes, /) -> list[int]:
        """The positions, ascending, of the ``digests`` that are not remembered. From then on each is, until
        others take its room."""
        ...


def remember(most: int) -> RecentDigests:
    """A memo of at most ``most`` bytes."""
    return recent_digests(most) or _RecentSets(most)


class _RecentSets:
    """The reference."""

    def __init__(self, most: int) -> None:
        self._room = max(1, most // (2 * _SET_BYTES))
        self._younger: set[bytes] = set()
        self._older: set[bytes] = set()

    def meet(self, digests: bytes, /) -> list[int]:
        size = DIGEST_BYTES
        each = [digests[at : at + size] for at in range(0, len(digests), size)]
        unmet = set(each).difference(self._younger)
        if not unmet:
            return []
        known = self._older.intersection(unmet)
        if len(self._younger) + len(unmet) > self._room:
            self._older, self._younger = self._younger, set()
        self._younger |= unmet
        unmet -= known
        positions = []
        for position, digest in enumerate(each):
            if digest in unmet:
                positions.append(position)
                unmet.remove(digest)
        return positions
