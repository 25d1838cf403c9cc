"""A line in which no host waits for another's dear pages: the host that has cost least is served next.

This is fair queueing. Each host has a time that runs with what its pages cost. A host that comes anew begins at the
time of the page that was served last, so that it neither waits for the past of others nor has saved up a share.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")

_HOSTS_MOST = 1_024  # whose times are remembered before those that have passed are dropped


class FairLine(Generic[T]):
    """What waits, each with its host."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = count()
        self._now = 0.0  # of the one that was taken last
        self._times: dict[str, float] = {}  # of hosts, when their next begins

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[T]:
        return (item for _, _, item in self._heap)

    def put(self, host: str, item: T, cost: float) -> None:
        """Let ``item`` wait. It will cost ``cost``, as far as one can know; ``charge`` adds what it cost above that."""
        begins = max(self._now, self._times.get(host, 0.0))
        heappush(self._heap, (begins, next(self._numbers), item))
        self._times[host] = begins + cost
        if len(self._times) > _HOSTS_MOST:
            self._times = {host: time for host, time in self._times.items() if time > self._now}

    def charge(self, host: str, cost: float) -> None:
        """The host has cost more than was known."""
        self._times[host] = max(self._now, self._times.get(host, 0.0)) + cost

    def first(self) -> T:
        """The next. Raises IndexError if nothing waits."""
        return self._heap[0][2]

    def take(self) -> T:
        """The next, which waits no longer. Raises IndexError if nothing waits."""
        self._now, _, item = heappop(self._heap)
        return item

    def clear(self) -> None:
        """Forget all."""
        self._heap.clear()
        self._times.clear()
