"""Finds hosts that should be requested but are not, by a check that is independent of the frontier's own state.

The frontier decides by its queues and by the leases recorded in each host's state. This check uses the host's stored
record and the leases that are actually active. A host that is due, open, not in a line and has a free lease slot must
wait in a queue of the schedule. It may wait there for a long time while other hosts have their turns. A host in no
queue is *overlooked*: its state in memory is wrong because of a bug, and it will not be requested before a restart.

A host in memory records whether it is in a queue. Among the others, the one with the oldest last request is next. A due
host whose last request is older than that of the next one is therefore in no queue.
"""

from __future__ import annotations

from msgspec import Struct

from crawler.frontier.host import Host, stored_host
from crawler.frontier.states import IN_LINE, QUEUED
from crawler.frontier.workbench import Workbench

MARGIN = 1.0  # seconds: times in stored records are slightly older than in the queues
LOOKED_UP_MOST = 16  # hosts per slice for which all tickets are searched
UNASKED = 60.0  # seconds without any lease while a host is due, after which the queues count as not served


class Limits(Struct, frozen=True):
    """Times that no properly waiting host can violate, in seconds since 1970."""

    due: float  # latest due time of an overlooked host in no queue
    unserved: float  # latest due time of an overlooked host in a queue
    asked: float  # latest last request of an overlooked host out of memory


class Watchdog:
    """Checks the hosts of a frontier. It changes nothing."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._looked_up = 0  # hosts looked up since the last call to ``limits``
        self._begun = -1  # leases started before the last check
        self._idle_since = 0.0  # start of the period in which all checks found no lease

    def limits(self, now: float, *, serving: bool) -> Limits:
        """Return the limits at ``now``. ``serving`` is True if available leases are taken at once."""
        self._looked_up = 0
        workbench = self._workbench
        if not serving or workbench.out or workbench.begun != self._begun:
            # Nothing is in flight for a moment between two leases.
            self._begun, self._idle_since = workbench.begun, now
        unserved = now - UNASKED if now - self._idle_since >= UNASKED else 0.0
        return Limits(now - MARGIN, unserved, workbench.waited_since(now) - MARGIN)

    def overlooks(self, name: str, stored: bytes, limits: Limits) -> bool:
        """Return True if the host with that stored record is available and overdue by the ``limits``.

        Raises HostRecordError.
        """
        found = stored_host(stored)
        next_time = found.next_time
        if not found.is_open or not found.size or next_time >= limits.due:
            return False  # the case for nearly all hosts of most crawls
        workbench = self._workbench
        host = workbench.kept(name)
        absent = found.last_request < limits.asked if host is None else not host.state & QUEUED
        limit = limits.due if absent else limits.unserved
        if next_time >= limit:
            return False  # the case for nearly all hosts of a crawl with more hosts than turns
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
        """Return True if a host that is not in memory still has a ticket.

        This happens when a released lease reserved a gap and nothing was stored. Each check searches all tickets, so
        only a few hosts are checked.
        """
        self._looked_up += 1
        return self._looked_up <= LOOKED_UP_MOST and self._workbench.has_ticket(name)

    def _due(self, host: Host, out: int) -> float:
        queue, next_time = host.queue, host.politeness.next_time
        if queue.taken > out:
            return next_time  # the state counts URLs as handed out that have no lease
        if host.kept is None:
            gate = self._workbench.gate
            # Apply the same changes as restoring a host from its record.
            next_time = max(next_time, gate.loaded + gate.gap(host)[0], gate.held_until(host))
        if queue.immediate:
            return next_time
        return max(next_time, queue.retry_at) if queue.retries_waiting else float("inf")
