"""Warns once for each cause when a seen-set fills up, in time to act.

A forecast reads a part of the filter, so it is not made for each batch. The relevant counts are known in
advance: when a tenth of the newest slice is left, and when that slice is full. Keys are added only up to the next of
these counts at a time, so a large batch does not skip it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from crawler.job.metrics.outlook import next_look, seen_warning
from crawler.seen.filters import DIGEST_BYTES, Filter


class Lookout:
    """Adds keys to a seen-set, and warns before it fills up."""

    def __init__(
        self, seen: Filter, say: Callable[[str], object], memory: Callable[[], int | None], compact_slices: int = 0
    ) -> None:
        """``memory`` returns the free bytes, or None if unknown; ``compact_slices`` is as for ``seen_warning``."""
        self._seen = seen
        self._compact_slices = compact_slices
        self._say = say
        self._memory = memory
        self._said: set[str] = set()
        self._next = self._look()

    def add_digests(self, digests: bytes) -> list[int]:
        """Add keys to the seen-set. See its ``add_digests``."""
        count, start, new = len(digests) // DIGEST_BYTES, 0, list[int]()
        while start < count:
            end = min(count, start + self._next - len(self._seen))
            found = self._seen.add_digests(digests[start * DIGEST_BYTES : end * DIGEST_BYTES])
            new += [start + position for position in found] if start else found
            start = end
            if len(self._seen) >= self._next:
                self._next = self._look()
        return new

    def look_again(self) -> None:
        """Recompute the next check. Call it after the slices of the seen-set were replaced."""
        self._next = self._look()

    def _look(self) -> int:
        """Warn if necessary, and return the number of keys at which to check again."""
        now = self._seen.statistics()
        warning = seen_warning(now, self._seen.parameters(), self._memory(), self._compact_slices)
        if warning is not None and warning.cause not in self._said:
            self._said.add(warning.cause)
            self._say(warning.text)
        return sys.maxsize if warning is not None and warning.cause == "full" else next_look(now)
