"""Lives of a small crawl with a replica, in which whole disks are lost: one seed gives one life.

The owner of the job tells its steps to a follower, late and in chunks. Now and then the owner dies with its disk, and
the follower's directory becomes the job; or the owner dies and comes back, or the follower does. Everything runs in this
process without sockets.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crawler.disk import FaultyDisk, PowerCutError
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.fetch import SimulatedWeb
from crawler.job.follower import Follower, GapError
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.kv import Batch, Family
from crawler.replica import StepCodec
from crawler.settings import Settings
from crawler.store import FaultyStore
from tests.driving import Driven
from tests.durability.power import KEEPING, Inline, on_the_wire, reachable, seeds, small_web
from tests.outputs import records
from tests.virtual import run_virtually

CODEC = StepCodec(b"the secret of a crawl")


@dataclass
class Machine:
    """A disk with a directory on it."""

    directory: Path
    disk: FaultyDisk
    store: FaultyStore = field(default_factory=FaultyStore)

    def platform(self, line: int = 0) -> Platform:
        return Platform(self.disk, lambda _: self.store, Inline, line=line)

    def burn(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self, chance: random.Random, *, loses_power: bool) -> None:
        if loses_power:
            self.disk.lose_power()
            self.store = self.store.lose_power(chance)
        self.disk = FaultyDisk(chance)


class Following:
    """The follower of a job, and what of the log is on its way to it."""

    def __init__(self, settings: Settings, machine: Machine) -> None:
        self._settings = settings
        self.machine = machine
        self._follower: Follower | None = None
        self.way: list[bytes] = []
        self.copies = 0
        self.gaps = 0

    def copy(self, job: Job) -> None:
        """Begin again with a copy of the job as it is now."""
        self.close()
        self.machine.burn()
        job.log.begin()
        self.way.clear()
        shutil.copytree(job.directory, self.machine.directory, ignore=shutil.ignore_patterns("lock"))
        store = FaultyStore()
        for family, rows in _rows(job):
            batch = Batch()
            for key, value in rows:
                batch.put(family, key, value)
            store.write(batch)
        store.sync()
        self.machine.store = store
        self.machine.disk = FaultyDisk(random.Random(1))
        self.copies += 1
        self.open()

    def open(self) -> None:
        platform = self.machine.platform()
        self._follower = Follower(self.machine.directory, platform, self._settings.output)

    def gather(self, job: Job) -> None:
        """Put what waits on its way."""
        while (chunk := job.log.take(3, 2_000)) is not None:
            self.way.append(CODEC.encode(chunk))

    def apply(self, most: int) -> None:
        """Apply so many chunks that are on their way. Raises GapError."""
        assert self._follower is not None
        for _ in range(min(most, len(self.way))):
            chunk = CODEC.decode(self.way.pop(0))
            self._follower.apply(chunk)
            self._follower.apply(chunk)  # what came twice changes nothing

    @property
    def mark(self) -> Any:
        return None if self._follower is None else self._follower.mark

    @property
    def is_open(self) -> bool:
        return self._follower is not None

    def sync(self) -> None:
        assert self._follower is not None
        self._follower.sync()

    def close(self) -> None:
        if self._follower is not None:
            self._follower.close()
            self._follower = None


def _rows(job: Job) -> Any:
    return [(family, list(job.store.rows(family))) for family in Family]


@dataclass
class Life:
    """How it went."""

    missing: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)
    burnt: int = 0
    restarted: int = 0
    copies: int = 0
    gaps: int = 0
    asked: int = 0
    directory: Path = Path()


def live(seed: int, top: Path, settings: Settings = KEEPING) -> Life:
    """One life; the last directory of its job stays."""
    chance = random.Random(seed)
    web, life, lines = small_web(chance), Life(), itertools.count(1)
    numbers, ticks = itertools.count(), itertools.count()

    def machine() -> Machine:
        return Machine(top / f"machine-{next(numbers)}" / "job", FaultyDisk(chance))

    owner, following = machine(), Following(settings, machine())
    asked: list[str] = []
    for left in reversed(range(chance.randint(1, 5))):
        dies_at = chance.randrange(1, 30) if left else None
        line = next(lines) * 1_000_003
        try:
            crawl = _Opening(chance, web, owner, following, line, dies_at, asked, settings)
            run_virtually(crawl.work(lambda: next(ticks) * 0.001))
            break
        except PowerCutError:
            fate = chance.random()
            if fate < 0.5 and following.is_open:
                with contextlib.suppress(GapError):  # it then holds an earlier state, which is as good
                    following.apply(chance.randint(0, 3))  # what had come when the owner died
                following.close()
                owner.burn()
                owner = following.machine
                owner.disk = FaultyDisk(chance)
                life.copies += following.copies
                life.gaps += following.gaps
                following = Following(settings, machine())
                life.burnt += 1
            else:
                owner.restart(chance, loses_power=fate < 0.75)
                life.restarted += 1
    following.close()
    rows = [record["url"] for record in records(owner.directory)]
    life.missing = reachable(web) ^ set(rows)
    life.twice = [url for url, times in Counter(rows).items() if times > 1]
    life.asked, life.directory = len(asked), owner.directory
    life.copies += following.copies
    life.gaps += following.gaps
    return life


@dataclass
class _Opening:
    """The job, open once."""

    chance: random.Random
    web: dict[str, Any]
    owner: Machine
    following: Following
    line: int
    dies_at: int | None
    asked: list[str]
    settings: Settings

    async def work(self, clock: Callable[[], float]) -> None:
        crawl: Run | None = None
        chance, following = self.chance, self.following

        async def before(href: str) -> None:
            self.asked.append(href)
            assert crawl is not None
            if self.dies_at is not None and len(simulated.asked) >= self.dies_at:
                raise PowerCutError
            fate = chance.random()
            if fate < 0.1:
                await crawl.job.sync()
            elif fate < 0.2:
                await crawl.job.checkpoint(0.0)
            elif fate < 0.5:
                self.follow(crawl.job, chance.randint(0, 4))

        simulated = SimulatedWeb({url: on_the_wire(answer) for url, answer in self.web.items()}, before)
        job = Job(self.owner.directory, self.settings, clock(), self.owner.platform(self.line))
        try:
            driven = Driven(job, simulated, self.settings, clock, seeds(next(iter(self.web))))
            crawl = driven.run
            assert await driven.to_the_end() is Stop.FINISHED
            self.follow(job, 1_000)
            if following.is_open:
                assert following.mark == job.log.mark
            await job.checkpoint(0.0)
            await job.sync()
        finally:
            job.close()

    def follow(self, job: Job, most: int) -> None:
        """Bring the follower forward, or make it."""
        following, chance = self.following, self.chance
        if not following.is_open:
            following.copy(job)
            return
        if job.log.has_gap:
            following.gaps += 1
            following.copy(job)
            return
        following.gather(job)
        try:
            following.apply(most)
        except GapError:
            following.gaps += 1
            following.copy(job)
            return
        if chance.random() < 0.3:
            following.sync()
        if chance.random() < 0.1:
            before = following.mark
            following.close()
            following.machine.restart(chance, loses_power=chance.random() < 0.5)
            try:
                following.open()
                if following.mark != before:
                    raise GapError("what is on its way does not follow")
            except GapError:
                following.gaps += 1
                following.copy(job)
