"""Finds hosts that should be asked and are not: a check of the frontier by other means than its own.

The frontier decides by its queues and by what each host's state says of its leases. Here a host is judged by its stored
record and by the leases that are really out. A host that is due, open, in no line and has a free lease slot waits in a
queue of the schedule. It may wait there for long, as other hosts have their turns before it. A host that waits in none
is *overlooked*: its state in memory is wrong, by a fault of the program, and it is not asked again before a restart.

A host in memory knows whether it is in a queue. Of the others, the one asked longest ago is next. So a host that is
due, and was asked before the one that is next, is in no queue.
"""

from __future__ import annotations

from msgspec import Struct

from crawler.frontier.host import Host, glance
from crawler.frontier.states import IN_LINE, QUEUED
from crawler.frontier.workbench import Workbench

MARGIN = 1.0  # seconds: times of stored records are a little older than those of the queues
LOOKED_UP_MOST = 16  # hosts that are looked up among all tickets in one slice
UNASKED = 60.0  # seconds for which nothing at all is in flight although a host is due: the queues are not served


class Limits(Struct, frozen=True):
    """What no host is that waits for its turn. Times are in seconds since 1970."""

    due: float  # due before, and in no queue
    unserved: float  # due before, and not asked
    asked: float  # due, out of memory, and asked for the last time before


class Watchdog:
    """Judges the hosts of a frontier. It changes nothing."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._looked_up = 0  # hosts, since the limits were asked for
        self._begun = -1  # leases, at the last look
        self._idle_since = 0.0  # since when each look has found that nothing was in flight, nor had been since the last

    def limits(self, now: float, *, serving: bool) -> Limits:
        """The limits at ``now``. ``serving``: leases are taken as soon as there are any."""
        self._looked_up = 0
        workbench = self._workbench
        if not serving or workbench.out or workbench.begun != self._begun:
            # Between two leases nothing is in flight for a moment.
            self._begun, self._idle_since = workbench.begun, now
        unserved = now - UNASKED if now - self._idle_since >= UNASKED else 0.0
        return Limits(now - MARGIN, unserved, workbench.waited_since(now) - MARGIN)

    def overlooks(self, name: str, stored: bytes, limits: Limits) -> bool:
        """Whether the host with that stored record could be asked, and should have been by the ``limits``. Raises
        HostRecordError."""
        _, flags, size, next_time, asked = glance(stored)
        if flags or not size or next_time >= limits.due:
            return False  # nearly all hosts of most crawls
        workbench = self._workbench
        host = workbench.kept(name)
        absent = asked < limits.asked if host is None else not host.state & QUEUED
        limit = limits.due if absent else limits.unserved
        if next_time >= limit:
            return False  # nearly all hosts of a crawl with more hosts than it has turns
        host = host or workbench.look(name)
        if host is None or host.state >= IN_LINE or host.waits or host.politeness.paused:
            return False
        if workbench.gate.closure(host) is not None:
            return False
        out = workbench.out.get(name, 0)
        if out:
            if out >= workbench.gate.politeness(host).per_host or host.side_request:
                return False
            if workbench.gate.in_flight_may_use_up_budget(host):
                return False
        return self._due(host, out) < limit and not (host.kept is None and absent and self._is_listed(name))

    def _is_listed(self, name: str) -> bool:
        """Whether a host out of memory has a ticket after all: a lease that was given back reserved a gap, and nothing
        was stored. Very few hosts are looked up, and each costs a look at all tickets."""
        self._looked_up += 1
        return self._looked_up <= LOOKED_UP_MOST and self._workbench.has_ticket(name)

    def _due(self, host: Host, out: int) -> float:
        queue, next_time = host.queue, host.politeness.next_time
        if queue.taken > out:
            return next_time  # the state counts URLs as handed out that nobody has
        if host.kept is None:
            gate = self._workbench.gate
            # As a host is restored from its record when its ticket comes up.
            next_time = max(next_time, gate.loaded + gate.gap(host)[0], gate.held_until(host))
        if queue.immediate:
            return next_time
        return max(next_time, queue.retry_at) if queue.retries_waiting else float("inf")
