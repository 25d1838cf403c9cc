"""Decides which hosts' connections are kept alive.

A server may close an idle connection while the next request is on its way. Then it is unknown whether the server read
the request, so the request is not repeated at once. If a server does this twice, each further request gets a new
connection.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

ANSWERS = 100  # number of answers on kept connections after which a first close is forgotten
_MOST = 10_000

H = TypeVar("H", bound=Hashable)


class Kept(Generic[H]):
    """Counts how often servers close kept connections. Only the latest ``most`` hosts are remembered."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lost: dict[H, int] = {}  # host -> answers since the first close; -1: its connections are not kept

    @property
    def any(self) -> bool:
        """True if any host is remembered."""
        return bool(self._lost)

    def lost(self, host: H) -> None:
        """Record that a kept connection was closed before the first byte of an answer."""
        again = self._lost.pop(host, None) is not None
        self._lost[host] = -1 if again else 0
        if len(self._lost) > self._most:
            del self._lost[next(iter(self._lost))]

    def served(self, host: H) -> None:
        """Record that a request was answered on a connection that may be kept."""
        answers = self._lost.get(host, -1)
        if answers + 1 >= ANSWERS:
            del self._lost[host]
        elif answers >= 0:
            self._lost[host] = answers + 1

    def keeps(self, host: H) -> bool:
        """Return whether the host's connections are kept."""
        return self._lost.get(host) != -1
