"""A robots.txt that redirects to another host, as http://a.test/ does to https://www.a.test/: the request that follows
is one to that host, and takes a lease on it as every other does, with its gap and its holds.

If the target is the other host's own robots.txt and that is known, no request is made. The host that redirects keeps
its lease, so only few may wait, for no longer than a gap and a request; the others come back later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from crawler.engine.context import Context
from crawler.engine.judge import parse_retry_after, request_outcome
from crawler.fetch import Failure, FailureKind, Followed, NotNow, Response, ask_robots
from crawler.fetch.robots_cache import RobotsCache, encode_robots
from crawler.frontier import AddressKnown, Host, HostClosed, Lease, Limits, SideRequestDone
from crawler.job.job import Job
from crawler.kv import Batch, Family
from crawler.robots import robots_url
from crawler.settings import PolitenessSettings, RetrySettings, RobotsSettings, Settings

PATIENCE = 60.0  # seconds to wait for a host that is held or has its leases out, before coming back later
LATER = 5.0  # seconds until then, at least
_LOOK = 0.1  # seconds between two looks whether a lease is free


@dataclass(frozen=True, slots=True)
class RobotsVisitSettings:
    """What requests for robots.txt are told. ``most_waiting`` hosts may wait for another's at a time."""

    robots: RobotsSettings
    retry: RetrySettings
    politeness: PolitenessSettings
    user_agent: str
    sitemaps: bool  # those that are named are wanted
    most_waiting: int

    @classmethod
    def of(cls, settings: Settings) -> RobotsVisitSettings:
        return cls(
            settings.robots,
            settings.retry,
            settings.politeness,
            settings.fetch.user_agent,
            settings.links.sitemaps,
            Limits.of(settings).slow_slots,
        )


class RobotsRedirect:
    """What robots.txt of some hosts redirect to."""

    def __init__(self, job: Job, cache: RobotsCache, settings: RobotsVisitSettings, context: Context) -> None:
        self._job = job
        self._cache = cache
        self._settings = settings
        self._context = context
        self._leads: dict[str, str] = {}  # hosts whose robots.txt leads to another that is waited for

    async def follow(self, host: Host, address: str) -> Followed | NotNow:
        """Ask for what the robots.txt of a host, which is leased, redirects to; and whether that was another host."""
        frontier = self._job.frontier
        name = frontier.queue_of(address)
        if frontier.ad_hoc.share_a_key(host, name):
            await asyncio.sleep(frontier.ad_hoc.gap(host))
            answer = await ask_robots(self._context.fetcher, address, self._settings.robots)
            return Followed(answer, elsewhere=name != host.name)
        known = self._known(name, address)
        if known is not None:
            return known
        if len(self._leads) >= self._settings.most_waiting or self._waits_for(name, host.name):
            return NotNow(LATER)
        self._leads[host.name] = name
        try:
            lease = await self._borrow(name, address)
            if not isinstance(lease, Lease):
                return lease
            known = self._known(name, address)  # another may have asked for it
            if known is not None or frontier.ad_hoc.share_a_key(host, name):  # its address is known by now
                frontier.ad_hoc.forgo(lease)
                return known or NotNow(LATER)
            return await self._enter(lease) or await self._ask(lease, address)
        finally:
            del self._leads[host.name]
            self._context.wake()  # a host that was lent has its turns again

    def _waits_for(self, name: str, other: str) -> bool:
        """Whether the host ``name`` waits for ``other``, which would then wait for itself."""
        while name in self._leads:
            name = self._leads[name]
            if name == other:
                return True
        return False

    def _known(self, name: str, address: str) -> Followed | None:
        """The other host's own robots.txt, if it may be used for a while yet."""
        known = self._cache.get(name) if address == robots_url(address) else None
        if known is None or known.status is None or known.status >= 500:
            return None
        age = max(0.0, self._context.clock() - known.asked_at)
        if age > self._settings.robots.ttl / 2:
            return None
        body = self._cache.body(name)
        return Followed(Response(known.status, {}, None, None, body, None, None, 0.0, 0), elsewhere=True, age=age)

    async def _borrow(self, name: str, address: str) -> Lease | NotNow | Followed:
        """A lease that has no place at the gate yet."""
        frontier, until = self._job.frontier, self._context.clock() + PATIENCE
        while True:
            await self._job.room()
            now = self._context.clock()
            got = self._lease(name, now)
            if isinstance(got, HostClosed):
                message = f"it redirects to {name}, which is asked no more: {got.error}"
                return Followed(Failure(FailureKind.UNREACHABLE, message, 0.0), elsewhere=True)
            if got is None and now > until:
                return NotNow(LATER)
            if got is None:
                await asyncio.sleep(_LOOK)
            elif frontier.ad_hoc.wants_address(got):
                await self._find_address(got, address)
            else:
                return got

    def _lease(self, name: str, now: float) -> Lease | HostClosed | None:
        return self._job.change_hosts(lambda batch: self._job.frontier.ad_hoc.borrow(name, now, batch))

    async def _enter(self, lease: Lease) -> NotNow | None:
        """Wait for a place at the gate. Where it takes too long the lease ends."""
        frontier, host, until = self._job.frontier, lease.host, self._context.clock() + PATIENCE
        try:
            while (at := frontier.ad_hoc.enter(lease, now := self._context.clock())) > now:
                if (at > until and not host.politeness.hold_reason.is_gap) or (host.in_line and now > until):
                    frontier.ad_hoc.forgo(lease)
                    return NotNow(max(LATER, at - now))
                await asyncio.sleep(at - now)
        except asyncio.CancelledError:
            frontier.ad_hoc.forgo(lease)
            raise
        return None

    async def _find_address(self, lease: Lease, address: str) -> None:
        frontier = self._job.frontier
        try:
            found = await self._context.fetcher.resolve(address)
            await self._job.room()
        except asyncio.CancelledError:
            frontier.ad_hoc.forgo(lease)
            raise
        now = self._context.clock()
        self._job.change_hosts(lambda batch: frontier.finish(lease, AddressKnown(found), now, batch))

    async def _ask(self, lease: Lease, address: str) -> Followed:
        frontier, retry = self._job.frontier, self._settings.retry
        try:
            answer = await ask_robots(self._context.fetcher, address, self._settings.robots)
            await self._job.room()
        except asyncio.CancelledError:
            frontier.ad_hoc.forgo(lease)
            raise
        now = self._context.clock()
        request = request_outcome(answer, retry)
        if isinstance(answer, Response):
            after = parse_retry_after(answer.retry_after, now, answer.headers.get("Date"))
            request = request._replace(retry_after=after)

        def give_back(batch: Batch) -> None:
            if isinstance(answer, Response) and address == robots_url(address) and 200 <= answer.status < 300:
                # For others that lead there, too; the host itself asks for it when its turn comes.
                batch.put(Family.ROBOTS, lease.host.name.encode("ascii"), encode_robots(answer, now))
                self._cache.forget(lease.host.name)
            frontier.finish(lease, SideRequestDone(request), now, batch)

        self._job.change_hosts(give_back)
        return Followed(answer, elsewhere=True)
