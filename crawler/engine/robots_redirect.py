"""Follows a robots.txt that redirects to another host, as from http://a.test/ to https://www.a.test/.

The next request goes to that other host, so it leases that host like any other request, and respects the host's gap and
holds. If the target is the other host's own robots.txt and already stored, no request is made. A redirecting host keeps
its lease while it waits, so only a few hosts may wait, each no longer than a gap and a request. The others come back
later.
"""

from __future__ import annotations

import asyncio
from functools import partial

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import Settings
from crawler.engine.context import Context
from crawler.engine.membership import Membership
from crawler.engine.rendering.borrowing import LATER, PATIENCE, Borrowing
from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import Lease
from crawler.frontier.limits import slow_slots
from crawler.job.job import Job
from crawler.url.refusal.forbidden_targets import refusal_of_href
from crawler.url.robots.parse import MAX_BYTES, robots_url, unreachable
from crawler.url.scope.store_choice import StoreChoice
from crawler.web.fetch import Failure, FailureKind, Followed, NotNow, Response, ask_robots
from crawler.web.fetch.robots_answers import TTL, RobotsCache, encode_robots
from crawler.web.fetch.robots_fetch import followed

LICENSES_MOST = 32  # maximum number of other hosts' licenses kept in memory


class RobotsRedirect:
    """Follows the redirects of robots.txt for the hosts of one job."""

    def __init__(
        self, job: Job, cache: RobotsCache, borrowing: Borrowing, settings: Settings, context: Context
    ) -> None:
        # Set if the job is a partition: other partitions send requests to their own hosts.
        self.member: Membership | None = None
        self._for_others = 0  # number of requests for other partitions that are waiting or being made
        self._job = job
        self._borrowing = borrowing
        self._cache = cache
        self.settings = settings
        # Raw answers, for the web archive.
        self.keep = StoreChoice(MAX_BYTES) if "warc" in settings.output.keep else None
        self._context = context
        self._licenses: dict[tuple[str, float], Followed] = {}  # by URL and day
        self._leads: dict[str, str] = {}  # redirecting host -> target host that it waits for

    async def follow(self, host: Host, address: str) -> Followed | NotNow:
        """Fetch the target of the redirect of a leased host's robots.txt.

        Returns the answer and whether it came from another host, or NotNow if the host should come back later."""
        frontier = self._job.frontier
        name = frontier.queue_of(address)
        if (known := self._at_once(name, address, host.name)) is not None:
            return known
        member = self.member if self.member is not None and self.member.is_elsewhere(address) else None
        if member is None and frontier.ad_hoc.share_a_key(host, name):
            late = await self._again(host)
            if late is not None:
                return late
            await self._context.rate()
            answer = await ask_robots(self._context.fetcher, address, self.keep)
            return followed(answer, elsewhere=name != host.name)
        if len(self._leads) >= slow_slots(self.settings) or self._waits_for(name, host.name):
            return NotNow(LATER)
        self._leads[host.name] = name
        try:
            return await (self._ask_of(name, address, host) if member is None else member.ask_robots(address))
        finally:
            del self._leads[host.name]

    async def follow_terms(self, host: Host, address: str) -> Followed | NotNow:
        """Fetch a license from another host, once a day for all hosts that name it."""
        key = address, self._context.clock() // TTL
        got = self._licenses.get(key) or await self.follow(host, address)
        if isinstance(got, Followed) and isinstance(got.answer, Response) and not unreachable(got.answer.status):
            if len(self._licenses) == LICENSES_MOST:
                self._licenses.clear()
            self._licenses[key] = got
        return got

    async def for_another(self, address: str) -> Followed | NotNow:
        """Fetch an address of this partition that a robots.txt of another partition redirects to."""
        name = self._job.frontier.queue_of(address)
        if (known := self._at_once(name, address)) is not None:
            return known
        if self._for_others >= slow_slots(self.settings):
            return NotNow(LATER)
        self._for_others += 1
        try:
            return await self._ask_of(name, address)
        finally:
            self._for_others -= 1

    async def _again(self, host: Host) -> NotNow | None:
        """Wait until another request may be sent to a leased host, then return None. Returns NotNow if the host is held
        for too long because of another lease on it."""
        ad_hoc, now = self._job.frontier.ad_hoc, self._context.clock()
        at, until = ad_hoc.pause(host, now), now + ad_hoc.gap(host) + PATIENCE
        while at > now:
            if at > until:
                return NotNow(max(LATER, at - now))
            await asyncio.sleep(at - now)
            now = self._context.clock()
            at = ad_hoc.again(host, now)
        return None

    def _waits_for(self, name: str, other: str) -> bool:
        """Return whether ``name`` waits, directly or through others, for ``other``. If so, ``other`` must not wait for
        ``name``, which would deadlock."""
        while name in self._leads:
            name = self._leads[name]
            if name == other:
                return True
        return False

    def _at_once(self, name: str, address: str, leased: str = "") -> Followed | None:
        """Return the answer of a host if no request is needed: it is known, or one of our rules refuses the address.
        ``leased``: the host whose robots.txt redirects."""
        refused = refusal_of_href(address, self.settings.fetch)
        if refused is not None:
            return Followed(Failure.refused(refused), elsewhere=name != leased)
        return self._known(name, address)

    def _known(self, name: str, address: str) -> Followed | None:
        """Return the other host's own robots.txt if it is stored and stays valid for a while."""
        known = self._cache.get(name) if address == robots_url(address) else None
        if known is None or known.unreachable:
            return None
        now = self._context.clock()
        copy, age = self._cache.good_copy(name, now), max(0.0, now - known.asked_at)
        if copy is None or age > TTL / 2:
            return None
        answer = Response(copy.status, {}, None, None, copy.body, None, None, 0.0, 0)
        return Followed(answer, elsewhere=True, age=age)

    async def _ask_of(self, name: str, address: str, share: Host | None = None) -> Followed | NotNow:
        """Send the request to the host ``name`` under a lease on it. ``share``: a host that keeps its lease
        meanwhile."""
        frontier = self._job.frontier
        lease = await self._borrowing.lease(name, address)
        if isinstance(lease, NotNow):
            return lease
        if isinstance(lease, HostClosed) and lease.refusal is not None:
            return Followed(Failure.refused(lease.refusal), elsewhere=True)
        if isinstance(lease, HostClosed):
            message = f"it redirects to {name}, which gets no more requests: {lease.error}"
            return Followed(Failure(FailureKind.UNREACHABLE, message, 0.0), elsewhere=True)
        known = self._known(name, address)  # another visit may have fetched it by now
        if known is not None or (share is not None and frontier.ad_hoc.share_a_key(share, name)):
            self._borrowing.give_back(lease)  # another visit may have found the address of this host by now
            return known or NotNow(LATER)
        return await self._borrowing.enter(lease) or await self._ask(lease, address)

    async def _ask(self, lease: Lease, address: str) -> Followed | NotNow:
        def keep(answer: Response | Failure, now: float, batch: Batch) -> None:
            if isinstance(answer, Response) and address == robots_url(address) and 200 <= answer.status < 300:
                # Keep the answer for other hosts that redirect here. The host itself requests it when its turn comes.
                batch.put(Family.ROBOTS, lease.host.name.encode("ascii"), encode_robots(answer, now))
                self._cache.forget(lease.host.name)

        fetch = partial(ask_robots, self._context.fetcher, address, self.keep)
        answer, _ = await self._borrowing.ask(lease, address, fetch, keep)
        return followed(answer, elsewhere=True)
