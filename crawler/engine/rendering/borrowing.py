"""Requests without a queued URL: to a host to which a robots.txt redirects, or for the resources of a page that a
browser renders. Each borrows a lease on its host, waits for a place at the gate, and gives the lease back as soon as it
is answered.

    lease   wait for a lease slot of the host, and find its address
    enter   wait for the gap, the hours and the lines of its host
    ask     make the request within the rate limit, and end the lease

A cancelled request gives its lease back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from math import inf

from crawler.base.kv import Batch
from crawler.engine.context import Context
from crawler.engine.judge import asked_to_wait, request_outcome
from crawler.engine.outage_detector import RunOutage, answers, no_body
from crawler.engine.reading import Unreadable
from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import AddressKnown, Lease, SideRequestDone, TakenBack
from crawler.frontier.request_outcome import RequestOutcome
from crawler.frontier.states import IN_LINE
from crawler.job.job import Job
from crawler.url.robots.parse import robots_url
from crawler.web.fetch import Failure, NotNow, Response
from crawler.web.fetch.fence import FencedOffError

PATIENCE = 60.0  # seconds to wait for a host that is held or has no free lease, before retrying later
LATER = 5.0  # seconds; minimum time until a retry
PROBED_WITHIN = 5.0  # seconds that a probe waits for the gap of its host; otherwise another host is probed
_LOOK = 0.1  # seconds between two checks for a free lease

Result = Response | Failure


class Borrowing:
    """Borrows leases on the hosts of a job."""

    def __init__(self, job: Job, line: RunOutage, context: Context) -> None:
        self.job = job
        self.line = line
        line.probe = self.probe
        self.context = context

    async def let_a_page_go(self, name: str) -> None:
        """After a sub-request of a page, let a waiting page of the host have the next turn. Do not wait for the visit
        of that page to start, because it may get no slot."""
        ad_hoc, now = self.job.frontier.ad_hoc, self.context.clock()
        host = ad_hoc.seen(name, now)
        if host is not None and host.queue.immediate and host.politeness.last_request == host.lent_at:
            await asyncio.sleep(max(0.0, host.politeness.next_time - now) + min(_LOOK, ad_hoc.gap(host)))

    async def lease(self, name: str, address: str, patience: float = PATIENCE) -> Lease | HostClosed | NotNow:
        """Lease the host ``name`` of ``address``, without a place at the gate yet. Returns the reason if the host is
        closed or stays busy for ``patience`` seconds."""
        ad_hoc, until = self.job.frontier.ad_hoc, self.context.clock() + patience
        while True:
            await self.job.room()
            now = self.context.clock()
            got = self.job.change_hosts(partial(ad_hoc.borrow, name, now))
            if isinstance(got, HostClosed):
                return got
            if got is None and now >= until:
                return NotNow(LATER)
            if got is None:
                with ad_hoc.awaited(name):
                    await asyncio.sleep(_LOOK)
            elif ad_hoc.wants_address(got):
                await self._find_address(got, address)
            else:
                return got

    async def _find_address(self, lease: Lease, address: str) -> None:
        frontier = self.job.frontier
        with self._given_back(lease):
            found = await self.context.fetcher.resolve(address)
            await self.job.room()
        now = self.context.clock()
        self.job.change_hosts(lambda batch: frontier.finish(lease, AddressKnown(found), now, batch))

    async def enter(self, lease: Lease, in_line: float = PATIENCE, most: float = inf) -> NotNow | None:
        """Wait for a place at the gate, and return None once there is one. After ``most`` seconds, or ``in_line``
        seconds if others of the same host key or address go first, end the lease and return NotNow."""
        ad_hoc, host, began = self.job.frontier.ad_hoc, lease.host, self.context.clock()
        with self._given_back(lease):
            while (at := ad_hoc.enter(lease, now := self.context.clock())) > now:
                held = at > began + PATIENCE and not host.politeness.hold_reason.is_gap
                if held or at > began + most or (host.state >= IN_LINE and now > began + in_line):
                    self.give_back(lease)
                    return NotNow(max(LATER, at - now))
                await asyncio.sleep(at - now)
        return None

    @contextlib.asynccontextmanager
    async def requesting(self, lease: Lease) -> AsyncIterator[None]:
        """Wait for the rate limit with a lease that has a place at the gate. The request inside ends the lease."""
        with self._given_back(lease):
            await self.context.rate()
        try:
            yield
        except asyncio.CancelledError:
            self.job.frontier.ad_hoc.hang_up(lease, self.context.clock())
            raise
        finally:
            self.context.wake()  # the host's queue may be served again

    def is_held(self, host: Host, now: float) -> bool:
        """Return whether a host is held for longer than a request may wait."""
        politeness = host.politeness
        held = politeness.next_time > now + PATIENCE and not politeness.hold_reason.is_gap
        return politeness.paused or held

    def give_back(self, lease: Lease) -> None:
        """End a lease without a request."""
        self.job.frontier.ad_hoc.forgo(lease)
        self.context.wake()

    @contextlib.contextmanager
    def _given_back(self, lease: Lease) -> Iterator[None]:
        """Give the lease back if the wait in the block is cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            self.give_back(lease)
            raise

    async def probe(self, address: str) -> bool | None:
        """Request a host's robots.txt to find out whether our own network works. Return whether it answered; None if it
        could not be asked now."""
        lease = await self.lease(self.job.frontier.queue_of(address), address, patience=0.0)
        if not isinstance(lease, Lease):
            return None
        if await self.enter(lease, most=PROBED_WITHIN) is not None:
            return None
        fetch = partial(self.context.fetcher.fetch, robots_url(address), accept=no_body)
        try:
            answer, _ = await self.ask(lease, address, fetch)
        except FencedOffError:
            return None
        return answers(answer)

    async def ask(
        self,
        lease: Lease,
        address: str,
        fetch: Callable[[], Awaitable[Result]],
        also: Callable[[Result, float, Batch], None] | None = None,
    ) -> tuple[Result, bool]:
        """Make the request of a lease that has a place at the gate, and end the lease. ``also`` runs in the same
        transaction. Returns the answer, and whether our own network was at fault."""
        async with self.requesting(lease):
            answer = await fetch()
            now = self.context.clock()
            ours = await self.line.is_at_fault(lease, address, answer, now)
            await self.job.room()
            request: RequestOutcome | None = request_outcome(answer)
            if isinstance(answer, Failure) and answer.refusal is not None:
                request = None
            elif isinstance(answer, Response) and request is not None:
                stated = self.context.reading.read(asked_to_wait, request, answer, now)
                request = request if isinstance(stated, Unreadable) else stated

            def end(batch: Batch) -> None:
                if also is not None:
                    also(answer, now, batch)
                lease.host.lent_at = now
                self.job.frontier.finish(lease, TakenBack() if ours else SideRequestDone(request), now, batch)

            self.job.change_hosts(end)
        return answer, ours
