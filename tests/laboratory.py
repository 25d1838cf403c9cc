"""Whole crawls in virtual time: an event loop whose clock jumps to the next timer, over a web without sockets."""

from __future__ import annotations

import asyncio
import json
import selectors
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from crawler.base.clock import Anchor
from crawler.base.kv import Batch
from crawler.base.settings.parts import CrawlSettings, DurabilitySettings, PolitenessSettings, RobotsSettings, Settings
from crawler.engine.lifecycle import Stop
from crawler.engine.link_judge import LinkJudge
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.web.extract.text_pool import Texts
from crawler.web.fetch import Failure, Response
from tests.driving import Driven, Unwatched
from tests.durability.power import Inline
from tests.faulty_disk import PowerCutError
from tests.memory_store import MemoryStore
from tests.simulated_web import Answer, SimulatedWeb

START = 1_700_000_000.0
NEVER = 1e9
T = TypeVar("T")


class _NoWaiting(selectors.DefaultSelector):
    """Says at once that nothing has come, and how long it would have waited for that."""

    slept = 0.0

    def __init__(self, busy: float = 0.0) -> None:
        super().__init__()
        self._busy = busy

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen: the crawl hangs")
        self.slept += max(0.0, timeout) + self._busy
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time passes only while everybody sleeps, and then at once. Each pass takes ``busy`` seconds besides."""

    def __init__(self, busy: float = 0.0) -> None:
        self._waits = _NoWaiting(busy)
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.slept


SETTINGS = Settings(
    crawl=CrawlSettings(concurrency=8, scope="any"),
    robots=RobotsSettings(ignore=True),
    durability=DurabilitySettings(sync_interval=NEVER, checkpoint_interval=NEVER),
)


@dataclass
class Asked:
    """A request as the servers saw it, in seconds since 1970."""

    href: str
    begin: float
    end: float = 0.0


@dataclass
class Laboratory:
    """A job that can be run again and again, its web, and when it was asked for what."""

    directory: Path
    pages: dict[str, Answer]
    settings: Settings = field(default_factory=lambda: SETTINGS)
    addresses: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.2  # of a response
    connects: Iterator[float] = field(default_factory=lambda: repeat(0.0))  # seconds before a request is sent
    slow: Mapping[str, float] = field(default_factory=dict)  # seconds of hosts that take longer, by name
    busy: float = 0.0  # seconds that each pass of the event loop takes
    waits: Mapping[str, float] = field(default_factory=dict)  # seconds for which bodies of hosts wait for memory
    now: float = START
    slept: float = 0.0  # seconds for which the machine slept: its clock went on, its timers did not
    asked: list[Asked] = field(default_factory=list)
    anchor: Anchor | None = None
    texts: Texts | None = None
    link_judge: LinkJudge | None = None
    store: MemoryStore = field(default_factory=MemoryStore)

    def with_politeness(self, **changes: Any) -> Laboratory:
        self.settings = replace(self.settings, politeness=PolitenessSettings(**changes))
        return self

    def seconds_of(self, href: str) -> float:
        """How long the answer to that request takes."""
        return self.slow.get(href.split("/")[2], self.seconds)

    def hung_up(self, href: str) -> None:
        """The crawler gave the request up."""

    def run(self, *seeds: str, max_time: float | None = None, during: Any = None) -> Stop:
        """Run the job to its end or for ``max_time`` seconds. ``during`` is awaited beside it with crawl and job. It
        may raise ``PowerCutError``: the process dies at that moment, as by SIGKILL, and ``run`` raises it."""
        loop = VirtualLoop(self.busy)
        began = self.now
        try:
            return loop.run_until_complete(self._run(lambda: began + self.slept + loop.time(), seeds, max_time, during))
        finally:
            self.now = began + self.slept + loop.time()
            self.slept = 0.0
            loop.close()

    async def _run(
        self, clock: Callable[[], float], seeds: tuple[str, ...], max_time: float | None, during: Any
    ) -> Stop:
        settings = replace(self.settings, crawl=replace(self.settings.crawl, max_time=max_time))

        async def before(href: str) -> None:
            asked = Asked(href, clock())
            self.asked.append(asked)
            try:
                await asyncio.sleep(self.seconds_of(href))
                if (name := href.split("/")[2]) in self.waits:
                    with driven.worker.context.slots.wait():
                        await asyncio.sleep(self.waits[name])
            except asyncio.CancelledError:
                self.hung_up(href)
                raise
            asked.end = clock()

        async def dial(_: str) -> None:
            await asyncio.sleep(next(self.connects))

        web = _TimedWeb(self.pages, before, self.addresses, dial)
        platform = Platform(open_store=lambda _: store, executor=Inline)
        store = _Mortal(self.store)
        with closing(Job(self.directory, settings, clock(), platform, anchor=self.anchor)) as job:
            driven = Driven(job, web, settings, clock, _each(seeds), Unwatched(), self.texts, judge=self.link_judge)
            running = asyncio.ensure_future(driven.to_the_end())
            others: list[Coroutine[Any, Any, None]] = [] if during is None else [during(driven.run, job)]
            beside = [asyncio.ensure_future(other) for other in others]
            while not running.done() and not any(each.done() and each.exception() for each in beside):
                await asyncio.wait(
                    [running, *(each for each in beside if not each.done())], return_when=FIRST_COMPLETED
                )
            store.dead = not running.done()
            for each in (running, *beside):
                each.cancel()
            for each in await asyncio.gather(*beside, running, return_exceptions=True):
                if isinstance(each, BaseException) and not isinstance(each, asyncio.CancelledError):
                    raise each
            return running.result()

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / "pages.jsonl").read_bytes().splitlines()]

    def of(self, name: str) -> list[dict[str, Any]]:
        """The records of a host."""
        return [record for record in self.records() if record["url"].startswith(f"http://{name}/")]

    def requests_to(self, *names: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.href.split("/")[2] in names]


class _Mortal:
    """A store to which a process that is dead writes no more."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.dead = False

    def write(self, batch: Batch) -> None:
        if self.dead:
            raise PowerCutError
        self._store.write(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _TimedWeb(SimulatedWeb):
    """Its answers say how long they took."""

    async def fetch(self, href: str, **wanted: Any) -> Response | Failure:
        began = asyncio.get_running_loop().time()
        answer = await super().fetch(href, **wanted)
        return replace(answer, seconds=asyncio.get_running_loop().time() - began)


async def _each(seeds: tuple[str, ...]) -> AsyncIterator[list[str]]:
    yield list(seeds)


def in_order(asked: list[Asked]) -> list[Asked]:
    return sorted(asked, key=lambda each: each.begin)


def apart(asked: list[Asked], gap: float) -> None:
    """No two overlap, and each begins so many seconds after the end of the one before."""
    for one, other in pairwise(in_order(asked)):
        assert other.begin - one.end >= gap - 1e-6, (one, other)


def links(hrefs: list[str]) -> str:
    """A page that links to all of them."""
    return "".join(f'<a href="{href}">x</a>' for href in hrefs)
