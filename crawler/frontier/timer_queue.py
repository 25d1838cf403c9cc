"""A priority queue of times that is cheap when most of them arrive in order.

After most requests a host is due one gap from now, later than all others. These tickets form a *run* in order of
arrival, and removing the first one costs almost nothing. With a heap of a hundred thousand it would cost a microsecond,
because its branches are spread over memory. A ticket that sorts before the last of the run moves that one to the heap.
If the ticket still sorts before the new last one, it goes to the heap itself. A single host that is held for an hour
therefore does not end the run. Each call is O(log n).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush


class TimerQueue:
    """A priority queue of bytes."""

    __slots__ = ("_heap", "_run")

    def __init__(self) -> None:
        self._heap: list[bytes] = []
        self._run: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._heap) + len(self._run)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the tickets in arbitrary order."""
        yield from self._heap
        yield from self._run

    def push(self, ticket: bytes) -> None:
        run = self._run
        if run and ticket < run[-1]:
            heappush(self._heap, run.pop())
            if run and ticket < run[-1]:
                heappush(self._heap, ticket)
                return
        run.append(ticket)

    def first(self) -> bytes | None:
        """Return the smallest ticket; None if the queue is empty."""
        run, heap = self._run, self._heap
        if run and (not heap or run[0] <= heap[0]):
            return run[0]
        return heap[0] if heap else None

    def count_before(self, ticket: bytes, most: int) -> tuple[int, bool]:
        """Return how many tickets sort before this one, and True if the count is complete.

        Visits at most ``most`` tickets of the heap.
        """
        heap, found, left = self._heap, bisect_left(self._run, ticket), [0]
        visited = 0
        while left:
            if visited >= most:
                return found, False
            visited += 1
            at = left.pop()
            if at < len(heap) and heap[at] < ticket:  # otherwise none of its children sorts before the ticket
                found += 1
                left += (2 * at + 1, 2 * at + 2)
        return found, True

    def pop(self) -> bytes:
        """Remove and return the smallest ticket. The queue must not be empty."""
        run, heap = self._run, self._heap
        return run.popleft() if run and (not heap or run[0] <= heap[0]) else heappop(heap)
