"""What real servers see of a crawl that must be fair to each of them, by their own log.

Each test here is one way in which crawls failed before. Those that are elsewhere:

    our own line goes away            tests/engine/test_outage.py
    a kept connection ends unread     tests/web/fetch/test_kept_connections.py
    schemes and ports of one name     tests/engine/test_one_name.py
    hosts without end in one domain   tests/frontier/test_domain_shares.py
    a limit is lifted                 tests/engine/test_lifted_limits.py
    what is told of hosts that wait   tests/inspect/test_why_not_now.py

The names of hosts are made up, and a resolver of the test leads all of them to one server on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.base.clock import SteadyClock
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import Settings
from crawler.engine.lifecycle import Stop
from crawler.job.job import Job
from crawler.web.fetch import Fetcher
from tests.driving import Driven
from tests.jobs import rows
from tests.laboratory import links

ROBOTS = "/robots.txt"
HANGS = -1  # the status of an answer that never comes

Answer = tuple[int, str]
Answers = Callable[[str, str], Answer]  # by host name and path
Until = Callable[["Web"], bool]


def never(_: Web) -> bool:
    return False


@dataclass
class Asked:
    """One request, from and to when (monotonic seconds)."""

    host: str
    path: str
    begin: float
    end: float = float("inf")


class ToLoopback(AbstractResolver):
    """Every name is this machine's."""

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)]

    async def close(self) -> None:
        pass


@dataclass
class Web:
    """A server for all hosts."""

    answers: Answers
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    hanging: list[asyncio.StreamWriter] = field(default_factory=list)

    def crawl(
        self, job: Path, names: list[str], /, *seeds: str, until: Until = never, **tables: dict[str, Any]
    ) -> Stop:
        """A run over the job, from these paths of each host."""
        tables.setdefault("robots", {"ignore": True})
        tables["fetch"] = {"allow_private": True, **tables.get("fetch", {})}
        tables["crawl"] = {"scope": "any", **tables.get("crawl", {})}
        hrefs = [(name, path) for name in names for path in seeds or ("/",)]
        return asyncio.run(self._crawl(job, hrefs, settings_from(tables, "the test"), until))

    async def _crawl(self, directory: Path, first: list[tuple[str, str]], settings: Settings, until: Until) -> Stop:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, reuse_address=True)
        self.port = server.sockets[0].getsockname()[1]
        clock, slots = SteadyClock(), settings.crawl.concurrency
        job = Job(directory, settings, clock())

        async def seeds() -> AsyncIterator[list[str]]:
            yield [self.url(name, path) for name, path in first]

        try:
            async with Fetcher(settings.fetch, concurrency=slots, per_host=1, resolver=ToLoopback()) as fetcher:
                driven = Driven(job, fetcher, settings, clock, seeds())
                running = asyncio.ensure_future(driven.to_the_end())
                while not running.done() and not until(self):
                    await asyncio.wait([running], timeout=0.02)
                driven.run.stop()
                for writer in self.hanging:
                    writer.close()
                return await running
        finally:
            server.close()
            job.close()

    def url(self, name: str, path: str) -> str:
        return f"http://{name}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            name = head.partition("\r\nHost: ")[2].partition(":")[0]
            asked = Asked(name, head.split()[1], time.monotonic())
            self.asked.append(asked)
            status, text = self.answers(name, asked.path)
            if status == HANGS:
                self.hanging.append(writer)
                await reader.read()  # until the crawler gives up
            else:
                body = text.replace("{port}", str(self.port)).encode()
                lines = f"HTTP/1.1 {status} x\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
                asked.end = time.monotonic()
                writer.write(f"{lines}Connection: close\r\n\r\n".encode() + body)
                await writer.drain()
            asked.end = min(asked.end, time.monotonic())
        writer.close()

    def pages(self) -> list[tuple[str, str]]:
        """Host and path of each request but those for robots.txt, in order."""
        return [(asked.host, asked.path) for asked in self.asked if asked.path != ROBOTS]


def hosts(count: int) -> list[str]:
    return [f"h{number}.test" for number in range(count)]


def small_sites(pages: int) -> Answers:
    """Every host has so many pages, and the first one has links to all others."""
    found = {f"/{number}" for number in range(1, pages)}

    def answer(name: str, path: str) -> Answer:
        if path == "/":
            return 200, f"<p>{name}" + links(sorted(found))
        return (200, f"<p>{name} {path}") if path in found else (404, "<p>no such page")

    return answer


