"""A small crawl that is copied while it runs, a piece before a page, and whose disk is then lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.disk import RealDisk
from crawler.base.settings.parts import OutputSettings, Settings
from crawler.engine.lifecycle import Stop
from crawler.inspect.integrity.left_out import fetch_left_out
from crawler.job.copy_target import CopyTarget
from crawler.job.follower import Follower
from crawler.job.found import KEEP_ALL, Router
from crawler.job.job import Job
from crawler.job.job_copy import JobCopy
from crawler.job.output.record_text import page_numbers
from crawler.job.platform import Platform
from crawler.job.replica.copy_pieces import CopyBegin, CopyEnd, HandOver, Piece
from crawler.job.replica.replica_codec import ReplicaCodec
from crawler.job.replica.step_codec import Chunk
from crawler.job.snapshot import COPYING
from crawler.web.fetch import SimulatedWeb
from tests.driving import Driven
from tests.durability.power import KEEPING, Inline, on_the_wire, reachable, seeds, small_web
from tests.faulty_disk import PowerCutError
from tests.outputs import records
from tests.virtual import run_virtually

PARTITION = 3
CODEC = ReplicaCodec(b"the secret of a crawl")
EVERYTHING = replace(KEEPING, output=OutputSettings(("warc", "links", "bodies"), 900, 1_500))
_SMALL = 4_096  # bytes in a piece


def part_of_a_copy(message: bytes) -> CopyBegin | Piece | CopyEnd:
    """The message that a target takes."""
    decoded = CODEC.decode(message)
    assert not isinstance(decoded, Chunk | HandOver)
    return decoded


@dataclass
class Copied:
    """How it went. ``pages_between``: pages that were asked for while the copy was made. ``compressed``: files of
    records that were compressed in that time. ``finished``: the pages that the replica had when it took over, of which
    ``again`` were pending again, by whether their records name parts or bodies."""

    directory: Path
    missing: set[str]
    twice: list[str]
    web: dict[str, Any]
    asked: Counter[str]
    pages_between: int
    compressed: int
    finished: dict[str, bool]
    again: int


def copied(seed: int, top: Path, settings: Settings, router: Callable[[], Router] = lambda: KEEP_ALL) -> Copied:
    """One crawl; the directory that took its place stays."""
    life = _Life(seed, top, settings, router)
    run_virtually(life.owner())
    assert not (life.directory / COPYING).exists() or not list((life.directory / COPYING).iterdir())
    shutil.rmtree(life.directory)
    promoted = top / "promoted"
    life.place.rename(promoted)
    finished = {str(record["url"]): not record.keys().isdisjoint(("kept", "body")) for record in records(promoted)}
    again = fetch_left_out(promoted, life.clock(), RealDisk())
    run_virtually(life.heir(promoted))
    rows = [record["url"] for record in records(promoted)]
    twice = [url for url, times in Counter(rows).items() if times > 1]
    asked = Counter(life.asked)
    missing = reachable(life.web) ^ set(rows)
    return Copied(promoted, missing, twice, life.web, asked, life.pages_between, life.compressed, finished, again)


class _Life:
    def __init__(self, seed: int, top: Path, settings: Settings, router: Callable[[], Router]) -> None:
        self.chance = random.Random(seed)
        self.web = small_web(self.chance)
        self.directory = top / "job"
        self.place = top / "replicas" / "03"
        self.asked: list[str] = []
        self.pages_between = 0
        self.compressed = 0
        self._settings = settings
        self._router = router
        self._ticks = itertools.count()

    def clock(self) -> float:
        return next(self._ticks) * 0.001

    def job(self, directory: Path, line: int) -> Job:
        router, platform = self._router(), Platform(RealDisk(), executor=Inline, line=line)
        return Job(directory, self._settings, self.clock(), platform, router=router)

    async def owner(self) -> None:
        begins, dies = self.chance.randrange(2, 12), asyncio.Event()
        job = self.job(self.directory, 1)
        copying = _Copying(job, self)

        async def before(href: str) -> None:
            self.asked.append(href)
            if dies.is_set():
                raise PowerCutError
            await self._disturb(job)
            if len(self.asked) >= begins and not copying.is_done:
                self.pages_between += 1
                if await copying.go_on():
                    dies.set()  # at the next page

        with closing(job):
            driven = Driven(job, self._simulated(before), self._settings, self.clock, seeds(next(iter(self.web))))
            with contextlib.suppress(PowerCutError):
                assert await driven.to_the_end() is Stop.FINISHED
            while not await copying.go_on():
                pass
            copying.follow()

    async def _disturb(self, job: Job) -> None:
        fate, pages = self.chance.random(), job.files.outputs.pages
        if fate < 0.2:
            await job.checkpoint(0.0)
        elif fate < 0.3:
            await job.sync()
        elif fate < 0.6:
            before = sum(path.suffix == ".zst" for path in page_numbers(pages.path).values())
            for step in pages.compression():
                step()
            self.compressed += sum(path.suffix == ".zst" for path in page_numbers(pages.path).values()) - before

    async def heir(self, directory: Path) -> None:
        async def before(href: str) -> None:
            self.asked.append(href)

        with closing(self.job(directory, 2)) as job:
            simulated = self._simulated(before)
            driven = Driven(job, simulated, self._settings, self.clock, seeds(next(iter(self.web))))
            assert await driven.to_the_end() is Stop.FINISHED

    def _simulated(self, before: Any) -> SimulatedWeb:
        return SimulatedWeb({url: on_the_wire(answer) for url, answer in self.web.items()}, before)

    def copy_of(self, job: Job) -> JobCopy:
        return JobCopy(job, PARTITION, CODEC, executor=Inline(), size=_SMALL)

    def follower(self, job: Job) -> Follower:
        platform = Platform(RealDisk(), executor=Inline)
        router = self._router()
        if router is not KEEP_ALL:
            platform = platform.of_partition(0, 1)
        return Follower(self.place, platform, self._settings.output)


class _Copying:
    """The copy of a job, a message at a time."""

    def __init__(self, job: Job, life: _Life) -> None:
        self.is_done = False
        self._job = job
        self._life = life
        self._copy: JobCopy | None = None
        self._one = asyncio.Lock()  # several pages are asked for at once
        self._target = CopyTarget(life.place.parent, life.place.name, RealDisk())

    async def go_on(self) -> bool:
        """Copy one piece more; whether it is the last."""
        async with self._one:
            return self.is_done or await self._go_on()

    async def _go_on(self) -> bool:
        if self._copy is None:
            self._copy = self._life.copy_of(self._job)
            await self._copy.__aenter__()
        message = await self._copy.next()
        assert message is not None
        if self._target.take(part_of_a_copy(message)):
            assert await self._copy.next() is None
            await self._copy.__aexit__(None, None, None)
            self.is_done = True
        return self.is_done

    def follow(self) -> None:
        """Apply what came since the copy began."""
        assert self._copy is not None
        follower, mark = self._life.follower(self._job), self._copy.follows
        with closing(follower):
            assert self._job.log.holds(follower.mark)
            while (chunk := self._job.log.after(mark, PARTITION, 2_000)) is not None:
                decoded = CODEC.decode(CODEC.encode(chunk))
                assert isinstance(decoded, Chunk)
                follower.apply(decoded)
                mark = chunk.reaches
            assert follower.mark == self._job.log.mark
            follower.sync()
