"""Leases on hosts for requests that nothing queued asks for: to what the robots.txt of another host redirects.

A host is lent, not asked beside the frontier: its lease slots, its gap and its holds are those of every request.

    borrow     a lease that is out, and nothing more
    enter      wait for a place at the gate, as a host does whose turn has come
    give_back  the request is over
    forgo      there was none
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.gate import Gate
from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import Lease
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import RequestOutcome
from crawler.kv import Batch

_LOOK = 0.25  # seconds after which a host that stands in a line is looked at again


class AdHocLeases:
    """Lends hosts of a frontier."""

    def __init__(
        self,
        gate: Gate,
        met: Callable[[str], Host | None],
        host: Callable[[str], Host],
        store_host: Callable[[Host, Batch], None],
        leased: Callable[[Lease], Lease],
        end: Callable[[Lease, float, RequestOutcome | None, float | None], None],
        release: Callable[[Lease], None],
    ) -> None:
        self._gate = gate
        self._met = met
        self._host = host
        self._store_host = store_host
        self._leased = leased
        self._end = end
        self._release = release

    def gap(self, host: Host) -> float:
        """Seconds between two requests to the host."""
        return self._gate.gap(host)[0]

    def share_a_key(self, host: Host, name: str) -> bool:
        """Whether a lease on ``host`` is one on the host ``name``, too."""
        return self._gate.share_a_key(host, self._met(name) or Host(name))

    def borrow(self, name: str, now: float, batch: Batch) -> Lease | HostClosed | None:
        """A lease on a host that need not have anything queued, nor have been met before. None where none is free;
        why not, where the host is to be asked for nothing."""
        host = self._host(name)
        closed = self._gate.closure(host)
        if closed is not None and not closed.budget:
            return closed
        if host.in_line or host.paused or host.side_request or host.leased >= self._gate.settings.per_host:
            return None
        host.side_request = True
        self._store_host(host, batch)  # which takes it off the heap
        return self._leased(Lease(host, b"", None, now, address=True))

    def wants_address(self, lease: Lease) -> bool:
        """Whether the address of the host must be known before it is asked: the lease is one to find it."""
        return self._gate.wants_address(lease.host)

    def enter(self, lease: Lease, now: float) -> float:
        """The request may be made if this is ``now``; otherwise not before then."""
        host = lease.host
        if host.next_time > now:
            return host.next_time
        slow = self._gate.is_slow(host)
        at = self._gate.enter(host, now, slow=slow)
        if at == now:
            lease.address, lease.slow, lease.taken_at = False, slow, now
        return now + _LOOK if at is None else at

    def give_back(
        self, lease: Lease, now: float, batch: Batch, request: RequestOutcome, retry_after: float | None
    ) -> None:
        """The request is over."""
        self._end(lease, now, request, retry_after)
        self._store_host(lease.host, batch)

    def forgo(self, lease: Lease) -> None:
        """The lease ends without a request. Nothing changes on disk."""
        if not lease.entered:
            self._gate.withdraw(lease.host)
        self._release(lease)

    def come_back(self, lease: Lease, wait: float, now: float, batch: Batch, request: RequestOutcome) -> None:
        """What robots.txt redirects to cannot be asked now: the host that redirects waits, and has not failed."""
        self._end(lease, now, request, None)
        self._gate.hold(lease.host, now + wait, HoldReason.ROBOTS_RETRY)
        self._store_host(lease.host, batch)
