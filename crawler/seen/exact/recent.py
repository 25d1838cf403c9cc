"""Recently met digests: a memo of bounded size, which may forget digests but has no false positives.

The C code (``native/recent.c``) holds them in lines of four, the latest first, 16 bytes each. The reference here
has two sets: when the younger one is full, it replaces the older one. Both implementations compare whole digests.
"""

from __future__ import annotations

from typing import Protocol

from crawler.seen.exact.rows import DIGEST_BYTES
from crawler.seen.slices.compiled import recent_digests

_SET_BYTES = 128  # bytes per digest in a set, including the free half of its table


class RecentDigests(Protocol):
    """The interface of a memo of digests."""

    def meet(self, digests: bytes, /) -> list[int]:
        """Return the positions, ascending, of the ``digests`` that are not remembered. They are now remembered until
        others replace them."""


def remember(most: int) -> RecentDigests:
    """Return a memo of at most ``most`` bytes."""
    return recent_digests(most) or _RecentSets(most)


class _RecentSets:
    """The implementation in Python."""

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