def test_robots_txt_that_may_be_used_for_no_time_still_brings_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over before any host has its second turn."""
    monkeypatch.setattr("crawler.web.fetch.robots_answers.TTL", 0.001)
    web, names = Web(small_sites(3)), hosts(20)
    politeness = {"delay": 0.01}
    ended = web.crawl(
        tmp_path / "job", names, robots={"ignore": False}, politeness=politeness, crawl={"concurrency": 4}
    )
    assert ended is Stop.FINISHED
    assert Counter(web.pages()) == Counter((name, path) for name in names for path in ("/", "/1", "/2"))
    robots = Counter(asked.host for asked in web.asked if asked.path == ROBOTS)
    assert set(robots) == set(names)
    assert max(robots.values()) <= 3, "each copy serves a page"


def test_short_runs_go_on_with_hosts_that_were_never_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.frontier.host_session.PAGES", 1)
    web, names = Web(small_sites(4)), hosts(20)
    for run in range(5):
        ended = web.crawl(
            tmp_path / "job",
            names if run == 0 else [],
            "/",
            "/1",
            "/2",
            "/3",
            crawl={"concurrency": 1, "max_pages": 5 * (run + 1)},
            politeness={"delay": 0.0},
        )
        assert ended is Stop.MAX_PAGES
    order = [name for name, _ in web.pages()]
    assert len(order) == 25
    assert len(set(order[:20])) == 20, "each before any is asked twice"
    assert order[20:] == order[:5], "and then those that have waited longest"


def test_pages_that_are_due_again_leave_new_ones_their_turns(tmp_path: Path) -> None:
    """All pages are due again all the time."""
    web = Web(small_sites(80))
    often = {"enabled": True, "policy": "adaptive", "mean_interval": 0.05, "min_interval": 0.05, "max_interval": 0.05}
    web.crawl(
        tmp_path / "job",
        ["h.test"],
        recrawl=often,
        crawl={"max_pages": 120, "concurrency": 2},
        politeness={"delay": 0.005},
    )
    order = [path for _, path in web.pages()]
    new = len(set(order))
    assert new >= 0.4 * len(order)
    assert len(order) - new > 10, "pages were visited again"


def test_hosts_that_never_answer_leave_most_slots_to_those_that_do(tmp_path: Path) -> None:
    """The front pages of those that answer have links to hosts that do not."""
    quick, dead, sites = hosts(3), [f"d{number}.test" for number in range(30)], small_sites(40)
    to_dead = links([f"http://{name}:{{port}}/" for name in dead])

    def answer(name: str, path: str) -> Answer:
        status, text = sites(name, path)
        return (HANGS, "") if name in dead else (status, text + to_dead * (path == "/"))

    web = Web(answer)
    ended = web.crawl(
        tmp_path / "job",
        quick,
        until=lambda web: sum(asked.host in quick for asked in web.asked) >= 100,
        crawl={"concurrency": 16},
        politeness={"delay": 0.01},
        fetch={"headers_timeout": 20.0},
    )
    assert ended is Stop.INTERRUPTED
    hundredth = [number for number, asked in enumerate(web.asked) if asked.host in quick][99]
    hanging = sum(asked.host in dead for asked in web.asked[:hundredth])
    assert 1 <= hanging <= 15, "none of these requests is over, and never do they hold all slots"


def test_a_host_that_answers_nothing_but_500_is_asked_ever_less_often(tmp_path: Path) -> None:
    front, broken = small_sites(8), (500, "<p>broken")
    web = Web(lambda name, path: front(name, path) if path == "/" else broken)
    web.crawl(
        tmp_path / "job",
        ["h.test"],
        politeness={"delay": 0.02, "backoff_first": 0.16 / 12},
        retry={"tries": 1},
    )
    assert len(web.asked) == 8
    gaps = [later.begin - sooner.end for sooner, later in itertools.pairwise(web.asked)]
    for gap, least in zip(gaps, [0.02, 0.02, 0.04, 0.08, 0.16, 0.16, 0.16], strict=True):
        assert gap >= least - 0.005


def test_a_site_that_answers_every_path_comes_to_an_end(tmp_path: Path) -> None:
    """Eleven pages; every other path is answered with 200 and the same page, whose links are relative."""
    real = small_sites(11)

    def answer(name: str, path: str) -> Answer:
        status, text = real(name, path)
        return (200, "<p>not found" + links(["a/b", "c", "../d"])) if status == 404 else (200, text + links(["x/y"]))

    web = Web(answer)
    ended = web.crawl(tmp_path / "job", ["h.test"], politeness={"delay": 0.0}, traps={"duplicates": "record"})
    assert ended is Stop.FINISHED
    assert {path for _, path in web.pages()} >= {"/", *(f"/{number}" for number in range(1, 11))}
    assert len(web.asked) < 80
    assert Counter(row["outcome"] for row in rows(tmp_path / "job"))["soft404"] > 0
