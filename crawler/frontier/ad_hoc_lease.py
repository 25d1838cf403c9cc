"""Leases on hosts for requests that nothing queued asks for: to what the robots.txt of another host redirects.

Such a request is not made beside the frontier: it takes a lease like every other, with the host's lease slots, gap and
holds.

    borrow     a lease that is out, and nothing more
    enter      wait for a place at the gate, as a host does whose turn has come
    forgo      there was no request

It ends by ``Frontier.finish`` with ``SideRequestDone``.
"""

from __future__ import annotations

from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import Lease
from crawler.frontier.workbench import Workbench
from crawler.kv import Batch

_LOOK = 0.25  # seconds after which a host in a line is looked at again


class AdHocLeases:
    """Lends hosts of a frontier."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._gate = workbench.gate

    def gap(self, host: Host) -> float:
        """Seconds between two requests to the host."""
        return self._gate.gap(host)[0]

    def share_a_key(self, host: Host, name: str) -> bool:
        """Whether a lease on ``host`` is one on the host ``name``, too."""
        return self._gate.share_a_key(host, self._workbench.find(name) or Host(name))

    def borrow(self, name: str, now: float, batch: Batch) -> Lease | HostClosed | None:
        """A lease on a host that need not have anything queued, nor have been met before. None where none is free;
        why not, where the host is to be asked for nothing."""
        host = self._workbench.host(name)
        closed = self._gate.closure(host)
        if closed is not None and not closed.budget:
            return closed
        if host.politeness.paused or not self._gate.is_free(host):
            return None
        host.side_request = True
        self._workbench.save(host, batch)  # which takes it off the heap
        return self._workbench.begin(Lease(host, b"", None, now, address=True))

    def wants_address(self, lease: Lease) -> bool:
        """Whether the address of the host must be known before it is asked: the lease is one to find it."""
        return self._gate.wants_address(lease.host)

    def enter(self, lease: Lease, now: float) -> float:
        """The request may be made if this is ``now``; otherwise not before then."""
        host = lease.host
        if host.politeness.next_time > now:
            return host.politeness.next_time
        slow = self._gate.is_slow(host)
        at = self._gate.enter(host, now, slow=slow)
        if at == now:
            lease.address, lease.slow, lease.taken_at = False, slow, now
        return now + _LOOK if at is None else at

    def forgo(self, lease: Lease) -> None:
        """The lease ends without a request. Nothing changes on disk."""
        if not lease.entered:
            self._gate.withdraw(lease.host)
        self._workbench.cancel(lease)
