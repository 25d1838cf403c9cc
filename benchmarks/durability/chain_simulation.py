"""Three partitions on a virtual clock, over streams that delay, repeat, reorder and lose everything, with losses of
power of any of them at any moment: one life follows from one number.

The web is a tree: each page has one link that leads to it, mostly from a page of another partition, so that one lost
message loses all that is behind it. Pages also link to those that led to them: duplicates, which hide no loss.

Real jobs run on a disk and a store that forget what was not synced. Nothing waits for anything: in each step chance
chooses what happens. After the faults end, everything must come to rest.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import DurabilitySettings, PolitenessSettings, RobotsSettings, SeenSettings, Settings
from crawler.job.checkpointer import drive
from crawler.job.found import Found, Outlinks
from crawler.job.job import Job
from crawler.job.partition.inlet import Inlet, Verdict
from crawler.job.partition.link_batch_codec import Ack, LinkBatch, LinkBatchCodec
from crawler.job.partition.placement import Placement
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import Platform
from crawler.job.receiving import EPOCH, encode_epoch
from crawler.job.records import Outcome, PageRecord
from crawler.job.verdict import Draft
from crawler.seen.exact.recent import RecentDigests
from crawler.url.urls.canonicaliser import Canonical
from tests.chance import CHANCE
from tests.durability.power import Inline
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.faulty_store import FaultyStore

PARTITIONS = 3
NEVER = 1e9
SETTINGS = Settings(
    politeness=PolitenessSettings(delay=0.0, per_host=4),
    robots=RobotsSettings(ignore=True),
    seen=SeenSettings(kind="exact"),
    durability=DurabilitySettings(sync_interval=NEVER, checkpoint_interval=NEVER),
)
_FAST = Path("/dev/shm")  # thousands of lives open a job ten times each
CALM = 3_000  # steps after the faults within which all must come to rest


def tree(chance: random.Random) -> dict[str, list[str]]:
    """The pages and what they link to. The first one is the seed."""
    names = [f"http://h{chance.randrange(12)}.test/{number}" for number in range(chance.randint(12, 36))]
    web: dict[str, list[str]] = {name: [] for name in names}
    for number, name in enumerate(names[1:], 1):
        # The last pages mostly: long chains.
        parent = names[max(0, number - 1 - int(chance.expovariate(0.7)))]
        web[parent].append(name)
        if chance.random() < 0.3:
            web[name].append(parent)
    return web


@dataclass
class Streams:
    """What lies between the partitions: for each one a list of entries, each with the time at which it can be read.
    Entries of different senders overtake each other, and sometimes those of one do."""

    chance: random.Random
    entries: dict[int, list[tuple[float, bytes]]] = field(default_factory=lambda: {i: [] for i in range(PARTITIONS)})
    cut_off: set[int] = field(default_factory=set)  # partitions that can neither append nor read
    faulty: bool = True

    def append(self, sender: int, target: int, data: bytes, now: float) -> bool:
        """False: the sender learns that it did not work, and it may have worked."""
        chance, lost = self.chance, sender in self.cut_off
        if lost:
            return False
        fate = chance.random() if self.faulty else 1.0
        if fate < 0.06:
            return True  # acknowledged and lost
        delay = chance.choice((0.0, 0.0, 0.5, 3.0, 40.0)) if self.faulty else 0.0
        at = chance.randint(0, len(self.entries[target])) if fate < 0.12 else len(self.entries[target])
        self.entries[target].insert(at, (now + delay, data))
        if fate > 0.9 and self.faulty:
            self.entries[target].append((now + delay + chance.random() * 20, data))
        return not (0.12 < fate < 0.15)

    def read(self, target: int, now: float) -> list[bytes]:
        """What can be read now; some of it stays, and is read again."""
        if target in self.cut_off:
            return []
        ready = [each for each in self.entries[target] if each[0] <= now]
        stay = self.faulty and self.chance.random() < 0.15
        if not stay:
            self.entries[target] = [each for each in self.entries[target] if each[0] > now]
        return [data for _, data in ready]

    def go_wrong(self) -> None:
        """One fault of the whole: everything is lost, or the tail of a stream, or somebody is cut off for a while."""
        chance, fate = self.chance, self.chance.random()
        if fate < 0.2:
            for entries in self.entries.values():
                entries.clear()
        elif fate < 0.5:
            entries = self.entries[chance.randrange(PARTITIONS)]
            del entries[len(entries) - chance.randint(0, len(entries)) :]
        else:
            self.cut_off ^= {chance.randrange(PARTITIONS)}

    def heal(self) -> None:
        self.faulty = False
        self.cut_off.clear()

    @property
    def is_empty(self) -> bool:
        return not any(self.entries.values())


class Planted:
    """The right way to do the things that a planted fault does wrong."""

    def after_sending(self, member: Member, link_batches: list[LinkBatch], now: float) -> None:
        """The carrier says that it has the batches: that proves nothing."""

    def acks(self, job: Job) -> list[Ack]:
        return job.due_acks()

    def next_epoch(self, job: Job, greatest: int) -> int:
        return max(job.epoch, greatest) + 1

    def router(self, number: int, placement: Placement) -> PartitionRouter:
        return PartitionRouter(number, placement)

    def opened(self, job: Job) -> None:
        """The job was opened."""


RIGHT = Planted()


class RemovedWhenTheCarrierHasIt(Planted):
    def after_sending(self, member: Member, link_batches: list[LinkBatch], now: float) -> None:
        member.job.acknowledged([Ack(*link_batch[:4]) for link_batch in link_batches], now)


class AcknowledgedBeforeItIsDurable(Planted):
    def acks(self, job: Job) -> list[Ack]:
        assert job.partition is not None
        return job.partition.inlet.acks(job.writer.commits)


class TheSameEpochAgain(Planted):
    def next_epoch(self, job: Job, greatest: int) -> int:
        return 1


class _AnyEpoch(Inlet):
    """Takes a greater and an older epoch alike."""

    def judge(self, link_batch: LinkBatch) -> Verdict:
        verdict = super().judge(link_batch)
        return Verdict.ADMITTED if verdict is Verdict.STALE and link_batch.number == 1 else verdict


class OlderEpochsAccepted(Planted):
    def opened(self, job: Job) -> None:
        assert job.partition is not None
        job.partition.inlet = _AnyEpoch(job.store, job.partition.me, PARTITIONS)


class _RowFirst(Inlet):
    """Writes its row in a batch before that of the transaction."""

    job: Job

    def admitted(self, link_batch: LinkBatch, batch: Batch, transaction: int) -> None:
        own = Batch()
        super().admitted(link_batch, own, transaction)
        self.job.store.write(own)


class InletRowsInABatchBefore(Planted):
    def opened(self, job: Job) -> None:
        assert job.partition is not None
        job.partition.inlet = inlet = _RowFirst(job.store, job.partition.me, PARTITIONS)
        inlet.job = job


class _Forgetful(Inlet):
    """Keeps its rows in memory."""

    def admitted(self, link_batch: LinkBatch, batch: Batch, transaction: int) -> None:
        super().admitted(link_batch, Batch(), transaction)


class InletInMemory(Planted):
    def opened(self, job: Job) -> None:
        assert job.partition is not None
        job.partition.inlet = _Forgetful(job.store, job.partition.me, PARTITIONS)


class OutboxInMemory(Planted):
    """What waits is forgotten when the job is opened."""

    def opened(self, job: Job) -> None:
        assert job.partition is not None
        batch = Batch()
        batch.delete_range(Family.OUTBOX, b"", b"\xff")
        job.store.write(batch)
        job.partition.load(job.store, job.counters)


class SentIsRemembered(Planted):
    """The cache of what was sent outlives the process, and so transactions that were lost."""

    def __init__(self) -> None:
        self._memos: dict[int, RecentDigests | None] = {}

    def router(self, number: int, placement: Placement) -> PartitionRouter:
        router = PartitionRouter(number, placement)
        router.sent = self._memos.setdefault(number, router.sent)
        return router


FAULTS: dict[str, Callable[[], Planted]] = {
    "a row goes when the carrier has it": RemovedWhenTheCarrierHasIt,
    "a batch is acknowledged before it is durable": AcknowledgedBeforeItIsDurable,
    "an epoch is used again": TheSameEpochAgain,
    "an older epoch is accepted": OlderEpochsAccepted,
    "the row of the inlet is written before": InletRowsInABatchBefore,
    "the inlet is in memory": InletInMemory,
    "the outbox is in memory": OutboxInMemory,
    "the sent cache outlives its process": SentIsRemembered,
}


@dataclass
class Life:
    """How it went. ``stuck``: it did not come to rest."""

    pages: int
    cuts: int
    kills: int
    repeated: int
    missing: set[str]
    twice: list[str]
    astray: list[str]
    stuck: bool

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.twice or self.astray or self.stuck)


class Member:
    """One partition, its disk and its store, through all its lives."""

    def __init__(self, directory: Path, number: int, world: World) -> None:
        self._directory = directory / str(number)
        self.number = number
        self._world = world
        self._disk: FaultyDisk | None = None
        self._store = FaultyStore()
        self.greatest = 0  # epoch that was claimed
        self.open()

    def open(self) -> None:
        """Begin a life. With bad luck the power is lost before it has begun."""
        world, chance = self._world, self._world.chance
        while True:
            if self._disk is None:
                cut = chance.randrange(1, 120) if world.faulty and chance.random() < 0.3 else None
                self._disk = FaultyDisk(chance, cut_after=cut)
            platform = Platform(self._disk, lambda _: self._store, Inline)
            try:
                router = world.planted.router(self.number, world.placement)
                self.job = Job(self._directory, SETTINGS, world.now, platform, router=router)
            except PowerCutError:
                self._lose()
                continue
            try:
                world.planted.opened(self.job)
                self._begin()
                return
            except PowerCutError:
                self.lose_power(reopen=False)

    def _begin(self) -> None:
        job = self.job
        self.greatest = epoch = self._world.planted.next_epoch(job, self.greatest)
        with job.writer as transaction:
            transaction.batch.put(Family.META, EPOCH, encode_epoch(epoch))
        drive(job.checkpointer.sync())
        assert job.partition is not None
        job.partition.outbox.renumber(epoch)
        if self.number == 0:
            job.admit(Found([Canonical(self._world.seed, self._world.seed)], 0, seed=True))

    def lose_power(self, *, reopen: bool = True) -> None:
        self.job.close()
        self._lose()
        if reopen:
            self.open()

    def _lose(self) -> None:
        assert self._disk is not None
        self._world.cuts += 1
        self._disk.lose_power()
        self._disk = None
        self._store = self._store.lose_power(self._world.chance)

    def kill(self) -> None:
        """As by SIGKILL: what was written stays."""
        self._world.kills += 1
        self.job.close()
        self.open()

    # -- what it does

    def visit(self) -> None:
        job, world = self.job, self._world
        lease = job.frontier.take(world.now)
        if lease is None or lease.entry is None:
            return
        links = [Canonical(href, href) for href in world.web[lease.entry.href]]
        record = PageRecord(lease.entry, Outcome.FETCHED, world.now, 200)
        job.finish(lease, Draft(record, links=Outlinks(len(links), links)), world.now)

    def send(self) -> None:
        assert self.job.partition is not None
        outbox, now = self.job.partition.outbox, self._world.now
        link_batches = outbox.gather(now, self._world.chance.choice((1, 100, 100_000))) + outbox.due(now)
        sent = [link_batch for link_batch in link_batches if self._post(link_batch.target, link_batch)]
        self._world.planted.after_sending(self, sent, now)

    def _post(self, target: int, link_batch: LinkBatch | Ack) -> bool:
        return self._world.streams.append(self.number, target, self._world.codec.encode(link_batch), self._world.now)

    def receive(self) -> None:
        world = self._world
        for data in world.streams.read(self.number, world.now):
            link_batch = world.codec.decode(data)
            if isinstance(link_batch, Ack):
                self.job.acknowledged([link_batch], world.now)
            else:
                (receipt,) = self.job.receive([link_batch], world.now)
                world.repeated += receipt.verdict is Verdict.REPEATED

    def acknowledge(self) -> None:
        for ack in self._world.planted.acks(self.job):
            self._post(ack.sender, ack)

    def sync(self) -> None:
        drive(self.job.checkpointer.sync())

    def checkpoint(self) -> None:
        drive(self.job.checkpointer.checkpoint(self._world.now))

    @property
    def is_idle(self) -> bool:
        return (
            self.job.frontier.queued == 0 and self.job.partition.outbox.is_empty and not self.job.writer.in_transaction
        )

    def finished(self) -> list[str]:
        return [json.loads(line)["url"] for line in (self._directory / "pages.jsonl").read_bytes().splitlines()]


class World:
    """One simulation."""

    def __init__(self, seed: int, planted: Planted) -> None:
        CHANCE.seed(seed)
        self.chance = random.Random(seed)
        self.planted = planted
        self.now = 0.0
        self.faulty = True
        self.cuts = self.kills = self.repeated = 0
        self.web = tree(self.chance)
        self.seed = next(iter(self.web))
        self.placement = Placement(self.chance.randbytes(16), PARTITIONS)
        self.codec = LinkBatchCodec(self.placement.secret)
        self.streams = Streams(self.chance)

    def live(self, directory: Path) -> Life:
        members = [Member(directory, number, self) for number in range(PARTITIONS)]
        try:
            for _ in range(self.chance.randint(60, 400)):
                self._step(self.chance.choice(members))
            self.faulty = False
            self.streams.heal()
            rested = self._come_to_rest(members)
            for member in members:
                member.sync()
            return self._life(members, stuck=not rested)
        finally:
            for member in members:
                member.job.close()

    def _step(self, member: Member) -> None:
        chance = self.chance
        self.now += chance.choice((0.0, 0.01, 0.1, 1.0, 5.0))
        fate = chance.random()
        try:
            if fate < 0.02:
                member.lose_power()
            elif fate < 0.03:
                member.kill()
            elif fate < 0.06:
                self.streams.go_wrong()
            elif fate < 0.07:
                member.checkpoint()
            elif fate < 0.15:
                member.sync()
            else:
                act = chance.choice((member.visit, member.send, member.receive, member.acknowledge))
                act()
        except PowerCutError:
            member.lose_power()

    def _come_to_rest(self, members: list[Member]) -> bool:
        for _ in range(CALM):
            self.now += 1.0
            for member in members:
                try:
                    member.visit()
                    member.send()
                    member.receive()
                    member.sync()
                    member.acknowledge()
                except PowerCutError:
                    member.lose_power()
            if all(member.is_idle for member in members) and self.streams.is_empty:
                return True
        return False

    def _life(self, members: list[Member], *, stuck: bool) -> Life:
        finished = [(url, member.number) for member in members for url in member.finished()]
        times = Counter(url for url, _ in finished)
        admitted = sum(member.job.counters.urls_admitted for member in members)
        astray = [url for url, number in finished if self.placement.of(url) != number]
        twice = [url for url, number in times.items() if number > 1]
        if not twice and admitted > len(self.web):
            twice = [f"{admitted} of {len(self.web)} admitted"]
        return Life(
            len(self.web), self.cuts, self.kills, self.repeated, self.web.keys() ^ times.keys(), twice, astray, stuck
        )


def live(seed: int, planted: Planted = RIGHT) -> Life:
    """One life; the same number gives the same life."""
    directory = Path(tempfile.mkdtemp(prefix="chain-", dir=_FAST if _FAST.is_dir() else None))
    try:
        return World(seed, planted).live(directory)
    finally:
        shutil.rmtree(directory)
