"""A crawl of several members in virtual time: each has a worker of its own, and they share directories, a carrier and a
web without sockets."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import CarrierError, Entry, Order, Position
from crawler.base.clock import Anchor, SteadyClock
from crawler.base.kv import Batch
from crawler.base.settings.parts import CrawlSettings, DurabilitySettings, PolitenessSettings, RobotsSettings, Settings
from crawler.cluster.member import Member
from crawler.cluster.member_options import Crawl, MemberOptions, MemberResult
from crawler.cluster.stored_partitions import StoredPartitions
from crawler.engine.lifecycle import Stop
from crawler.job.bucket.keeping import TakenOverError
from crawler.job.bucket.layout import CRAWL, CrawlObject, encode
from crawler.job.bucket.objects import BucketDown, Listed
from crawler.job.bucket.restoration import restore
from crawler.job.directory import STORE
from crawler.job.platform import Platform
from crawler.job.store.rocks import PartitionStore
from tests.chance import CHANCE
from tests.driving import Unwatched
from tests.durability.power import Inline
from tests.faulty_disk import PowerCutError
from tests.faulty_store import FaultyStore
from tests.holdings import LosingHoldings
from tests.jobs import rows
from tests.laboratory import START, Asked, VirtualLoop
from tests.simulated_web import Answer, Answers, SimulatedWeb

T = TypeVar("T")

NO_TASK = cast("asyncio.Task[MemberResult]", None)
SECRET = b"the secret of a crawl of members"
SETTINGS = Settings(
    crawl=CrawlSettings(concurrency=8, scope="any"),
    robots=RobotsSettings(ignore=True),
    politeness=PolitenessSettings(delay=1.0),
    durability=DurabilitySettings(sync_interval=1.0, checkpoint_interval=1e9),
)


class Line:
    """The carrier as one member reaches it: it can be cut, and may lose every entry that the member appends."""

    def __init__(self, carrier: MemoryCarrier, latency: float = 0.0) -> None:
        self._carrier = carrier
        self._latency = latency
        self.is_cut = False
        self.loses_entries = False
        self.is_dead = False  # the member

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        await self._look()
        return await self._carrier.append(stream, writer, epoch, [] if self.loses_entries else entries)

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        await self._look()
        found = await self._carrier.read(after, most, wait)
        await self._look()
        return found

    async def trim(self, stream: str, upto: Position) -> None:
        await self._look()
        await self._carrier.trim(stream, upto)

    async def last(self, streams: Sequence[str]) -> list[Position]:
        await self._look()
        return await self._carrier.last(streams)

    async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
        await self._look()
        return await self._carrier.claim(name, holder, floor, seconds)

    async def renew(self, name: str, holder: str, epoch: int, seconds: float) -> bool:
        await self._look()
        return await self._carrier.renew(name, holder, epoch, seconds)

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        await self._look()
        return await self._carrier.put(name, values, order)

    async def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        await self._look()
        return await self._carrier.get(names, key)

    async def close(self) -> None:
        await self._carrier.close()

    async def _look(self) -> None:
        if self._latency:
            await asyncio.sleep(self._latency)
        if self.is_cut:
            raise CarrierError("the line is cut")


@dataclass
class Working:
    """A member at work. ``taken_over``: how often others took all that it had."""

    line: Line
    member: Member
    task: asyncio.Task[MemberResult]
    said: list[str]
    crawl: Crawl
    options: MemberOptions
    door: Door | None = None
    taken_over: int = 0

    async def kill(self) -> None:
        """End it as SIGKILL does: it writes nothing more and says nothing more."""
        self.line.is_cut = self.line.is_dead = True
        if self.door is not None:
            self.door.is_shut = True
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.exception()  # of what it wrote after its death

    async def stop(self) -> MemberResult:
        """Hand over in order."""
        self.member.stop()
        return await self.task


class Mortal:
    """A store to which a process that is dead writes no more."""

    def __init__(self, store: FaultyStore | PartitionStore, line: Line) -> None:
        self._store = store
        self._line = line

    def write(self, batch: Batch) -> None:
        if self._line.is_dead:
            raise PowerCutError
        self._store.write(batch)

    def sync(self) -> None:
        if self._line.is_dead:
            raise PowerCutError
        self._store.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@dataclass
class Crawling:
    """A crawl directory, its web and what its servers were asked. ``live`` runs a test of it."""

    directory: Path
    pages: Mapping[str, Answers]
    partitions: int = 8
    seeds: tuple[str, ...] = ()
    settings: Settings = field(default_factory=lambda: SETTINGS)
    seconds: float = 0.2  # of a response
    connects: Iterator[float] = field(default_factory=lambda: repeat(0.0))  # seconds before a request is sent
    latency: float = 0.0  # of a call to the carrier
    bucket: Bucket | None = None  # the crawl lives there; then stores are on the disk
    asked: list[Asked] = field(default_factory=list)
    stores: dict[Path, FaultyStore] = field(default_factory=dict)
    working: list[Working] = field(default_factory=list)
    began: float = START

    def live(self, test: Callable[[Crawling], Coroutine[Any, Any, T]]) -> T:
        """Run a test. What it has begun and not ended is killed."""
        with asyncio.Runner(loop_factory=self.make_loop) as runner:
            result = runner.run(self._live(test))
            self.began = self.clock() + 60.0
            return result

    def make_loop(self) -> VirtualLoop:
        """The loop on which all live."""
        return VirtualLoop()

    async def _live(self, test: Callable[[Crawling], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        began = self.began
        self.clock = lambda: began + loop.time()
        self.holdings = LosingHoldings(incarnation=CHANCE.random_bytes(4).hex())
        self.carrier = MemoryCarrier(self.holdings, self.clock)
        self.working = []
        try:
            return await test(self)
        finally:
            for working in self.working:
                if not working.task.done():
                    await working.kill()

    def begin(
        self,
        name: str | None = None,
        *,
        expected: int = 1,
        boottime: Callable[[], float] | None = None,
        seeds: Callable[[], AsyncIterator[list[str]]] | None = None,
        home: str = "",
        clock: Callable[[], float] | None = None,
        directory: str | None = None,
    ) -> Working:
        """Begin a member, which has the seeds of the crawl if it is given no others. ``home``: a machine of its own,
        with a ``directory`` that is usually called as the home is."""
        line = self.line()
        crawl = Crawl(
            self.directory / (home if directory is None else directory),
            self.partitions,
            SECRET,
            home or "here",
            groups=self.settings.site.groups,
        )
        crawl.directory.mkdir(parents=True, exist_ok=True)
        said = list[str]()

        def open_store(path: Path) -> Any:
            return self.open_store(path, line)

        async def inline(what: Callable[[], Any]) -> Any:
            return what()

        async def own_seeds() -> AsyncIterator[list[str]]:
            yield list(self.seeds)

        options = MemberOptions(
            fetcher=self.web(line),
            clock=clock or self.clock,
            lag=Unwatched(),
            seeds=seeds or own_seeds,
            name=name,
            expected=expected,
            notice=said.append,
            boottime=boottime or self.clock,
            place=lambda directory: directory.name,
            platform=Platform(open_store=open_store, executor=Inline),
            beside=inline,
        )
        door = None if self.bucket is None else Door(self.bucket)
        working = Working(line, self.member(line, crawl, options, door), NO_TASK, said, crawl, options, door)
        working.task = self.start(line, working)
        self.working.append(working)
        return working

    def member(self, line: Line, crawl: Crawl, options: MemberOptions, door: Door | None) -> Member:
        """A member that owns nothing yet."""
        if door is not None:
            beside = partial(through, door)
            disk = options.platform.disk
            options.stored = StoredPartitions(door, door.bucket.crawl, disk, self.clock, beside, lambda _: None)
        return Member(crawl, line, self.settings, options)

    async def work(self, working: Working) -> MemberResult:
        """Work as a process does: one that has lost all begins again."""
        while True:
            try:
                return await working.member.work()
            except TakenOverError:
                working.taken_over += 1
                is_stopped = working.member.reason is Stop.INTERRUPTED
                working.member = self.member(working.line, working.crawl, working.options, working.door)
                if is_stopped:
                    working.member.stop()

    # -- what a member has of the world ------------------------------------------------------------------------

    def line(self) -> Line:
        """Its way to the carrier."""
        return Line(self.carrier, self.latency)

    def open_store(self, path: Path, line: Line) -> Any:
        """A store as it opens it."""
        return Mortal(PartitionStore(path) if self.bucket else self.stores.setdefault(path, FaultyStore()), line)

    def start(self, line: Line, working: Working) -> asyncio.Task[MemberResult]:
        """Its task."""
        return asyncio.get_running_loop().create_task(self.work(working))

    def web(self, line: Line) -> SimulatedWeb:
        """Its way to the web."""

        async def before(href: str) -> None:
            asked = Asked(href, self.clock())
            self.asked.append(asked)
            await asyncio.sleep(self.seconds)
            asked.end = self.clock()

        return SimulatedWeb(self.pages, before, dial=self.dial)

    async def dial(self, _: str) -> None:
        """Connect to a server."""
        await asyncio.sleep(next(self.connects))

    async def lose_power(self, working: Working, chance: random.Random) -> None:
        """End a member as a loss of power does: what it had not synced is gone, from somewhere on."""
        had = [run.job.directory / STORE for run in working.member.runs.values()]
        await working.kill()
        for path in had:
            self.stores[path] = self.stores[path].lose_power(chance)

    # -- what came of it ---------------------------------------------------------------------------------------

    def recorded(self) -> Counter[str]:
        """How often each URL is in the output, of all partitions."""
        found = Counter[str]()
        if self.bucket is not None:
            for number in range(self.partitions):
                with TemporaryDirectory() as made:
                    restore(Door(self.bucket), self.bucket.crawl.sealing, number, Path(made), Platform().disk)
                    found.update(row["url"] for row in rows(Path(made)))
            return found
        for path in (*self.directory.glob("partitions/*"), *self.directory.glob("*/partitions/*")):
            if (path / "pages.jsonl").exists():
                found.update(row["url"] for row in rows(path))
        return found

    def shortest_gap(self) -> float:
        """The shortest time between the end of a request to a host and the begin of the next one."""
        ends: dict[str, float] = {}
        gaps = [float("inf")]
        for asked in sorted(self.asked, key=lambda each: each.begin):
            host = asked.href.split("/")[2]
            if host in ends:
                gaps.append(asked.begin - ends[host])
            ends[host] = max(ends.get(host, 0.0), asked.end or asked.begin)
        return min(gaps)


class Bucket:
    """What a bucket holds."""

    def __init__(self) -> None:
        self.crawl = CrawlObject.new()
        self.held: dict[str, tuple[bytes, float]] = {CRAWL: (encode("crawl", self.crawl), 0.0)}


class Door:
    """A bucket as one process reaches it: it may be away, answers may be lost, and a dead process puts no more.
    ``answers`` says of each put whether its answer comes. ``released`` is told of partitions that are given up."""

    address = "memory:"

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.is_shut = False
        self.is_away = False
        self.latency = 0.0  # seconds
        self.answers: Iterator[bool] = repeat(True)
        self.released: Callable[[int], None] = lambda _: None

    def put(self, key: str, data: bytes) -> bool:
        self._look()
        is_new = key not in self.bucket.held
        if is_new:
            self.bucket.held[key] = data, asyncio.get_running_loop().time()
            if key.endswith("-released"):
                self.released(int(key.split("/")[1]))
        if not next(self.answers):
            raise BucketDown("no answer")
        return is_new

    def get(self, key: str) -> bytes | None:
        self._look()
        return self.bucket.held.get(key, (None, 0.0))[0]

    def list(self, prefix: str) -> Iterator[Listed]:
        self._look()
        held = dict(self.bucket.held)
        return (Listed(key, len(data), at) for key, (data, at) in held.items() if key.startswith(prefix))

    def delete(self, keys: Sequence[str]) -> None:
        self._look()
        for key in keys:
            self.bucket.held.pop(key, None)

    def _look(self) -> None:
        if self.is_shut:
            raise PowerCutError
        if self.is_away:
            raise BucketDown("the store is away")


async def through(door: Door, what: Callable[[], Any]) -> Any:
    """Ask the bucket for something, which takes a while."""
    if door.latency:
        await asyncio.sleep(door.latency)
    return what()


class MachineClock(SteadyClock):
    """The clock of a machine, which is ``ahead`` of the others."""

    def __init__(self, now: Callable[[], float], machine: str, ahead: float) -> None:
        self._now, self._ahead, self._machine = now, ahead, machine

    def __call__(self) -> float:
        return self._now() + self._ahead

    @property
    def anchor(self) -> Anchor:
        return Anchor(self._machine, self._ahead)


def chain(hosts: int, each: int = 2) -> dict[str, Answer]:
    """A web in which each page has one link, to a page of another host: one that is lost loses the rest."""
    hrefs = [f"http://h{number % hosts}.test/{number // hosts}" for number in range(hosts * each)]
    return {href: f'<a href="{after}">next</a>' for href, after in zip(hrefs, [*hrefs[1:], hrefs[0]], strict=True)}


def with_delay(settings: Settings, delay: float) -> Settings:
    """The settings with another gap."""
    return replace(settings, politeness=replace(settings.politeness, delay=delay))
