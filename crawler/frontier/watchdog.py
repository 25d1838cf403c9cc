"""Finds hosts that should be asked and are not: a check of the frontier by other means than its own.

The frontier decides by its heaps and by what each host's state says of its leases. Here a host is judged by its stored
record and by the leases that are really out. A host that is due, open, in no line and has a free lease slot is on a
heap; so it cannot be due before the first host of the heaps. One that is was *overlooked*: its state in memory is
wrong, by a fault of the program, and it is not asked again before a restart.
"""

from __future__ import annotations

from crawler.frontier.host import Host, glance
from crawler.frontier.workbench import Workbench

MARGIN = 1.0  # seconds: times of stored records are a little older than those of the heaps
UNASKED = 60.0  # seconds for which nothing at all is in flight although a host is due: the heaps are not served


class Watchdog:
    """Judges the hosts of a frontier. It changes nothing."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench

    def limit(self, now: float, *, serving: bool) -> float:
        """The time before which no host can be due that waits at ``now``, in seconds since 1970. ``serving``: leases
        are taken as soon as there are any."""
        first = self._workbench.next_ready()
        limit = now if first is None else min(first, now)
        limit -= MARGIN
        return max(limit, now - UNASKED) if serving and not self._workbench.out else limit

    def overlooks(self, name: str, stored: bytes, limit: float) -> bool:
        """Whether the host with that stored record was due before ``limit`` and could be asked. Raises
        HostRecordError."""
        _, flags, size, next_time = glance(stored)
        if flags or not size or next_time >= limit:
            return False  # nearly all hosts
        workbench = self._workbench
        host = workbench.look(name)
        if host is None or host.in_line or host.politeness.paused or workbench.gate.closure(host) is not None:
            return False
        out = workbench.out.get(name, 0)
        if out:
            if out >= workbench.gate.settings.per_host or host.side_request:
                return False
            if workbench.gate.in_flight_may_use_up_budget(host):
                return False
        return self._due(host, out) < limit

    def _due(self, host: Host, out: int) -> float:
        queue, next_time = host.queue, host.politeness.next_time
        if queue.taken > out:
            return next_time  # the state counts URLs as handed out that nobody has
        if host.kept is None:
            gate = self._workbench.gate
            # As a host is restored from its record when its ticket comes up.
            next_time = max(next_time, gate.loaded + gate.gap(host)[0])
            if not queue.immediate:
                self._workbench.queues.find_retry(host)
        if queue.immediate:
            return next_time
        return max(next_time, queue.retry_at) if queue.retries_waiting else float("inf")
