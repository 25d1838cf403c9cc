"""Limits the request rate of all hosts that match one ``[[site]]``.

Each host that asks gets its own time, one after the other, and returns at that time. Hosts thus take turns in the order
in which they asked, and none has to ask repeatedly. A host that does not return loses its turn, and no other host gets
it.
"""

from __future__ import annotations

LATE = 60.0  # seconds after which a host loses an unused turn


class SiteRate:
    """Schedules the requests of hosts that share a rate. Times are in seconds since 1970."""

    def __init__(self, seconds: float) -> None:
        """``seconds`` is the time between two requests."""
        self._seconds = seconds
        self._next = 0.0  # the first time that is not assigned
        self._turns: dict[str, float] = {}

    def turn(self, host: str, now: float) -> float:
        """Ask for a request at ``now``.

        Returns ``now`` if the host may make one, which is then counted; else the time at which it may.
        """
        turn = self._turns.get(host)
        if turn is not None and now < turn:
            return turn
        if turn is not None:
            del self._turns[host]
            if now < turn + LATE:
                return now
        at = max(now, self._next)
        self._next = at + self._seconds
        if at > now:
            self._turns[host] = at
        return at

    def give_back(self, host: str) -> None:
        """Give back the host's turn."""
        self._turns.pop(host, None)
