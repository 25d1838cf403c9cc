"""Lives of a small crawl with replicas, in which whole disks are lost: one seed gives one life.

The owner of the job tells its steps to two followers, late and in chunks, some of which are lost. Now and then the
owner dies with its disk, and a follower's directory becomes the job; or the owner dies and comes back, or a follower
does. Everything runs in this process without sockets.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crawler.base.disk import RealDisk
from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import Settings
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.job.checkpoint.generations import Generations
from crawler.job.checkpoint.renewal import Renewal
from crawler.job.directory import PAGES, SEEN
from crawler.job.follower import Follower, GapError
from crawler.job.identity import read_identity
from crawler.job.job import Job
from crawler.job.kept_steps import KeptSteps
from crawler.job.output.record_text import open_text
from crawler.job.platform import Platform
from crawler.job.records import DIGEST_SIZE
from crawler.job.recovery import SeenSpec, restore_seen
from crawler.job.replica.replica_codec import ReplicaCodec
from crawler.job.replica.step_codec import START, Mark
from crawler.web.fetch import SimulatedWeb
from tests.driving import Driven
from tests.durability.power import KEEPING, Inline, on_the_wire, reachable, seeds, small_web
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.faulty_store import FaultyStore
from tests.outputs import records
from tests.virtual import run_virtually

CODEC = ReplicaCodec(b"the secret of a crawl")
KEEPS = (0, 2_000, 1_000_000)  # bytes of steps that a follower keeps for the others
RENEWAL = Renewal(few_bytes=0, bytes_per_key=1, most_keys=20)  # the seen-set is stored by some generations


@dataclass
class Machine:
    """A disk with a directory on it."""

    directory: Path
    disk: FaultyDisk
    store: FaultyStore = field(default_factory=FaultyStore)
    followed: KeptSteps | None = None  # what it got last as a replica

    def platform(self, line: int = 0) -> Platform:
        followed, self.followed = self.followed, None
        return Platform(self.disk, lambda _: self.store, Inline, line=line, followed=followed, renewal=RENEWAL)

    def burn(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self, chance: random.Random, *, loses_power: bool) -> None:
        if loses_power:
            self.disk.lose_power()
            self.store = self.store.lose_power(chance)
        self.disk = FaultyDisk(chance)


class Following:
    """A follower of a job, and what of the log is on its way to it."""

    def __init__(self, settings: Settings, machine: Machine, keeps: int = 0) -> None:
        """``keeps``: bytes of the last steps, for the other followers."""
        self._settings = settings
        self._keeps = keeps
        self.machine = machine
        self._follower: Follower | None = None
        self._way: list[bytes] = []
        self._told: Mark | None = None  # the last step that was put on its way
        self.copies = 0
        self.resent = 0
        self.kept = 0

    def copy(self, job: Job) -> None:
        """Begin again with a copy of the job as it is now."""
        self.close()
        self.machine.burn()
        job.log.keep()
        self._way.clear()
        self._told = None
        shutil.copytree(job.directory, self.machine.directory, ignore=shutil.ignore_patterns("lock"))
        store = FaultyStore()
        for family in Family:
            batch = Batch()
            for key, value in job.store.rows(family):
                batch.put(family, key, value)
            store.write(batch)
        store.sync()
        self.machine.store = store
        self.machine.disk = FaultyDisk(random.Random(1))
        self.copies += 1
        self.open()

    def open(self) -> None:
        """Go on with the directory as it is, and tell the owner its mark. Raises GapError."""
        self._told = None
        self._follower = Follower(self.machine.directory, self.machine.platform(), self._settings.output)
        self._follower.keep(self._keeps)

    def gather(self, job: Job) -> None:
        """Put on their way the steps that are not. Raises GapError."""
        if self._told is None or not job.log.holds(self._told):
            self._told = self.mark
            self._way.clear()
        if not job.log.holds(self._told):
            raise GapError("the steps after its state are not kept")
        self.kept += self._told.number < job.log.mark.number - job.writer.commits
        while (chunk := job.log.after(self._told, 3, 2_000)) is not None:
            self._way.append(CODEC.encode(chunk))
            self._told = chunk.reaches

    def lose(self, chance: random.Random) -> None:
        """Lose a chunk that is on its way."""
        if self._way:
            self._way.pop(chance.randrange(len(self._way)))

    def apply(self, most: int) -> None:
        """Apply so many chunks that are on their way; if they do not follow, the owner sends again from its mark."""
        assert self._follower is not None
        for _ in range(min(most, len(self._way))):
            chunk = CODEC.decode(self._way.pop(0))
            try:
                self._follower.apply(chunk)
            except GapError:
                self._told = None
                self._way.clear()
                self.resent += 1
                return
            self._follower.apply(chunk)  # what came twice changes nothing

    @property
    def mark(self) -> Mark:
        assert self._follower is not None
        return self._follower.mark

    @property
    def is_open(self) -> bool:
        return self._follower is not None

    def sync(self) -> None:
        assert self._follower is not None
        self._follower.sync()

    def checkpoint(self, chance: random.Random) -> None:
        """Write a generation. Now and then its power is cut meanwhile."""
        if cuts := chance.random() < 0.3:
            self.close()
            self.machine.disk = FaultyDisk(chance, cut_after=chance.randrange(30))
        loses_power = False
        try:
            if cuts:
                self.open()
            assert self._follower is not None
            assert self._follower.checkpoint(1e9) == []
        except PowerCutError:
            loses_power = True
        if cuts:
            self.close()
            self.machine.restart(chance, loses_power=loses_power)
            self.open()

    def close(self) -> None:
        if self._follower is not None:
            self.machine.followed = self._follower.close()
            self._follower = None


@dataclass
class Life:
    """How it went. ``broken``: what was promised and is not there after the disk was lost.
    ``unseen``: admitted keys that the seen-set did not know when a replica became the job."""

    missing: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    unseen: int = 0
    burnt: int = 0
    kept: int = 0  # followers that went on with steps which their new owner had got as a follower
    restarted: int = 0
    copies: int = 0
    resent: int = 0
    asked: int = 0
    finished: int = 0
    directory: Path = Path()


def live(seed: int, top: Path, settings: Settings = KEEPING, readers: int = 2) -> Life:
    """One life of a job with so many replicas; the last directory of its job stays."""
    chance = random.Random(seed)
    web, life, lines = small_web(chance), Life(), itertools.count(1)
    numbers, ticks = itertools.count(), itertools.count()

    def machine() -> Machine:
        return Machine(top / f"machine-{next(numbers)}" / "job", FaultyDisk(chance))

    owner, all_following = machine(), [Following(settings, machine(), chance.choice(KEEPS)) for _ in range(readers)]
    asked: list[str] = []
    for left in reversed(range(chance.randint(1, 5))):
        dies_at = chance.randrange(1, 30) if left else None
        line = next(lines) * 1_000_003
        crawl = _Opening(chance, web, owner, all_following, line, dies_at, asked, settings)
        try:
            run_virtually(crawl.work(lambda: next(ticks) * 0.001))
            break
        except PowerCutError:
            whole = [each for each in all_following if each.is_open]
            fate = chance.random()
            if fate < 0.5 and whole:
                for each in whole:
                    each.apply(chance.randint(0, 3))  # what had come when the owner died
                chosen = chance.choice(whole)
                if chosen.mark.number < crawl.promised.number:
                    life.broken.append(f"{crawl.promised} was promised, and {chosen.mark} is left")
                chosen.close()
                owner.burn()
                owner = chosen.machine
                owner.disk = FaultyDisk(chance)
                if not _text(owner.directory).startswith(crawl.text):
                    life.broken.append("records that were told are gone")
                life.unseen += unseen(owner, settings)
                _count(life, chosen)
                all_following[all_following.index(chosen)] = Following(settings, machine(), chance.choice(KEEPS))
                life.burnt += 1
            else:
                owner.restart(chance, loses_power=fate < 0.75)
                life.restarted += 1
    for each in all_following:
        each.close()
        _count(life, each)
    rows = [record["url"] for record in records(owner.directory)]
    life.unseen += unseen(owner, settings)
    life.missing = reachable(web) ^ set(rows)
    life.twice = [url for url, times in Counter(rows).items() if times > 1]
    life.asked, life.finished, life.directory = len(asked), len(rows), owner.directory
    return life


def unseen(machine: Machine, settings: Settings) -> int:
    """How many keys of the journal the job would not know if it was opened now; and by how many keys its seen-set
    counts wrong."""
    generations, store = Generations(machine.directory / SEEN, 2, RealDisk()), machine.store
    spec = SeenSpec(settings.seen, read_identity(machine.directory).hash)
    seen = restore_seen(generations, store, spec).seen
    digests = b"".join(value for _, value in store.rows(Family.ADMITTED))
    return seen.might_contain_digests(digests).count(False) + abs(len(seen) - len(digests) // DIGEST_SIZE)


def _text(directory: Path) -> bytes:
    with open_text(directory / PAGES) as text:
        return text.read()


def _count(life: Life, following: Following) -> None:
    life.copies += following.copies
    life.resent += following.resent
    life.kept += following.kept


@dataclass
class _Opening:
    """The job, open once."""

    chance: random.Random
    web: dict[str, Any]
    owner: Machine
    all_following: list[Following]
    line: int
    dies_at: int | None
    asked: list[str]
    settings: Settings
    promised: Mark = START  # the last step that others rely on
    text: bytes = b""  # the records that they were told

    async def work(self, clock: Callable[[], float]) -> None:
        crawl: Run | None = None
        chance, checkpointing = self.chance, asyncio.Lock()

        async def before(href: str) -> None:
            self.asked.append(href)
            assert crawl is not None
            if self.dies_at is not None and len(simulated.asked) >= self.dies_at:
                self.note(crawl.job)
                raise PowerCutError
            fate = chance.random()
            if fate < 0.1:
                await crawl.job.sync()
            elif fate < 0.2:
                async with checkpointing:  # a crawl never writes two at once
                    await crawl.job.checkpoint(0.0)
            elif fate < 0.5:
                self.follow(crawl.job, chance.randint(0, 4))

        simulated = SimulatedWeb({url: on_the_wire(answer) for url, answer in self.web.items()}, before)
        with closing(Job(self.owner.directory, self.settings, clock(), self.owner.platform(self.line))) as job:
            driven = Driven(job, simulated, self.settings, clock, seeds(next(iter(self.web))))
            crawl = driven.run
            assert await driven.to_the_end() is Stop.FINISHED
            self.follow(job, 1_000)
            self.follow(job, 1_000)  # what was lost on the way is sent again
            assert all(each.mark == job.log.mark for each in self.all_following)
            assert job.replicated == job.writer.commits
            assert not job.log.size
            await job.checkpoint(0.0)
            await job.sync()

    def follow(self, job: Job, most: int) -> None:
        """Bring the followers forward, or make them; the job hears what all of them have."""
        if self.chance.random() < 0.03:
            job.log.drop()
        for following in self.all_following:
            try:
                self._bring(following, job, most)
            except GapError:
                following.copy(job)
        mark = min((each.mark for each in self.all_following), key=lambda mark: mark.number)
        job.log.forget(mark)
        job.replicas_hold(mark)

    def _bring(self, following: Following, job: Job, most: int) -> None:
        chance = self.chance
        if not following.is_open:
            following.copy(job)
        following.gather(job)
        if chance.random() < 0.1 and most < 1_000:
            following.lose(chance)
        following.apply(most)
        if chance.random() < 0.3:
            following.sync()
        if chance.random() < 0.3:
            following.checkpoint(chance)
            following.gather(job)
            following.apply(most)
        if chance.random() < 0.1:
            following.close()
            following.machine.restart(chance, loses_power=chance.random() < 0.5)
            following.open()
            following.gather(job)
            following.apply(1_000)

    def note(self, job: Job) -> None:
        """What the job has promised when it dies."""
        if job.replicated is not None:
            begun = job.log.mark.number - job.writer.commits
            self.promised = Mark(self.line, begun + job.durable)
            self.text = _text(job.directory)[: job.durable_end or 0]
