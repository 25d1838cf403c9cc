"""A bound on bytes a second. Pure: who sends says what time it is, and waits as long as it is told."""

from __future__ import annotations


class ByteRate:
    """At most ``rate`` bytes a second, which may change. A pause is not made up for."""

    def __init__(self, rate: float = float("inf")) -> None:
        self.rate = rate
        self._free_at = float("-inf")  # when all that was taken is through

    def take(self, size: int, now: float) -> float:
        """Another message of so many bytes is to be sent. Returns for how many seconds it waits before that."""
        begin = max(now, self._free_at)
        self._free_at = begin + size / self.rate
        return begin - now
