"""Leases for requests without a queued URL.

Examples: the robots.txt of one host redirects to another host, or a browser needs the resources of a page.

These requests do not bypass the frontier. Each takes a lease like any other, and obeys the host's lease slots, gap and
holds.

    borrow     take a lease on the host
    enter      wait for a place at the gate, as a host does when it is due
    step_aside let other requests start while the request that has a place runs
    forgo      end the lease without a request

A request that was made ends with ``Frontier.finish`` and ``SideRequestDone``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crawler.base.kv import Batch
from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import Lease
from crawler.frontier.states import ENTER, IN_LINE, INSIDE, OUTSIDE, change_lease
from crawler.frontier.workbench import Workbench

_LOOK = 0.25  # seconds between two checks of a host that waits in a line


class AdHocLeases:
    """Leases hosts of a frontier for requests without a queued URL."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._gate = workbench.gate

    def gap(self, host: Host) -> float:
        """Return the seconds between two requests to the host."""
        return self._gate.gap(host)[0]

    def pause(self, host: Host, now: float) -> float:
        """End one request of a lease that will make another.

        Returns the time at which to ask for that request with ``again``.
        """
        self._gate.ended(host, now)
        return self._gate.again(host, now)

    def again(self, host: Host, now: float) -> float:
        """Ask for another request within a lease on the host.

        Returns ``now`` if it may be made, else the time at which to ask again (seconds since 1970).
        """
        return self._gate.again(host, now)

    def share_a_key(self, host: Host, name: str) -> bool:
        """Return True if the two hosts share a host key, so that a lease on ``host`` also covers ``name``."""
        return self._gate.share_a_key(host, self._workbench.find(name) or Host(name))

    def borrow(self, name: str, now: float, batch: Batch) -> Lease | HostClosed | None:
        """Take a lease on a host, which may have nothing queued or be new to the job.

        Returns None if no lease slot is free or the host is paused, and a ``HostClosed`` if requests to the host have
        stopped.
        """
        host = self._workbench.host(name)
        closed = self._gate.closure(host)
        if closed is not None and not closed.may_ask_robots:
            return closed
        if host.politeness.paused or not self._gate.is_free(host):
            return None
        host.side_request = True
        self._workbench.save(host, batch)  # removes the host from the heap
        return self._workbench.begin(Lease(host, b"", None, now, state=OUTSIDE))

    @contextmanager
    def awaited(self, name: str) -> Iterator[None]:
        """While a request waits, give none of the host's free lease slots to a page: the request gets the next one."""
        host = self._workbench.kept(name)
        if host is None or not host.leased or host.side_request or host.state >= IN_LINE:
            yield
            return
        host.side_request = True
        self._workbench.place(host)
        try:
            yield
        finally:
            host.side_request = False
            self._workbench.place(host)

    def closure(self, name: str) -> HostClosed | None:
        """Return the reason why requests to a host have stopped, or None if it is open."""
        return self._gate.closure(self._workbench.look(name) or Host(name))

    def seen(self, name: str, now: float) -> Host | None:
        """Return a read-only view of the host at ``now``, or None if the job does not know it."""
        host = self._workbench.look(name)
        return None if host is None else self._gate.seen(host, now)

    def wants_address(self, lease: Lease) -> bool:
        """Return True if the address of the lease's host must be looked up first."""
        return self._gate.wants_address(lease.host)

    def enter(self, lease: Lease, now: float) -> float:
        """Ask for a place at the gate.

        Returns ``now`` if the request may be made, else the time at which to ask again (seconds since 1970).
        """
        host = lease.host
        if host.politeness.next_time > now:
            return host.politeness.next_time
        self._workbench.rate(host)
        if not self._workbench.admits()[host.kind]:
            return now + _LOOK
        at = self._gate.enter(host, now)
        if at == now:
            change_lease(lease, ENTER)
            lease.kind, lease.taken_at = host.kind, now
        return now + _LOOK if at is None else at

    def step_aside(self, lease: Lease) -> None:
        """Release the host's other lease slots while the request keeps its place at the gate."""
        lease.beside, lease.host.side_request = True, False
        lease.host.robots_unused = False
        self._workbench.place(lease.host)

    def forgo(self, lease: Lease) -> None:
        """End the lease without a request. Nothing changes on disk."""
        if lease.state != INSIDE:
            self._gate.withdraw(lease.host)
        self._workbench.cancel(lease)

    def hang_up(self, lease: Lease, now: float) -> None:
        """End the lease after a request that was abandoned; the host's gap starts. Nothing changes on disk."""
        self._workbench.take_back(lease, now)
