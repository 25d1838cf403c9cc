"""The requests of pages that a browser renders. None bypasses the frontier: each is made like a visit of a page.

    asked         type, trackers, third parties and methods (``crawler.web.browser.asked``)
    own rules     address, port, scheme; patterns that exclude
    cache         fresh answers are not requested again
    partition     hosts of other partitions get no requests
    robots.txt    of its host; requested first if it is unknown
    borrowing     a lease, the gate, the rate limit

A page waits for all this without a lease slot on any host. If several pages need the same answer, the first one
requests it, and the others wait and take it from the cache. A redirect is an answer too: the browser requests its
target separately.
"""

from __future__ import annotations

from asyncio import Lock
from collections import Counter
from weakref import WeakValueDictionary

from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.engine.links_and_redirects import Discovery
from crawler.engine.robots_visit import RobotsVisits
from crawler.engine.understanding import Understanding
from crawler.frontier.entry import Entry
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import Lease
from crawler.job.verdict import Draft
from crawler.url.refusal.forbidden_targets import refusal_of_href
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.web.browser.asked import lowered, passed_on, preflight, refusal_of
from crawler.web.browser.http_cache import HttpCache
from crawler.web.browser.rendered import Answer, Asked, Kind, Refusal, SubRequest
from crawler.web.fetch import Failure, Keeps, NotNow, RawExchange, Response
from crawler.web.fetch.body_memory import BUDGET
from crawler.web.fetch.fence import FencedOffError, Sending, sending
from crawler.web.fetch.outcome import browser_text

SHARE = 4  # the cache may use 1/SHARE of the memory for bodies, on top of that memory
IN_LINE = 600.0  # seconds that a page may wait while other requests to the same address have their turns
NOT_MODIFIED = 304
_OF_TRANSFER = ("connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding")


