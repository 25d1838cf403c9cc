"""When requests that already have a place at the gate may be sent.

The gate enforces a gap from the moment at which a request gets its place, and from its end. The name lookup and the
connection come between getting a place and sending, and take longer for some requests than for others. If requests with
the same gap may be in flight at the same time (``per_host`` above 1, rates of sites), the later one could be sent
just after the earlier one, or before it. Each request therefore asks again in the step in which it is sent. This wait
is not a place in a line: a connection is already open, and no other request waits for it.
"""

from __future__ import annotations

from typing import NamedTuple

_PRUNED = 10_000  # number of keys above which those with expired gaps are removed


class _Event(NamedTuple):
    """A request was sent or ended. ``settings`` is the version of the settings that its gap is based on."""

    at: float
    gap: float
    settings: int


class SendTimes:
    """The times at which the next requests may be sent, keyed by the owner of the gap."""

    def __init__(self) -> None:
        self._last: dict[str, _Event] = {}
        self._settings = 0
        self._prune_at = _PRUNED

    def change(self) -> None:
        """Apply new settings. A gap that started under the old settings is cut to the gap of the next request, if that
        is shorter."""
        self._settings += 1

    def next_time(self, key: str, gap: float, now: float) -> float:
        """Return when a request with this ``gap`` in seconds may be sent for the owner ``key``: ``now`` or later."""
        event = self._last.get(key)
        if event is None:
            return now
        if event.at > now:  # the clock was set back: count from now, but only once
            event = self._last[key] = event._replace(at=now)
        return max(now, event.at + (event.gap if event.settings == self._settings else min(event.gap, gap)))

    def hold(self, key: str, gap: float, now: float) -> None:
        """Record that a request was sent or ended at ``now``: the next one may be sent ``gap`` seconds later."""
        if not gap:
            return
        if len(self._last) >= self._prune_at:
            self._last = {each: event for each, event in self._last.items() if event.at + event.gap > now}
            self._prune_at = max(_PRUNED, 2 * len(self._last))
        last = self._last.get(key)
        if last is None or last.settings != self._settings or not now + gap < last.at + last.gap <= now + last.gap:
            self._last[key] = _Event(now, gap, self._settings)
