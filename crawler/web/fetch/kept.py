"""Which hosts' connections are kept.

A server may close a connection that was idle, just as the next request is on its way. Nobody can tell then whether it
read the request, so the request is not repeated at once. That is bad luck once; a server that does so again is asked
over a new connection each time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

ANSWERS = 100  # on kept connections, after which the server's first such end is forgotten
_MOST = 10_000

H = TypeVar("H", bound=Hashable)


class Kept(Generic[H]):
    """Counts the ends of kept connections. ``most``: hosts that are remembered, the latest."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lost: dict[H, int] = {}  # -> answers since the first end; -1: connections are not kept

    @property
    def any(self) -> bool:
        """Whether any host is remembered."""
        return bool(self._lost)

    def lost(self, host: H) -> None:
        """A kept connection was closed before the first byte of an answer."""
        again = self._lost.pop(host, None) is not None
        self._lost[host] = -1 if again else 0
        if len(self._lost) > self._most:
            del self._lost[next(iter(self._lost))]

    def served(self, host: H) -> None:
        """A request was answered, and its connection may be kept."""
        answers = self._lost.get(host, -1)
        if answers + 1 >= ANSWERS:
            del self._lost[host]
        elif answers >= 0:
            self._lost[host] = answers + 1

    def keeps(self, host: H) -> bool:
        """Whether the host's connections are kept."""
        return self._lost.get(host) != -1
