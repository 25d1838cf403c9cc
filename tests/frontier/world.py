"""A web of a thousand tempers on a virtual clock, and a protocol of what the frontier did to it.

The world keeps the rules of politeness by itself, in the plainest way (when was this key last answered, what did it ask
for), and counts each time a request breaks one. Responses go through ``judge``, so that what is tried is what a crawl
does: verdict, frontier and gate together.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from enum import Enum, auto

from crawler.base.kv import Batch, Store
from crawler.base.settings.parts import BudgetSettings, PolitenessSettings, RetrySettings
from crawler.engine.judge import judge, status_failure
from crawler.frontier.backoff_policy import cut_retry_after
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import AddressKnown, Done, Lease, Retry, RobotsKnown, RobotsLater
from crawler.frontier.lease import Throttled as ThrottledEnd
from crawler.frontier.limits import Limits, MemoryLimits
from crawler.frontier.request_outcome import RequestOutcome
from crawler.frontier.retries import longest_retry, retry_wait, tries_of
from crawler.frontier.slot_share import LEAST
from crawler.job.clock_anchor import move_times
from crawler.job.records import Outcome
from crawler.job.verdict import Draft, Throttled
from crawler.url.urls.domain import registrable_domain
from crawler.url.urls.host_key import host_key
from crawler.web.fetch import Failure, FailureKind, Response
from tests.memory_store import MemoryStore

START = 1_700_000_000.0
EARLY = 1e-6  # seconds: less is the rounding of times of this size


class Temper(Enum):
    """What a server is like."""

    PLAIN = auto()
    DELAYED = auto()  # its robots.txt has a Crawl-delay
    STORMY = auto()  # answers 429 or 503 a minute in five, half of them with a Retry-After
    SLOW = auto()  # takes 15 to 25 s
    DEAD = auto()  # never answers
    DYING = auto()  # answers no more from some moment on
    RESTARTING = auto()  # answers nothing for two minutes now and then
    FLAKY = auto()  # cuts one response in twenty off, fails on another


SHARES = {
    Temper.PLAIN: 0.70,
    Temper.DELAYED: 0.08,
    Temper.STORMY: 0.05,
    Temper.SLOW: 0.05,
    Temper.DEAD: 0.04,
    Temper.DYING: 0.03,
    Temper.RESTARTING: 0.02,
    Temper.FLAKY: 0.03,
}


@dataclass
class Server:
    """One host of the world."""

    name: str  # with its port, unless that is 80
    temper: Temper
    latency: float
    crawl_delay: float | None = None
    delay_known: bool = False  # its robots.txt was read
    retry_after: str | None = None  # "seconds", "date" or none
    dies: float = float("inf")
    pages: int = 0  # pages that links were found to so far
    done: int = 0  # of them, with a record
    taken: int = 0
    answered: bool = False  # so that it is known to be quick
    became_ready: float | None = None
    stood_ready: float = 0.0

    @property
    def host(self) -> str:
        """Its host in the frontier."""
        return host_key(f"http://{self.name}/")


@dataclass
class Key:
    """What the world holds a host key to."""

    in_flight: int = 0
    free_at: float = 0.0


@dataclass
class Protocol:
    """What happened. All counts but the first few must be zero."""

    requests: int = 0
    retried: int = 0
    throttled: int = 0
    failures: int = 0
    early: int = 0  # gaps cut short
    overlaps: int = 0
    idle: int = 0  # times at which a slot was free and a plain host ready
    slow_over: int = 0  # times at which failing hosts held more than their share while quick ones waited
    stalled: bool = False
    finished: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    outcomes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    retired: set[str] = field(default_factory=set)
    saturated_until: float = 0.0  # seconds during which hosts waited for slots
    seconds: float = 0.0  # of virtual time


class World:
    """Servers, a frontier, and the slots between them."""

    def __init__(
        self,
        seed: int,
        hosts: int,
        pages: int,
        *,
        slots: int = 64,
        politeness: PolitenessSettings | None = None,
        retry: RetrySettings | None = None,
        budget: BudgetSettings | None = None,
        robots: bool = True,
        name: str = "h{0}.test",
        tempers: dict[Temper, float] | None = None,
        store: Store | None = None,
        memory: MemoryLimits | None = None,
        lingering: float = 0.0,
        share: float = 0.25,
        sessions: bool = True,
    ) -> None:
        """``lingering``: the share of pages that are done with only some time after their answer.
        ``share`` of the slots new and slow hosts may always hold."""
        self.sessions = sessions
        self.lingering = lingering
        self.chance = random.Random(seed)
        self.now = START
        self.slots = slots
        self.pages = pages
        self.robots = robots
        self.politeness = politeness or PolitenessSettings()
        self.retry = retry or RetrySettings()
        slow = max(1, int(share * slots))
        memory, longest = memory or MemoryLimits(), longest_retry(self.retry)
        self.limits = Limits(budget or BudgetSettings(), slow, longest, memory, slots=slots)
        self.store: Store = store or MemoryStore()
        self.protocol = Protocol()
        shares = tempers or SHARES
        drawn = self.chance.choices(list(shares), list(shares.values()), k=hosts)
        self.servers = [self._server(name.format(n, n // 5), temper) for n, temper in enumerate(drawn)]
        self._by_host = {server.host: server for server in self.servers}
        self._mates: dict[str, list[Server]] = defaultdict(list)
        for server in self.servers:
            self._mates[self.key(server.host)].append(server)
        self._alone = len(self._mates) == len(self.servers)  # each has a key of its own
        self._keys: dict[str, Key] = defaultdict(Key)
        self._failing: set[str] = set()
        self._asked_failing: set[int] = set()  # requests to hosts that were known to fail when they were begun
        self._given_up: set[str] = set()  # robots.txt could not be had
        self._ready: list[tuple[float, str]] = []  # plain hosts with something queued, by when they are free
        self._queued: dict[str, int] = defaultdict(int)
        self._flying: list[tuple[float, int, Lease, Response | Failure | Draft | None]] = []
        self._asked = 0
        self.frontier = self.open_frontier()

    def _server(self, name: str, temper: Temper) -> Server:
        latency = self.chance.lognormvariate(-1.2, 0.5)
        server = Server(name, temper, self.chance.uniform(15, 25) if temper is Temper.SLOW else latency)
        if temper is Temper.DELAYED:
            server.crawl_delay = self.chance.choice([2.0, 5.0, 10.0, 100.0])
        if temper is Temper.STORMY:
            server.retry_after = self.chance.choice([None, "seconds", "date", None])
        if temper is Temper.DYING:
            server.dies = START + self.chance.uniform(20, 90)
        return server

    # -- the crawl ---------------------------------------------------------------------------------------------

    def open_frontier(self) -> Frontier:
        """A frontier over what the store holds."""
        frontier = Frontier(self.store, self.politeness, self.limits, robots=self.robots)
        if not self.sessions:
            frontier.alternate()
        return frontier

    def seed(self, each: int) -> None:
        """Admit the first pages of every host."""
        batch = self.store.batch()
        for server in self.servers:
            self._admit(server, each, batch)
        self._write(batch)

    def _write(self, batch: Batch) -> None:
        self.store.write(batch)
        self.frontier.written()

    def _admit(self, server: Server, count: int, batch: Batch) -> None:
        count = min(count, self.pages - server.pages)
        entries = [Entry(f"http://{server.name}/{server.pages + n}", 1) for n in range(count)]
        self.frontier.admit(entries, batch)
        server.pages += count
        host = server.host
        self._queued[host] += count
        self._note_ready(host)

    def run(self, until: float = float("inf"), requests: float = float("inf")) -> Protocol:
        """Crawl until nothing is left, or until a moment or a number of requests."""
        protocol = self.protocol
        began = self.now
        while self.now < until and protocol.requests < requests:
            self._fill()
            ready = self.frontier.next_ready() if len(self._flying) < self.slots else None
            times = [self._flying[0][0]] if self._flying else []
            times += [] if ready is None else [ready]
            if not times:
                protocol.stalled = self.frontier.queued > 0
                break
            self.now = max(self.now, min(times))
            while self._flying and self._flying[0][0] <= self.now:
                self._answer(*heapq.heappop(self._flying)[2:])
        protocol.seconds += self.now - began
        return protocol

    def lose_everything(self, offset: float = 0.0, *, told: bool = False) -> None:
        """The process dies: what is in flight is lost, and goes on at the servers. The next one takes up the store
        with a clock that is ``offset`` seconds off, and is ``told`` so or not."""
        number = self.frontier.next_number
        for _, _, lease, _ in self._flying:
            if not (lease.address or lease.left):
                self._over(lease.host.name)
            if lease.entry is not None and not lease.entry.tries and not lease.entry.throttled:
                self._queued[lease.host.name] += 1
        self._flying.clear()
        # All times of the world move with the clock: what matters is what lies between two requests.
        self.now += offset
        for name, key in self._keys.items():
            key.free_at += offset
            if offset > 0 and not told and self._alone:
                # Whether the job lay still for an hour or the clock was set forward nobody can tell: what a server
                # asked for is over. The gap holds all the same.
                key.free_at = min(key.free_at, self.now + self.gap(self._mates[name][0]))
        for name, server in self._by_host.items():
            # A request may have been under way: nobody is asked before its gap is over.
            if server.done < server.pages:
                key = self._keys[self.key(name)]
                key.free_at = max(key.free_at, self.now + self.gap(server))
        for server in self.servers:
            server.dies += offset
            server.became_ready = None
        self._failing.clear()
        self._ready.clear()
        if told:
            batch = self.store.batch()
            move_times(self.store, offset, self.now, batch)
            self.store.write(batch)
        self.frontier = self.open_frontier()
        self.frontier.load(self.now, next_number=number)

    # -- requests ----------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        while len(self._flying) < self.slots:
            lease = self.frontier.take(self.now)
            if lease is None:
                self._look_for_idle()
                return
            if lease.address:
                heapq.heappush(self._flying, (self.now + 0.05, self._next(), lease, None))
                continue
            if lease.closed is not None or self._disallowed(lease):
                self._refuse(lease)
                continue
            self._ask(lease)
        self.protocol.saturated_until = self.now

    def _disallowed(self, lease: Lease) -> bool:
        # As `refuse` of a visit: after robots.txt could not be had everything is disallowed for an hour.
        return (
            lease.entry is not None
            and lease.host.name in self._given_up
            and lease.host.politeness.robots_until > self.now
        )

    def _refuse(self, lease: Lease) -> None:
        assert lease.entry is not None
        batch = self.store.batch()
        failed = lease.closed is None or lease.closed.failed
        self.frontier.finish(lease, Done(None, failed), self.now, batch)
        self._write(batch)
        self._done(lease.entry.href, Outcome.FAILED if failed else Outcome.EXCLUDED)
        self._queued[lease.host.name] -= 1
        self._by_host[lease.host.name].became_ready = None  # asked no more
        if lease.closed is not None and lease.closed.rule == "retired":
            self.protocol.retired.add(lease.host.name)

    def _ask(self, lease: Lease) -> None:
        name = lease.host.name
        server, key, protocol = self._by_host[name], self._keys[self.key(name)], self.protocol
        protocol.requests += 1
        protocol.overlaps += key.in_flight >= self.politeness.per_host
        protocol.early += self.now < key.free_at - EARLY
        key.in_flight += 1
        key.free_at = max(key.free_at, self.now + self.gap(server))
        if name in self._failing:
            held = sum(number in self._asked_failing for _, number, _, _ in self._flying)
            protocol.slow_over += held >= self.limits.slow_slots and self._quick_wait()
            self._asked_failing.add(self._asked + 1)
        if server.became_ready is not None and lease.entry is not None:
            server.stood_ready += self.now - server.became_ready
            server.taken += 1
        server.became_ready = None
        if lease.entry is not None and not lease.entry.tries and not lease.entry.throttled:
            self._queued[name] -= 1
        result = self._result(server)
        heapq.heappush(self._flying, (self.now + result.seconds, self._next(), lease, result))

    def _quick_wait(self) -> bool:
        """Whether more hosts that are known to be quick wait for a slot than there are slots."""
        waiting = {name for since, name in self._ready if since < self.now - EARLY and self._stands(since, name)}
        return sum(self._by_host[name].answered for name in waiting) > self.slots

    def _some_are_new(self) -> bool:
        return any(not server.answered and self._queued[server.host] for server in self.servers)

    def _stands(self, since: float, name: str) -> bool:
        return self._by_host[name].became_ready == since and self._queued[name] > 0

    def _next(self) -> int:
        self._asked += 1
        return self._asked

    def _result(self, server: Server) -> Response | Failure:
        temper, seconds = server.temper, server.latency * self.chance.uniform(0.7, 1.3)
        down = temper is Temper.DEAD or self.now >= server.dies
        if temper is Temper.RESTARTING:
            down = (self.now + len(server.name) * 100) % 1_800 < 120
        if down and self.chance.random() < 0.5:
            return Failure(FailureKind.CONNECT_TIMEOUT, "no connection within 10 s", 10.0)
        if down:
            return Failure(FailureKind.REFUSED, "connection refused", 0.001)
        status, retry_after = 200, None
        if temper is Temper.STORMY and (self.now + server.latency * 1e5) % 300 < 60:
            status = self.chance.choice([429, 503])
            if server.retry_after == "seconds":
                retry_after = str(self.chance.randint(0, 40))
            elif server.retry_after == "date":
                moment = datetime.fromtimestamp(self.now + seconds + self.chance.randint(0, 40), UTC)
                retry_after = format_datetime(moment.replace(microsecond=0), usegmt=True)
        if temper is Temper.FLAKY:
            fate = self.chance.random()
            if fate < 0.05:
                return Failure(FailureKind.CUT_OFF, "connection closed before the end of the body", seconds)
            status = 500 if fate < 0.1 else 200
        return Response(status, {}, "text/html", "utf-8", b"", None, retry_after, seconds, 10_000)

    # -- answers -----------------------------------------------------------------------------------------------

    def _over(self, name: str) -> None:
        key = self._keys[self.key(name)]
        key.in_flight -= 1
        key.free_at = max(key.free_at, self.now + self.gap(self._by_host[name]))

    def _answer(self, lease: Lease, result: Response | Failure | Draft | None) -> None:
        name = lease.host.name
        if isinstance(result, Draft):
            assert lease.entry is not None
            batch = self.store.batch()
            self._finish(lease, result, batch)
            self._admit(self._by_host[name], 1, batch)
            self._write(batch)
            return
        if result is None:
            batch = self.store.batch()
            self.frontier.finish(lease, AddressKnown(self.address(name)), self.now, batch)
            self._write(batch)
            return
        server, protocol = self._by_host[name], self.protocol
        self._over(name)
        if isinstance(result, Failure):
            self._failing.add(name)
            protocol.failures += 1
            if self.politeness.per_host == 1 and self._alone:
                key = self._keys[self.key(name)]
                key.free_at = max(key.free_at, self.now + self.politeness.backoff_first)
        else:
            self._failing.discard(name)
            server.answered = True
        batch = self.store.batch()
        if lease.entry is None:
            self._answer_robots(lease, server, result, batch)
        else:
            self._answer_page(lease, lease.entry, server, result, batch)
        self._write(batch)
        self._note_ready(name)

    def _answer_robots(self, lease: Lease, server: Server, result: Response | Failure, batch) -> None:  # type: ignore[no-untyped-def]
        host, retry = lease.host, self.retry
        tries = host.politeness.robots_tries + 1
        verdict = judge(Entry("http://h/robots.txt", 0), result, self.now, retry)
        request: RequestOutcome = verdict.request
        good = request.failure is None
        if not good and request.failure is not None and tries < min(retry.tries, tries_of(request.failure, retry)):
            wait = retry_wait(tries, retry, host.name)
            self.frontier.finish(lease, RobotsLater(wait, request), self.now, batch)
            return
        if not good:
            self._given_up.add(host.name)
        delay = server.crawl_delay if good else None
        server.delay_known = good
        key = self._keys[self.key(host.name)]
        key.free_at = max(key.free_at, self.now + self.gap(server))
        self.frontier.finish(lease, RobotsKnown(self.now + 86_400, delay, request), self.now, batch)

    def _answer_page(self, lease: Lease, entry: Entry, server: Server, result: Response | Failure, batch) -> None:  # type: ignore[no-untyped-def]
        protocol, key = self.protocol, self._keys[self.key(lease.host.name)]
        match judge(entry, result, self.now, self.retry):
            case Retry() as again:
                protocol.retried += 1
                self.frontier.finish(lease, again, self.now, batch)
            case Throttled() as throttled:
                protocol.throttled += 1
                after, settings = throttled.request.retry_after, self.politeness
                wait = settings.backoff_first if after is None else cut_retry_after(after, settings)
                key.free_at = max(key.free_at, self.now + wait)
                again_entry = throttled.entry if throttled.last is None else None
                self.frontier.finish(lease, ThrottledEnd(again_entry, throttled.request), self.now, batch)
                if throttled.last is not None:
                    self._done(entry.href, Outcome.FETCHED)
            case Draft() as finished:
                if finished.record.outcome is Outcome.FETCHED and self.chance.random() < self.lingering:
                    self.frontier.answered(lease, finished.request, self.now)
                    end = self.now + self.chance.uniform(0.0, 30.0)
                    heapq.heappush(self._flying, (end, self._next(), lease, finished))
                    return
                self._finish(lease, finished, batch)
                assert isinstance(result, Failure) or status_failure(result.status) == finished.request.failure
        if not isinstance(result, Failure):
            self._admit(server, 1, batch)

    def _finish(self, lease: Lease, finished: Draft, batch: Batch) -> None:
        outcome = finished.record.outcome
        self.frontier.finish(lease, Done(finished.request, outcome is Outcome.FAILED), self.now, batch)
        self._done(finished.record.entry.href, outcome)

    def _done(self, href: str, outcome: Outcome) -> None:
        self.protocol.finished[href] += 1
        self._by_host[host_key(href)].done += 1
        self.protocol.outcomes[outcome.value] += 1

    # -- the rules, once more ----------------------------------------------------------------------------------

    def key(self, name: str) -> str:
        match self.politeness.host_key:
            case "domain":
                return registrable_domain(name.partition(":")[0])
            case "address":
                return self.address(name) or name
            case "host":
                return name.rpartition(":")[0]
            case _:
                return name

    def address(self, name: str) -> str | None:
        """Five hosts to an address; one in seven has none."""
        number = next(n for n, server in enumerate(self.servers) if server.host == name)
        return None if number % 7 == 6 else f"192.0.2.{number // 5}"

    def gap(self, server: Server) -> float:
        mates = self._mates[self.key(server.host)]
        asked = max((mate.crawl_delay or 0.0) if mate.delay_known else 0.0 for mate in mates)
        return max(self.politeness.delay, min(asked, self.politeness.max_crawl_delay))

    def _note_ready(self, name: str) -> None:
        """Of plain hosts, which are held by nothing but their gap, it is known when they are ready."""
        server, key = self._by_host[name], self._keys[self.key(name)]
        if server.temper is not Temper.PLAIN or not self._queued[name] or not self._alone:
            return
        if self.limits.budget != BudgetSettings() or key.in_flight >= self.politeness.per_host:
            return
        if server.became_ready is None or server.became_ready < key.free_at:
            server.became_ready = max(self.now, key.free_at)
            heapq.heappush(self._ready, (server.became_ready, name))

    def _look_for_idle(self) -> None:
        while self._ready and self._ready[0][0] < self.now - EARLY:
            since, name = heapq.heappop(self._ready)
            # A host that was never asked, or is slow, may have to wait for one of the slots that such hosts may hold.
            # While any is new, the others wait for their next session, and slots are kept for sessions that go on.
            server, host = self._by_host[name], self.frontier.known(name)
            if not self._stands(since, name) or not server.answered or server.latency * 1.3 >= LEAST:
                continue
            if (host is not None and host.session_until) or not self._some_are_new():
                self.protocol.idle += 1


def jain(shares: list[float]) -> float:
    """Jain's index of fairness (Jain, Chiu, Hawe 1984): 1 where all have the same, 1/n where one has all."""
    total = sum(shares)
    return total * total / (len(shares) * sum(share * share for share in shares))
