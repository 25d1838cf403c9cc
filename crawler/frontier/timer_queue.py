"""A priority queue of times, cheap where most of them arrive in order.

After most requests a host is due one gap from now, behind all others. Such tickets form a *run*, in the order in which
they came, and the first is taken off without a look at the rest. A heap of a hundred thousand costs a microsecond
there, because its branches are all over the memory. A ticket that comes before the last of the run sends that one to
the heap, and goes there itself if that is not enough; so a host that is held for an hour does not end the run. Each
call is O(log n).
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush


class TimerQueue:
    """A priority queue of bytes."""

    __slots__ = ("_heap", "_run")

    def __init__(self) -> None:
        self._heap: list[bytes] = []
        self._run: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._heap) + len(self._run)

    def push(self, ticket: bytes) -> None:
        run = self._run
        if run and ticket < run[-1]:
            heappush(self._heap, run.pop())
            if run and ticket < run[-1]:
                heappush(self._heap, ticket)
                return
        run.append(ticket)

    def first(self) -> bytes | None:
        """The least of all; None when there is none."""
        run, heap = self._run, self._heap
        if run and (not heap or run[0] <= heap[0]):
            return run[0]
        return heap[0] if heap else None

    def pop(self) -> bytes:
        """Take the least off; there must be one."""
        run, heap = self._run, self._heap
        return run.popleft() if run and (not heap or run[0] <= heap[0]) else heappop(heap)