class PageNetwork:
    """The network access of the pages of one run."""

    def __init__(self, robots: RobotsVisits, discovery: Discovery, settings: Settings, keep: Keeps | None) -> None:
        """``keep``: which exchanges are archived as received."""
        self.settings = settings
        self.robots, self.discovery, self.keep = robots, discovery, keep
        self.borrowing = robots.borrowing
        self.job, self.context = robots.borrowing.job, robots.borrowing.context
        self.cache = HttpCache(BUDGET // SHARE)
        self.canonicaliser = Canonicaliser()
        # Requests to the same host, or for the same answer, are made one at a time.
        self.hosts, self.urls = WeakValueDictionary[str, Lock](), WeakValueDictionary[str, Lock]()


class SubRequests:
    """The requests of one page. ``counts``: those that were ``made``, ``cached``, or refused, by reason. ``exchanges``:
    the archived ones, with their URLs and start times (seconds since 1970). ``interrupted``: our own network was down,
    or requests may not be sent now: the page must be visited again."""

    def __init__(self, network: PageNetwork, page: str) -> None:
        self.counts = Counter[str]()
        self.exchanges: list[tuple[str, float, RawExchange]] = []
        self.interrupted = False
        self._network = network
        self._page = page

    async def ask(self, request: SubRequest) -> Asked:
        """Answer a request of the browser."""
        try:
            answer = await self._answer(request)
        except FencedOffError:
            self.interrupted = True
            answer = Refusal.HELD
        if isinstance(answer, Refusal):
            self.counts[answer.value] += 1
        return answer

    async def _answer(self, request: SubRequest) -> Asked:
        network = self._network
        href = self._judged(request)
        if isinstance(href, Refusal):
            return href
        if request.kind is Kind.PREFLIGHT:
            return preflight(request)
        again = "no-cache" in lowered(request.headers).get("cache-control", "")
        request = replace(request, url=href, headers=passed_on(request))
        if request.method != "GET":
            if request.method != "HEAD":
                network.cache.drop(href)
            return await self._made(request)
        cookies = network.context.fetcher.cookie_state(href), request.cookies
        sent = request if cookies == (None, "") else _with(request, {"cookie": str(cookies)})
        async with network.urls.setdefault(href, Lock()):
            kept, now = network.cache.find(sent), network.context.clock()
            if kept is not None and kept.fresh_until > now and not again:
                self.counts["cached"] += 1
                return kept.answer
            answer = await self._made(request if kept is None else _with(request, kept.conditions))
            if kept is not None and isinstance(answer, Answer) and answer.status == NOT_MODIFIED:
                return network.cache.revalidate(sent, now, kept, answer)
            if isinstance(answer, Answer):
                network.cache.keep(sent, now, answer)
            return answer

    def _judged(self, request: SubRequest) -> str | Refusal:
        """Return the URL to request, or the reason for a refusal that depends on neither time nor hosts."""
        network, settings = self._network, self._network.settings
        read = network.context.reading.read(network.canonicaliser.canonicalise, request.url)
        if not isinstance(read, Canonical):
            return Refusal.OWN_RULE
        href = read.href
        scope, browser = network.job.scope, settings.browser
        in_scope = scope.mode != "any" and scope.contains(href)
        why = refusal_of(request, self._page, in_scope, browser.third_parties, browser.post)
        if why is None and refusal_of_href(href, settings.fetch) is not None:
            why = Refusal.OWN_RULE
        if why is None and network.discovery.bars(href) is not None:
            why = Refusal.EXCLUDED
        return why or href

    async def _made(self, request: SubRequest) -> Asked:
        """Make a request. Repeat it once if a reused connection was too old, or if it must be signed."""
        for _ in range(2):
            lease = await self._lease(request.url)
            if not isinstance(lease, Lease):
                return lease
            result = await self._exchange(lease, request)
            again = result.kept and request.method != "POST" if isinstance(result, Failure) else result.unsigned
            if not again or self.interrupted:
                break
        if isinstance(result, Response):
            return as_answer(result)
        if result.kind.excluded:
            return Refusal.OWN_RULE if result.refusal else Refusal.BUDGET
        return None

    async def _exchange(self, lease: Lease, request: SubRequest) -> Response | Failure:
        network, href = self._network, request.url
        context = network.context
        most = network.settings.fetch.max_body

        async def fetch() -> Response | Failure:
            self.counts["made"] += 1
            token = sending.set(Sending(request.method, request.body, request.cookies))
            has_body, headers = request.method != "HEAD", request.headers
            try:
                fetch = context.fetcher.fetch
                return await fetch(href, accept=lambda _: has_body, max_body=most, headers=headers, keep=network.keep)
            finally:
                sending.reset(token)

        result, ours = await network.borrowing.ask(lease, href, fetch)
        self.interrupted = self.interrupted or ours
        if result.raw is not None and self._may_keep(href, result):
            self.exchanges.append((href, context.clock() - result.seconds, result.raw))
        return result

    def _may_keep(self, href: str, result: Response | Failure) -> bool:
        """Return whether the answer may be archived: if the crawl has purposes, it must not refuse them."""
        network, entry = self._network, Entry(href, 0)
        understanding, context = Understanding(network.settings), network.context
        draft = context.reading.read(understanding.verdict, entry, result, context.clock(), False, False)
        if not isinstance(draft, Draft):
            return not network.settings.purpose.uses  # a failure of which no elements were read
        network.robots.add_terms(network.job.frontier.queue_of(href), draft.record)
        understanding.obey(draft)
        return draft.is_kept

    async def _lease(self, href: str) -> Lease | Refusal:
        """Return a lease on the URL's host with a place at the gate, or the reason why there is none. The host's
        robots.txt is requested first."""
        network = self._network
        name, member = network.job.frontier.queue_of(href), network.robots.redirect.member
        if member is not None and member.is_elsewhere(href):
            return Refusal.PARTITION
        borrowing, robots, asked = network.borrowing, network.robots, False
        while True:
            if (why := await self._closed(name, href)) is not None:
                return why
            async with network.hosts.setdefault(name, Lock()):
                await borrowing.let_a_page_go(name)
                if (why := await self._closed(name, href)) is not None:
                    return why
                known = self._knows_robots(name)
                if asked and not known:
                    return Refusal.HELD  # robots.txt is unavailable, and is requested again later
                await network.job.room()
                if network.job.frontier.known(name) is None and network.job.meet(href) is not None:
                    return Refusal.OWN_RULE
                lease = await borrowing.lease(name, href)
                if isinstance(lease, HostClosed):
                    return _why(lease)
                if isinstance(lease, NotNow):
                    return Refusal.HELD
                if known != self._knows_robots(name):  # a visit of the host has requested it meanwhile
                    borrowing.give_back(lease)
                    continue
                if await borrowing.enter(lease, IN_LINE) is not None:
                    return Refusal.HELD
                if known and (closed := network.job.frontier.ad_hoc.closure(name)) is not None:
                    borrowing.give_back(lease)  # others have used up the host's budget meanwhile
                    return _why(closed)
                if known:
                    network.job.frontier.ad_hoc.step_aside(lease)
                    return lease
                asked = True
                async with borrowing.requesting(lease):
                    await robots.visit(lease, href)

    async def _closed(self, name: str, href: str) -> Refusal | None:
        """Return the reason for a refusal that is known without a lease, or None."""
        network = self._network
        now, ad_hoc = network.context.clock(), network.job.frontier.ad_hoc
        if network.borrowing.line.detector.holds:
            self.interrupted = True
            return Refusal.HELD
        closed, host = ad_hoc.closure(name), ad_hoc.seen(name, now)
        if closed is not None:
            return _why(closed)
        if host is not None and network.borrowing.is_held(host, now):
            return Refusal.HELD
        if not self._knows_robots(name):
            return None
        while not network.robots.at_hand(name):
            await network.robots.prepare(name)
        return None if network.robots.refusal(name, href) is None else Refusal.ROBOTS

    def _knows_robots(self, name: str) -> bool:
        network = self._network
        now = network.context.clock()
        host = network.job.frontier.ad_hoc.seen(name, now)
        return network.robots.ignores(name) or (host is not None and host.politeness.robots_until > now)


def _why(closed: HostClosed) -> Refusal:
    if closed.budget:
        return Refusal.BUDGET
    if closed.rule.startswith("robots.txt"):
        return Refusal.ROBOTS
    return Refusal.HELD if closed.refusal is None else Refusal.OWN_RULE


def _with(request: SubRequest, headers: dict[str, str]) -> SubRequest:
    return replace(request, headers={**request.headers, **headers})


def as_answer(result: Response) -> Answer:
    """Return the answer in the browser's form."""
    headers = [
        (str(name), browser_text(value)) for name, value in result.headers.items() if name.lower() not in _OF_TRANSFER
    ]
    return Answer(result.status, tuple(headers), result.body or b"")
