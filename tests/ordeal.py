"""A whole crawl in virtual time through all that befalls one, judged by what its servers saw.

The servers are of several tempers, one domain answers for any name, our own line is down now and then, the process is
stopped or dies and goes on later, and pages are visited again. The crawler is the real one, from the seeds to
``pages.jsonl``; only the loop, the web and the store are doubles (``tests/laboratory.py``). The servers hold it to
these rules, which they check by themselves:

    gaps         between the end of a request to a host and the start of the next lies the delay, or the Crawl-delay
                 once the host's robots.txt was read, or what an answer 429 or 503 asked for; across restarts too
    overlaps     no host is asked twice at the same time
    lost         every link of a page that was answered comes to a record, and one of ``fetched`` where the server
                 was well: whatever the line did meanwhile, and whenever the process died
    twice        no visit has two records
    starved      no host stands ready and unasked for longer than twice a *lap*

A lap is the time in which every host that has something to ask for could have one session, given slots, rate and gaps:
``PAGES`` pages and a robots.txt each. So it is the largest of

    requests of all these sessions / rate
    the time that quick hosts take for their sessions / the slots that slow and new ones leave them; for slow hosts
    the time that they take / their own slots
    one session, with its gaps

The clock of starvation stands still while the line is down or no process runs.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from crawler.base.settings.parts import (
    CrawlSettings,
    DurabilitySettings,
    PolitenessSettings,
    RecrawlSettings,
    RobotsSettings,
    SeenSettings,
    Settings,
    TrapSettings,
)
from crawler.engine.lifecycle import Stop
from crawler.frontier.host_session import PAGES
from crawler.web.fetch import Failure, FailureKind, Response, robots_answers
from tests.faulty_disk import PowerCutError
from tests.laboratory import NEVER, START, Laboratory, links
from tests.simulated_web import page

# A seen-set that errs would lose a URL in some ten thousand, as it says, and the servers would call that lost, and the
# host starved whose last URLs these are.
EXACT = SeenSettings(kind="exact")
CHILDREN = 4  # links of a page
EARLY = 1e-6  # seconds: less is the rounding of times of this size
WILD = "spam.test"  # the domain that answers for any name
WILD_PAGES, WILD_LINKS = 3, 10  # of each of its hosts: pages, and further hosts that its first page names


class Temper(Enum):
    """What a server is like."""

    PLAIN = auto()
    DELAYED = auto()  # its robots.txt has a Crawl-delay
    STORMY = auto()  # answers 429 or 503 a minute in five, half of them with a Retry-After
    SLOW = auto()  # takes 5 to 9 s
    DEAD = auto()  # never answers
    DYING = auto()  # answers no more from some moment on
    FLAKY = auto()  # cuts one response in twenty off, fails on another
    WILD = auto()  # of the domain that answers for any name


SHARES = {
    Temper.PLAIN: 0.72,
    Temper.DELAYED: 0.06,
    Temper.STORMY: 0.05,
    Temper.SLOW: 0.05,
    Temper.DEAD: 0.05,
    Temper.DYING: 0.03,
    Temper.FLAKY: 0.04,
}
WELL = (Temper.PLAIN, Temper.DELAYED, Temper.SLOW)  # nothing but the line keeps these from answering

DOWN = (
    Failure(FailureKind.UNREACHABLE, "Network is unreachable", 0.0),
    Failure(FailureKind.CONNECT_TIMEOUT, "no connection within 10 s", 10.0),
    Failure(FailureKind.DNS, "name not found", 0.0),
)


@dataclass(slots=True)
class Server:
    """One host, and what it knows of the crawl."""

    name: str
    temper: Temper
    seconds: float
    pages: int
    crawl_delay: float | None = None
    dies: float = float("inf")
    changes: float = float("inf")  # seconds between two changes of its pages
    gap: float = 1.0
    free_at: float = 0.0  # no request before
    busy: bool = False
    known: int = 1  # pages that links lead to
    met: set[int] = field(default_factory=set)  # pages that were asked for
    robots: int = 0  # requests for it
    ready: float | None = None  # since when it has stood ready, by the clock of work


@dataclass(frozen=True, slots=True)
class Run:
    """One process: how long it runs, what ends it, and when the line is down."""

    seconds: float | None  # None: to the end
    dies: bool = False
    outages: tuple[tuple[float, float], ...] = ()  # begin and end, in seconds of the run
    ttl: float = 86_400.0  # of robots.txt
    recrawl: bool = True
    rest: float = 30.0  # seconds until the next one begins


@dataclass
class Verdict:
    """What was broken; all of it must be zero."""

    gaps: int = 0
    overlaps: int = 0
    starved: int = 0
    lost: int = 0
    twice: int = 0
    blamed: int = 0  # records of a failure that only the line can have caused

    @property
    def broken(self) -> int:
        return self.gaps + self.overlaps + self.starved + self.lost + self.twice + self.blamed


class Servers:
    """All servers, the line to them, and their log."""

    def __init__(self, seed: int, hosts: int, pages: int, slots: int, politeness: PolitenessSettings) -> None:
        self.chance = random.Random(seed)
        self.verdict = Verdict()
        self.requests: Counter[str] = Counter()
        self.longest = 0.0  # wait of a ready host, in laps
        self.down: Failure | None = None
        self._slots, self._politeness = slots, politeness
        self._stopped = 0.0  # seconds in which nobody could be asked
        self._halted: float | None = None
        drawn = self.chance.choices(list(SHARES), list(SHARES.values()), k=hosts)
        self.by_name = {f"h{n}.test": self._server(f"h{n}.test", temper, pages) for n, temper in enumerate(drawn)}
        self.by_name[f"w0.{WILD}"] = self._server(f"w0.{WILD}", Temper.WILD, WILD_PAGES)
        self._open: dict[bool, Counter[str]] = {}
        self._load = {
            True: 0.0,
            False: 0.0,
        }  # seconds that a page takes, of all hosts that have something: by whether slow
        self._count = 0
        for server in list(self.by_name.values()):
            self._wants(server)

    def _server(self, name: str, temper: Temper, pages: int) -> Server:
        chance = self.chance
        server = Server(name, temper, min(0.8, chance.lognormvariate(-1.5, 0.5)), pages)
        if temper is Temper.SLOW:
            server.seconds = chance.uniform(5, 9)
        if temper is Temper.DELAYED:
            server.crawl_delay = chance.choice([2.0, 3.0, 5.0])
        if temper is Temper.DYING:
            server.dies = START + chance.uniform(20, 2_000)
        if chance.random() < 0.3:
            server.changes = chance.uniform(200, 5_000)
        return server

    # -- laps --------------------------------------------------------------------------------------------------

    def _wants(self, server: Server) -> None:
        """The host has something to ask for from now on."""
        self._count += 1
        self._load[server.temper is Temper.SLOW] += server.seconds

    def lap(self, server: Server) -> float:
        """The lap of hosts as quick or as slow as this one, in seconds."""
        politeness, slow = self._politeness, server.temper is Temper.SLOW
        requests = PAGES + 1
        few = max(1, self._slots // 4)
        slots = few / 2 if slow else self._slots - few
        session = requests * (server.seconds + max(server.gap, politeness.delay))
        by_rate = 0.0 if politeness.rate is None else requests * self._count / politeness.rate
        return max(by_rate, requests * self._load[slow] / slots, session)

    def halt(self, now: float) -> None:
        """Nobody can be asked."""
        if self._halted is None:
            self._halted = now

    def go_on(self, now: float) -> None:
        if self._halted is not None:
            self._stopped += now - self._halted
            self._halted = None

    def _at_work(self, moment: float) -> float:
        """A moment by the clock that stands still while nobody can be asked."""
        return (moment if self._halted is None else self._halted) - self._stopped

    # -- requests ----------------------------------------------------------------------------------------------

    def hung_up(self, href: str, now: float) -> None:
        """The crawler closed the connection before the answer."""
        server, _ = self._named(href)
        server.busy, server.free_at = False, max(server.free_at, now + server.gap)

    def begin_run(self, now: float) -> None:
        """A process begins; it is told of all hosts that were not asked yet."""
        self.go_on(now + self._politeness.delay)  # nobody is asked before
        for server in self.by_name.values():
            if server.ready is None and len(server.met) < server.known:
                server.ready = self._at_work(max(now, server.free_at))

    def _waited(self, server: Server, now: float) -> None:
        """The host stands ready no more, or the process ends."""
        if server.ready is not None and server.temper in WELL:
            waited = (self._at_work(now) - max(server.ready, self._at_work(server.free_at))) / self.lap(server)
            self.longest = max(self.longest, waited)
            self.verdict.starved += waited > 2.0

    def end_run(self, now: float) -> None:
        """The process ended, and its requests with it."""
        for server in self.by_name.values():
            self._waited(server, now)
            if server.busy:
                server.busy, server.free_at = False, max(server.free_at, now + server.gap)

    def asked(self, href: str, now: float) -> float:
        """A request comes; returns the seconds that it takes."""
        server, number = self._named(href)
        self.requests["robots.txt" if number is None else "pages"] += 1
        self.verdict.overlaps += server.busy
        self.verdict.gaps += now < server.free_at - EARLY
        self._waited(server, now)
        server.busy, server.ready = True, None
        if number is None:
            server.robots += 1
        else:
            server.met.add(number)
        if self.down is not None:
            return self.down.seconds
        return 10.0 if self._is_dead(server, now) else server.seconds * self.chance.uniform(0.7, 1.3)

    def answer(self, href: str, now: float) -> Response | Failure:
        """The request's answer, at its end."""
        server, number = self._named(href)
        server.busy = False
        server.free_at = max(server.free_at, now + server.gap)
        answer = self.down or self._answer(server, number, now)
        if isinstance(answer, Failure):
            self.requests["no answer"] += 1
        elif number is not None and answer.status == 200:
            self._linked(server, number)
        if len(server.met) < server.known:
            server.ready = self._at_work(server.free_at)
        return answer

    def _answer(self, server: Server, number: int | None, now: float) -> Response | Failure:
        chance, temper = self.chance, server.temper
        if self._is_dead(server, now):
            return Failure(FailureKind.CONNECT_TIMEOUT, "no connection within 10 s", 10.0)
        if number is None:
            if server.crawl_delay is not None:
                server.gap = server.crawl_delay
                server.free_at = max(server.free_at, now + server.gap)
            rules = "" if server.crawl_delay is None else f"User-agent: *\nCrawl-delay: {server.crawl_delay:g}\n"
            return Response(200, {}, "text/plain", "utf-8", rules.encode(), None, None, 0.0, len(rules))
        if temper is Temper.STORMY and (now + server.seconds * 1e5) % 300 < 60:
            wait = str(chance.randint(0, 40)) if chance.random() < 0.5 else None
            server.free_at = max(server.free_at, now + (self._politeness.backoff_first if wait is None else int(wait)))
            self.requests["throttled"] += 1
            return Response(chance.choice([429, 503]), {}, "text/html", "utf-8", b"", None, wait, 0.0, 0)
        if temper is Temper.FLAKY and (fate := chance.random()) < 0.1:
            if fate < 0.05:
                return Failure(FailureKind.CUT_OFF, "connection closed before the end of the body", 0.1)
            return page("<p>broken", status=500)
        return page(self._text(server, number, now))

    def _text(self, server: Server, number: int, now: float) -> str:
        version = 0 if server.changes == float("inf") else int(now / server.changes)
        return f"<p>{server.name} {number} {version}" + links(list(self.links(server.name, number)))

    def links(self, name: str, number: int) -> Iterator[str]:
        """The hrefs on a page."""
        server = self.by_name[name]
        for child in range(CHILDREN * number + 1, min(CHILDREN * number + CHILDREN + 1, server.pages)):
            yield f"http://{name}/{child}"
        if server.temper is Temper.WILD and not number:
            own = int(name[1 : -len(WILD) - 1])
            for other in range(WILD_LINKS * own + 1, WILD_LINKS * own + WILD_LINKS + 1):
                yield f"http://w{other}.{WILD}/0"

    def _linked(self, server: Server, number: int) -> None:
        last = min(CHILDREN * number + CHILDREN + 1, server.pages)
        server.known = max(server.known, last)

    def _named(self, href: str) -> tuple[Server, int | None]:
        _, _, name, path = href.split("/", 3)
        server = self.by_name.get(name)
        if server is None:
            assert name.endswith(WILD), href
            server = self.by_name[name] = self._server(name, Temper.WILD, WILD_PAGES)
            self._wants(server)
        return server, None if path == "robots.txt" else int(path)

    def _is_dead(self, server: Server, now: float) -> bool:
        return server.temper is Temper.DEAD or now >= server.dies


