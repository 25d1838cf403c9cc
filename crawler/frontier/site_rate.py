"""The limit of requests for all hosts that one ``[[site]]`` matches together.

Each host that asks gets a time of its own, one after the other, and comes back at that time. So hosts have their turns
in the order in which they asked, and none of them asks in vain again and again. Whoever does not come back loses the
turn; nobody else gets it.
"""

from __future__ import annotations

LATE = 60.0  # seconds behind its turn after which a host has lost it


class SiteRate:
    """Turns of hosts. Times are in seconds since 1970."""

    def __init__(self, seconds: float) -> None:
        """``seconds`` between two requests."""
        self._seconds = seconds
        self._next = 0.0  # the first time that nobody has
        self._turns: dict[str, float] = {}

    def turn(self, host: str, now: float) -> float:
        """Ask for a request at ``now``. Returns ``now`` if the host may make one, which is then counted; else the time
        at which it may."""
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
        """The host does not need its turn."""
        self._turns.pop(host, None)
