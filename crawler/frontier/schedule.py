"""When each host may be handed out: one heap of ready times.

A host stands on the heap at most once. Where its time changes while it waits, a second place is pushed and the first
is recognised as stale by its version when it comes up: O(log hosts) for each change.
"""

from __future__ import annotations

from heapq import heappop, heappush

from crawler.frontier.host import Host


class Schedule:
    """The hosts that wait for their time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, Host]] = []
        self._pushes = 0

    def put(self, host: Host, ready: float) -> None:
        """The host may be handed out at ``ready`` or later; a place that it had goes."""
        if host.on_heap:
            if host.ready == ready:
                return
            host.version += 1
        host.on_heap, host.ready = True, ready
        self._pushes += 1
        heappush(self._heap, (ready, self._pushes, host.version, host))

    def leave(self, host: Host) -> None:
        """The host is not to be handed out for now."""
        if host.on_heap:
            host.on_heap = False
            host.version += 1

    def pop(self, now: float) -> Host | None:
        """The host that has been ready longest, off the heap; None when none is ready at ``now``."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, _, version, host = heappop(heap)
            if version == host.version:  # else it was moved since; its newer place on the heap holds
                host.on_heap = False
                return host
        return None

    def next_ready(self) -> float | None:
        """The time at which ``pop`` will next give a host; None: never."""
        heap = self._heap
        while heap and heap[0][2] != heap[0][3].version:
            heappop(heap)
        return heap[0][0] if heap else None
