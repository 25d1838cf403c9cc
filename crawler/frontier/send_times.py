"""When requests may be sent that have a place at the gate already.

The gate holds a gap from the moment at which a request gets its place, and from its end. To look up a name and to
connect lies between its place and its sending, and takes one request longer than another. Where requests with one gap
may be under way at the same time (``per_host`` above 1, ``address_delay``), the later one could be sent just after the
earlier one, or before it. So each asks once more in the step in which it is sent. What it has waited for is not a place
in a line: a connection is open then, and nobody else waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_PRUNED = 10_000  # keys, above which those whose gap is over are forgotten


class _Event(NamedTuple):
    """A request was sent, or has ended. ``settings``: the number of those that its gap was of."""

    at: float
    gap: float
    settings: int


class SendTimes:
    """When a request with a gap may be sent next, by what the gap belongs to."""

    def __init__(self) -> None:
        self._last: dict[str, _Event] = {}
        self._settings = 0
        self._prune_at = _PRUNED

    def change(self) -> None:
        """Go on with other settings: no gap of before holds longer than that of the request that waits for it."""
        self._settings += 1

    def next_time(self, gaps: Iterable[tuple[str, float]], now: float) -> float:
        """When a request with these gaps, in seconds by key, may be sent: ``now`` or later."""
        at = now
        for key, own in gaps:
            event = self._last.get(key)
            if event is not None:
                if event.at > now:  # the clock was set back: count from now, but not again and again
                    event = self._last[key] = event._replace(at=now)
                gap = event.gap if event.settings == self._settings else min(event.gap, own)
                at = max(at, event.at + gap)
        return at

    def hold(self, key: str, gap: float, now: float) -> None:
        """A request was sent or has ended ``now``: the next one is to be sent ``gap`` seconds later."""
        if not gap:
            return
        if len(self._last) >= self._prune_at:
            self._last = {each: event for each, event in self._last.items() if event.at + event.gap > now}
            self._prune_at = max(_PRUNED, 2 * len(self._last))
        last = self._last.get(key)
        if last is None or last.settings != self._settings or not now + gap < last.at + last.gap <= now + last.gap:
            self._last[key] = _Event(now, gap, self._settings)