class Ordeal(Laboratory):
    """A crawl of such servers, run after run."""

    def __init__(
        self,
        directory: Path,
        *,
        seed: int,
        hosts: int,
        pages: int,
        slots: int,
        rate: float | None = None,
        wild: int,
        seen: SeenSettings = EXACT,
    ) -> None:
        """``hosts`` of so many ``pages``, and ``wild`` ones of the domain that answers for any name."""
        # A dead host is given up within minutes, so that the crawl's end is no hour of waiting.
        politeness = PolitenessSettings(rate=rate, backoff_first=2.0, patience="short")
        self.servers = Servers(seed, hosts, pages, slots, politeness)
        settings = Settings(
            crawl=CrawlSettings(concurrency=slots, scope="any"),
            politeness=politeness,
            traps=TrapSettings(max_hosts=wild),
            durability=DurabilitySettings(sync_interval=NEVER, checkpoint_interval=300.0),
            seen=seen,
        )
        super().__init__(directory, {}, settings)
        self.pages = _Pages(self)  # type: ignore[assignment]

    def seconds_of(self, href: str) -> float:
        return self.servers.asked(href, self.time())

    def hung_up(self, href: str) -> None:
        self.servers.hung_up(href, self.time())

    def time(self) -> float:
        return self.began + asyncio.get_running_loop().time()

    def go(self, run: Run) -> Stop | None:
        """One process; None if it died."""
        servers = self.servers
        self.began = self.now
        self.asked.clear()
        recrawl = RecrawlSettings(enabled=run.recrawl, mean_interval=2_000.0, min_interval=300.0)
        self.settings = replace(self.settings, robots=RobotsSettings(), recrawl=recrawl)
        servers.begin_run(self.now)
        seeds = [f"http://{name}/0" for name in servers.by_name if not servers.by_name[name].met]
        # The throttler asks the module ``time``, and this loop has a time of its own.
        clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
        try:
            with patch("asyncio_throttle.throttler.time", clock), patch.object(robots_answers, "TTL", run.ttl):
                return self.run(*seeds, max_time=None if run.dies else run.seconds, during=self._line(run))
        except PowerCutError:
            return None
        finally:
            servers.end_run(self.now)
            servers.halt(self.now)
            self.now += run.rest

    def _line(self, run: Run) -> Any:
        async def during(_: Any, __: Any) -> None:
            at, servers = 0.0, self.servers
            for begin, end in run.outages:
                await asyncio.sleep(begin - at)
                servers.down = servers.chance.choice(DOWN)
                servers.halt(self.time())
                await asyncio.sleep(end - begin)
                servers.down, at = None, end
                servers.go_on(self.time() + 31.0)  # as long as a probe may wait
            if run.dies:
                assert run.seconds is not None
                await asyncio.sleep(run.seconds - at)
                raise PowerCutError

        return during

    def judge(self) -> Verdict:
        """What the records say, beside what the servers saw."""
        verdict, servers = self.servers.verdict, self.servers
        visits: Counter[tuple[str, int]] = Counter()
        first: dict[str, str] = {}
        with (self.directory / "pages.jsonl").open("rb") as lines:
            for line in lines:
                record = json.loads(line)
                url, visit = record["url"], record.get("visit", 1)
                visits[url, visit] += 1
                if visit == 1:
                    first[url] = record["outcome"]
        verdict.twice = sum(times > 1 for times in visits.values())
        verdict.lost = verdict.blamed = 0
        for server in servers.by_name.values():
            if server.temper is Temper.WILD:
                continue
            for number in range(server.known):
                outcome = first.get(f"http://{server.name}/{number}")
                verdict.lost += outcome is None
                verdict.blamed += server.temper in WELL and outcome not in (None, "fetched")
        return verdict


class _Pages:
    """The answers of the servers, as a table."""

    def __init__(self, ordeal: Ordeal) -> None:
        self._ordeal = ordeal

    def get(self, href: str) -> Response | Failure:
        return self._ordeal.servers.answer(href, self._ordeal.time())


def runs_of(seconds: float) -> list[Run]:
    """Seven processes of so many seconds each, and one to the end."""
    part = seconds / 10
    return [
        Run(seconds),
        Run(seconds, outages=((3 * part, 5 * part),)),
        Run(seconds, dies=True, rest=0.1),
        Run(seconds, ttl=15.0, rest=0.1),
        Run(seconds, dies=True, outages=((part, 2 * part), (7 * part, 9 * part)), ttl=15.0),
        Run(seconds, outages=((0.0, 2 * part),), rest=3_600.0),
        Run(seconds, dies=True),
        Run(None, recrawl=False),
    ]
