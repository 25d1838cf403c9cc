"""When requests may be sent that have a place at the gate already.

The gate holds a gap from the moment at which a request gets its place, and from its end. To look up a name and to
connect lies between its place and its sending, and takes one request longer than another. Where requests with one gap
may be under way at the same time (``per_host`` above 1, ``address_delay``), the later one could be sent just after the
earlier one, or before it. So each asks once more in the step in which it is sent. What it has waited for is not a place
in a line: a connection is open then, and nobody else waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable

_PRUNED = 10_000  # keys, above which those whose gap is over are forgotten


class SendTimes:
    """When a request with a gap may be sent next, by what the gap belongs to."""

    def __init__(self) -> None:
        self._free_at: dict[str, float] = {}
        self._longest = 0.0  # seconds
        self._prune_at = _PRUNED

    def next_time(self, keys: Iterable[str], now: float) -> float:
        """When a request with these gaps may be sent, ``now`` or later. If the clock was set back it is at most the
        longest gap from now."""
        return max(now, min(max((self._free_at.get(key, now) for key in keys), default=now), now + self._longest))

    def hold(self, key: str, gap: float, now: float) -> None:
        """A request was sent or has ended ``now``: the next one is to be sent ``gap`` seconds later."""
        if not gap:
            return
        self._longest = max(self._longest, gap)
        if len(self._free_at) >= self._prune_at:
            self._free_at = {each: at for each, at in self._free_at.items() if at > now}
            self._prune_at = max(_PRUNED, 2 * len(self._free_at))
        self._free_at[key] = max(self._free_at.get(key, now), now + gap)
