"""Compares sets of digests without holding them in memory."""

from __future__ import annotations

import numpy as np

_TOGETHER = 2_048  # pieces that are summed up at a time


class DigestSum:
    """The number of digests, and the sums of their halves modulo 2**64, which do not depend on the order."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._sums = (0, 0, 0)

    def add(self, digests: bytes) -> None:
        self._waiting.append(digests)
        if len(self._waiting) >= _TOGETHER:
            self.sums()

    def sums(self) -> tuple[int, int, int]:
        """Return (count, sum of the first halves, sum of the second halves)."""
        count, low, high = self._sums
        words = np.frombuffer(b"".join(self._waiting), "<u8").reshape(-1, 2)
        more = words.sum(axis=0, dtype=np.uint64).tolist()
        self._waiting.clear()
        self._sums = count + len(words), (low + more[0]) % 2**64, (high + more[1]) % 2**64
        return self._sums
