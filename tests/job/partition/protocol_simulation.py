"""The protocol between partitions alone, without jobs, files or an event loop, so that a life takes a few milliseconds:
the outboxes, inlets, routers and rounds of the end are the real ones, and so is what the carrier holds. One life
follows from one number.

Processes own partitions by claims, visit the pages of a small web, tell each other what they find, and look for the
end. Chance kills them, takes their power, stops them for longer than their claims hold, and cuts them off; calls to the
carrier are lost, done without an answer, done twice or late; and the carrier forgets all, a part, the end of a stream,
or some seconds of everything. In every other life each process has a disk of its own that may burn: then each partition
has a replica in another process, which is promoted when its owner is gone, while that one may only be stopped.

The last faults over, the crawl must come to its end; and whenever it ends, nothing may be left anywhere.
"""

from __future__ import annotations

import copy
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeVar

from crawler.base.carrier.memory_carrier import Holdings
from crawler.base.carrier.verbs import START, CarrierError, Position, StaleEpochError
from crawler.base.kv import Batch, Family
from crawler.cluster.ownership import ASKED, HELD, name_of, names_of
from crawler.cluster.replica_slots import REPLICAS
from crawler.job.found import Found
from crawler.job.metrics.catalogue import Counters
from crawler.job.partition.end_rounds import EndRounds, Status, decode_announcement, decode_status, encode
from crawler.job.partition.inlet import Verdict, decode_row
from crawler.job.partition.link_batch_codec import Ack, LinkBatch, LinkBatchCodec
from crawler.job.partition.placement import Placement
from crawler.job.partition.router import PartitionRouter
from crawler.job.receiving import EPOCH, Receipt, decode_epoch, encode_epoch, read_content
from crawler.url.urls.canonicaliser import Canonical
from tests.memory_store import MemoryStore

T = TypeVar("T")

CALM = 400  # rounds without faults in which a crawl must end
SILENT = 10.0  # seconds after which a replica that is not heard of is waited for no more, or an owner replaced
SECRET = b"of the partitions of a simulated crawl"
CODEC = LinkBatchCodec(SECRET)
SCOPE, SEEDS, STEP = b"scope/", b"seeds", b"step"  # keys of META
END, STATUS, CRAWL = "end", "status", "crawl"
KINDS = ("early end", "end", "scope", "twice", "asked again", "fence", "inlet", "error")  # of what must not be


def web_of(chance: random.Random) -> dict[str, list[str]]:
    """The pages and what they link to. The first one is the seed. Each has one page that leads to it, mostly of another
    host, so that one lost link loses all that is behind it."""
    hosts = chance.randint(2, 9)
    names = [f"http://h{chance.randrange(hosts)}.test/{number}" for number in range(chance.randint(4, 40))]
    web: dict[str, list[str]] = {name: [] for name in names}
    for number, name in enumerate(names[1:], 1):
        parent = names[max(0, number - 1 - int(chance.expovariate(0.7)))]
        web[parent].append(name)
        if chance.random() < 0.3:
            web[name].append(parent)
    return web


class Disk(MemoryStore):
    """What one machine has of a partition. ``mark`` is the last step in it: a line of steps, and a number in it."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        self.durable = 0  # of these

    def write(self, batch: Batch) -> None:
        super().write(batch)
        self.batches.append(batch)

    def sync(self) -> None:
        self.durable = len(self.batches)

    def first(self, batches: int) -> Disk:
        """A disk with so many of the batches, durably."""
        found = Disk()
        for batch in self.batches[:batches]:
            found.write(batch)
        found.sync()
        return found

    @property
    def mark(self) -> bytes:
        return self.get(Family.META, STEP) or b""

    @property
    def epoch(self) -> int:
        return decode_epoch(self.get(Family.META, EPOCH))

    def hrefs(self, family: Family) -> set[str]:
        return {key.decode() for key, _ in self.rows(family)}


@dataclass
class Replica:
    """What another process has of a partition. While it is ``copied``, its disk is not whole."""

    process: int
    disk: Disk | None = None
    copied: tuple[Disk, bytes, int] | None = None  # what is on its way: a disk, of which line, up to which step

    def apply(self, log: Log, first: int, steps: Sequence[Batch]) -> None:
        """Take steps of the line that it follows, the first of which has that number."""
        assert self.disk is not None
        has = log.held(self.disk)
        for number, batch in enumerate(steps, first):
            if has is not None and number == has + 1:
                self.disk.write(batch)
                has = number
        self.disk.sync()


def _mark(line: bytes, number: int) -> bytes:
    return line + number.to_bytes(8, "big")


def _number(mark: bytes) -> int:
    return int.from_bytes(mark[8:], "big")


class Part:
    """A partition that is open in a process. Steps are what it has written since: the log has all of them."""

    def __init__(self, process: Process, number: int, disk: Disk) -> None:
        self.process, self.number, self.disk = process, number, disk
        self.name = name_of(number)
        self.router = PartitionRouter(number, process.world.placement, sent_bytes=4096)
        self.router.load(disk, Counters())
        self.pending = sorted(disk.hrefs(Family.PENDING))
        self.is_rising = True
        self.commits = self.durable = 0
        self.read_to: Position = START
        self.read: deque[tuple[int, Position]] = deque()
        self.log = Log(disk.mark, process.world.chance.randbytes(8))

    # -- what it writes

    def write(self, batch: Batch) -> None:
        """A step."""
        world = self.process.world
        for family, key, value, _ in batch.changes:
            if family is Family.INLET and value is not None:
                before = self.disk.get(family, key)
                if before is not None and decode_row(key, value) <= decode_row(key, before):
                    world.witness.complain("inlet", f"{decode_row(key, value)} after {decode_row(key, before)}")
        self.commits += 1
        batch.put(Family.META, STEP, _mark(self.log.line, self.commits))
        self.disk.write(batch)
        self.log.steps.append(batch)

    def sync(self) -> None:
        self.disk.sync()
        self.durable = self.commits

    @property
    def promised(self) -> int:
        """The steps on which others may rely."""
        held = self.log.replicated
        return self.durable if held is None else min(self.durable, held)

    def admit(self, found: Found, batch: Batch) -> None:
        for url in self.router.ours(found, batch):
            key = url.href.encode()
            if all(self.disk.get(family, key) is None for family in (Family.PENDING, Family.DONE)):
                if url.href not in self.pending:
                    self.pending.append(url.href)
                batch.put(Family.PENDING, key, b"")

    def rise(self, epoch: int) -> None:
        """Begin an epoch durably, and let all streams know it. Raises CarrierError, StaleEpochError."""
        batch = Batch()
        batch.put(Family.META, EPOCH, encode_epoch(epoch))
        self.write(batch)
        self.sync()
        self.router.outbox.renumber(epoch)
        holdings, name = self.process.world.holdings, self.name
        for stream in names_of(self.router.outbox.targets):
            self.process.call(lambda stream=stream: holdings.append(stream, name, epoch, []))
        if self.number == 0 and self.disk.get(Family.META, SEEDS) is None:
            batch, seed = Batch(), self.process.world.seed
            batch.put(Family.META, SEEDS, b"")
            self.admit(Found([Canonical(seed, seed)], 0, seed=True), batch)
            self.write(batch)
        self.is_rising = False

    def visit(self) -> None:
        world = self.process.world
        if self.is_rising or not self.pending or not self.process.may_ask(self.name):
            return
        for other in world.processes:
            if other is not self.process and self.number in other.parts and other.may_ask(self.name):
                world.witness.complain("fence", f"two processes ask for partition {self.number}")
        href = self.pending.pop(world.chance.randrange(len(self.pending)))
        batch = Batch()
        batch.delete(Family.PENDING, href.encode())
        batch.put(Family.DONE, href.encode(), b"")
        if self.disk.get(Family.DONE, href.encode()) is not None:
            world.witness.complain("twice", href)
        world.witness.asks(href, self.number)
        links = [Canonical(link, link) for link in world.web[href]]
        self.admit(Found(links, 1, href, found_at=world.now), batch)
        if href in world.widens:
            batch.put(Family.META, SCOPE + href.encode(), b"")
            self.router.tell_widened([href], batch)
        self.write(batch)

    # -- what it tells others

    def send(self) -> None:
        """Send what is due. Raises CarrierError, StaleEpochError."""
        outbox, world = self.router.outbox, self.process.world
        if self.is_rising:
            return
        some = outbox.due(world.now) + outbox.gather(world.now, world.chance.choice((1, 200, 100_000)))
        for link_batch in some:
            self._tell(link_batch.target, link_batch)

    def acknowledge(self) -> None:
        """Acknowledge what others may rely on. Raises CarrierError, StaleEpochError."""
        if not self.is_rising:
            for ack in self.router.inlet.acks(self.promised):
                self._tell(ack.sender, ack)

    def _tell(self, target: int, what: LinkBatch | Ack) -> None:
        holdings, name, epoch = self.process.world.holdings, self.name, self.router.outbox.epoch
        if target in self.process.parts:
            self.process.next_door.append((target, what))
        else:
            entries = [] if self.process.world.loses() else [CODEC.encode(what)]
            self.process.call(lambda: holdings.append(name_of(target), name, epoch, entries))

    # -- what others tell it

    def receive(self) -> None:
        """Read its stream, and drop of it what is no longer needed. Raises CarrierError."""
        world, holdings = self.process.world, self.process.world.holdings
        again = world.is_faulty and world.chance.random() < 0.05
        after = {self.name: START if again else self.read_to}
        most = world.chance.choice((1, 3, 100))
        for entry in self.process.call(lambda: holdings.read(after, most)).get(self.name, ()):
            self.take(CODEC.decode(entry.data))
            self.read_to = entry.position
            self.read.append((self.commits, entry.position))
        position = None
        while self.read and self.read[0][0] <= self.promised:
            position = self.read.popleft()[1]
        if position is not None:
            self.process.call(lambda upto=position: holdings.trim(self.name, upto))

    def take(self, what: Any) -> None:
        batch, now = Batch(), self.process.world.now
        if isinstance(what, Ack):
            if self.router.outbox.is_news(what):
                self.router.outbox.acknowledged(what, now, batch)
                self.write(batch)
            return
        if self.router.inlet.judge(what) is not Verdict.ADMITTED:
            return
        content = read_content(what, now)
        assert not isinstance(content, Receipt)
        for found in content.found:
            self.admit(found, batch)
        for widened in content.widened:
            for href in widened.hrefs:
                batch.put(Family.META, SCOPE + href.encode(), b"")
        self.router.inlet.admitted(what, batch, self.commits + 1)
        self.write(batch)

    # -- the end

    @property
    def is_at_rest(self) -> bool:
        return not self.pending and not self.is_rising and self.promised == self.commits

    def answer(self, asked: str) -> None:
        """Say how it is. Raises CarrierError."""
        holdings, outbox = self.process.world.holdings, self.router.outbox
        (last,) = self.process.call(lambda: holdings.last([self.name]))
        before = self.read_to
        if last not in (START, before) and not self.process.call(lambda: holdings.read({self.name: before}, 1)):
            self.read_to = last
        if not self.process.may_ask(self.name):
            return
        is_sent = not outbox.waiting() and outbox.is_empty
        status = encode(Status(asked, outbox.epoch, self.commits, self.is_at_rest, is_sent, self.read_to))
        self.process.call(lambda: holdings.put(self.name, {STATUS: status}))


@dataclass
class Log:
    """The steps of an open partition since ``base``, the mark of the disk when it was opened. ``replicated``: how many
    its replica has written; None: there is none on which anything waits."""

    base: bytes
    line: bytes
    steps: list[Batch] = field(default_factory=list)
    sent: int = 0  # of these, to the replica
    replicated: int | None = None
    is_alone: bool = False  # all others know that
    is_leaving: bool = False  # they may learn it at any moment: that was said, and not answered
    heard_at: float = 0.0

    def held(self, disk: Disk) -> int | None:
        """How many of the steps a replica has; None: it has not what was before them, or more."""
        if disk.mark[:8] == self.line:
            return _number(disk.mark)
        return 0 if disk.mark == self.base else None


class Process:
    """A process: its claims, each with its epoch and when its last renewal began, and the partitions open in it."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        world.witness.counts["processes"] += 1
        self.holder = f"m{number}.{world.witness.counts['processes']}"
        self.claims: dict[str, tuple[int, float]] = {}
        self.parts: dict[int, Part] = {}
        self.next_door: list[tuple[int, LinkBatch | Ack]] = []
        self.stopped_until = self.cut_until = 0.0
        self.rounds: EndRounds | None = None

    def call(self, do: Callable[[], T]) -> T:
        """Call the carrier. Raises CarrierError, StaleEpochError."""
        world = self.world
        if world.now < self.cut_until:
            raise CarrierError
        fate = world.chance.random() / world.trouble.calls if world.is_faulty and world.trouble.calls else 1.0
        if fate < 0.06:
            if fate < 0.02:
                world.late.append((world.now + world.chance.uniform(1.0, 30.0), do))
            raise CarrierError
        result = do()
        if fate < 0.09:
            world.late.append((world.now + world.chance.uniform(0.0, 8.0), do))
        if fate < 0.12:
            raise CarrierError
        return result

    # -- claims

    def may_ask(self, name: str) -> bool:
        return name in self.claims and self.world.now < self.claims[name][1] + ASKED

    def claim(self, name: str, floor: int) -> int | None:
        world, holder = self.world, self.holder
        epoch = self.call(lambda: world.holdings.claim(name, holder, floor, HELD, world.now))
        if epoch is not None:
            self.claims[name] = (epoch, world.now)
            world.places.seen(name, self.number, world.now)
            for part in self.parts.values():
                part.is_rising = part.is_rising or part.name == name  # until it is known that it is still at home here
        return epoch

    def free(self, name: str) -> None:
        if name not in self.claims:
            return
        world, holder, (epoch, _) = self.world, self.holder, self.claims.pop(name)
        self.call(lambda: world.holdings.renew(name, holder, epoch, 0.0, world.now))

    def tend(self) -> None:
        """Renew the claims, and begin the epochs of those that are new. Raises CarrierError, StaleEpochError."""
        world, holder = self.world, self.holder
        for name, (epoch, _) in list(self.claims.items()):
            renewed = self.call(
                lambda name=name, epoch=epoch: world.holdings.renew(name, holder, epoch, HELD, world.now)
            )
            if renewed:
                self.claims[name] = (epoch, world.now)
                world.places.seen(name, self.number, world.now)
            elif self.claim(name, epoch) is None:
                del self.claims[name]
        for part in list(self.parts.values()):
            self._follow_claim(part)

    def _follow_claim(self, part: Part) -> None:
        if part.name not in self.claims or self.world.places.home(part.number) not in (None, self.number):
            del self.parts[part.number]  # it is lost: nothing more is written
            self.claims.pop(part.name, None)
            return
        epoch, outbox = self.claims[part.name][0], part.router.outbox
        part.is_rising = part.is_rising or epoch != outbox.epoch or outbox.outrun >= outbox.epoch
        if part.is_rising:
            places, number = self.world.places, part.number
            floor = max(part.disk.epoch, outbox.outrun, places.epochs[number], places.words.epoch(number))
            if epoch <= floor and (self.claim(part.name, floor) or 0) <= floor:
                return
            if part.log.replicated is None and places.homes:
                self.give_up(part)  # of an earlier opening
            part.rise(self.claims[part.name][0])

    def open(self, number: int) -> None:
        """Open a partition, if it is at home here and nobody has it. Raises CarrierError, StaleEpochError."""
        world, home = self.world, self.world.places.home(number)
        if number in self.parts or home not in (None, self.number) or world.is_locked(number):
            return
        if self.claim(name_of(number), 0) is not None:
            self.parts[number] = Part(self, number, world.places.disk(number, self.number))
            self._follow_claim(self.parts[number])

    def close(self, number: int) -> None:
        """Hand over in order. Raises CarrierError, StaleEpochError."""
        part = self.parts[number]
        part.sync()
        part.acknowledge()
        del self.parts[number]
        self.free(part.name)

    # -- its other work

    def take_next_door(self) -> None:
        some, self.next_door = self.next_door, []
        for target, what in some:
            if target in self.parts:
                self.parts[target].take(what)

    def look_for_the_end(self) -> None:
        """Answer the round, and lead the rounds if that is its part; not while anything is left to do here. Raises
        CarrierError."""
        world = self.world
        if not all(part.is_at_rest for part in self.parts.values()):
            return
        told = decode_announcement(self.call(lambda: world.holdings.get([CRAWL], END))[0])
        if told is not None:
            if any(told.ends(number, part.router.outbox.epoch) for number, part in self.parts.items()):
                world.ends()
                return
            for part in list(self.parts.values()):
                part.answer(told.round)
        if not self.may_ask(CRAWL):
            self.rounds = None
            if self.claim(CRAWL, 0) is None:
                return
        rounds = self.rounds = self.rounds or EndRounds(world.partitions, world.chance.randbytes(8).hex())
        names = names_of(range(world.partitions))
        statuses = [decode_status(value) for value in self.call(lambda: world.holdings.get(names, STATUS))]
        rounds.look(statuses, self.call(lambda: world.holdings.last(names)))
        announcement = rounds.announcement
        if announcement != told:
            self.call(lambda: world.holdings.put(CRAWL, {END: encode(announcement)}))

    # -- replicas

    def replicate(self, part: Part) -> None:
        """Let the replica of a partition follow, and learn how far it has come."""
        world, log, chance = self.world, part.log, self.world.chance
        replica = world.replica(part)
        if replica is None or not world.follows(replica, part):
            if world.now > log.heard_at + SILENT and log.replicated is not None and self.may_give_up(part):
                self.give_up(part)
            return
        held = None if replica.disk is None else log.held(replica.disk)
        if held is None:
            if replica.copied is None or replica.copied[1] != log.line:
                self.give_up(part)
                replica.disk = None
                replica.copied = (part.disk.first(len(part.disk.batches)), log.line, part.commits)
            elif chance.random() < 0.5:
                replica.disk, replica.copied = replica.copied[0], None
            return
        if log.sent < held or chance.random() < 0.3 or not world.is_faulty:
            log.sent = held  # what it has not told for a while is sent again
        some = log.steps[log.sent : log.sent + chance.choice((1, 4, 100))]
        for _ in range(chance.choice((0, 1, 1, 1, 2)) if world.is_faulty else 1):  # lost, or twice
            replica.apply(log, log.sent + 1, some)
        log.sent += len(some)
        held = log.held(replica.disk)
        is_heard = not world.is_faulty or chance.random() < 0.8
        if is_heard and held is not None and (log.replicated is not None or held == part.commits):
            log.replicated, log.heard_at = held, world.now
            if log.is_leaving or world.places.words.in_step(part.number) != replica.process:
                log.is_alone = False
                self.tell(part, replica.process)
                log.is_leaving = False

    def give_up(self, part: Part) -> None:
        """Rely on its own disk alone. Nobody may take the replica for the partition from now on: that is told before.
        Raises CarrierError."""
        if not part.log.is_alone:
            part.log.is_leaving = True
            self.tell(part, None)
        part.log.replicated, part.log.is_alone, part.log.is_leaving = None, True, False

    def tell(self, part: Part, machine: int | None) -> None:
        """Tell others which replica of a partition is in step. Raises CarrierError."""
        epoch, _ = self.claims.get(part.name, (0, 0.0))
        if not self.call(self.world.places.words.word(part.number, epoch, machine)):
            raise CarrierError  # a later owner has told them another one

    def may_give_up(self, part: Part) -> bool:
        """Whether the owner of a partition may do without its replica. One that may have been replaced may not: the
        replica is the partition now."""
        return self.may_ask(part.name)

    def promote(self, number: int) -> None:
        """Take a partition over whose owner is gone. Raises CarrierError."""
        world, replica = self.world, self.world.places.replicas.get(number)
        if replica is None or replica.disk is None or world.places.words.in_step(number) != self.number:
            return
        floor = replica.disk.epoch + world.chance.randint(1, 2**20)  # epochs of two lines are never the same
        if world.now < world.places.seen_at[number] + SILENT or (epoch := self.claim(name_of(number), floor)) is None:
            return
        world.places.epochs[number] = epoch
        world.witness.count("promoted")
        world.witness.loses(number)
        world.places.take(number, self.number, None)
        world.places.disks[number, self.number] = replica.disk
        world.places.seen_at[number] = world.now

    def hand_over(self, number: int) -> None:
        """Move a partition to where its replica is, if that has all of it. Raises CarrierError, StaleEpochError."""
        world, part, replica = self.world, self.parts[number], self.world.places.replicas.get(number)
        if replica is None or replica.disk is None or part.is_rising or not self.may_ask(part.name):
            return
        part.sync()
        part.acknowledge()
        if part.log.held(replica.disk) != part.commits:
            return
        world.witness.count("moved")
        world.places.take(number, replica.process, Replica(self.number, part.disk))
        world.places.disks[number, replica.process] = replica.disk
        del world.places.disks[number, self.number], self.parts[number]
        self.free(part.name)


class Witness:
    """Knows what must not be."""

    def __init__(self) -> None:
        self.wrong: dict[str, list[str]] = defaultdict(list)
        self.counts = Counter[str]()
        self._losses = Counter[int]()
        self._asked: dict[str, int] = {}

    def complain(self, kind: str, words: str) -> None:
        """Something is wrong."""
        if len(self.wrong[kind]) < 3:
            self.wrong[kind].append(words)

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def loses(self, number: int) -> None:
        """A partition may have lost its last steps."""
        self._losses[number] += 1

    def asks(self, href: str, number: int) -> None:
        """A page of a partition is visited. Only what was lost may be visited again."""
        losses = self._losses[number]
        if self._asked.get(href) == losses:
            self.complain("asked again", href)
        self._asked[href] = losses

    def ends(self, world: World) -> None:
        """The crawl has ended. Whatever is lost from now on, nothing may be left."""
        done = Counter[str]()
        for number in range(world.partitions):
            disk = world.places.disk(number, world.places.homes.get(number, SHARED))
            kept = disk.first(disk.durable)
            done.update(kept.hrefs(Family.DONE))
            if left := kept.hrefs(Family.PENDING):
                self.complain("early end", f"{sorted(left)[:2]} waits in partition {number}")
            if len(list(kept.rows(Family.META, SCOPE, SCOPE + b"\xff"))) != len(world.widens):
                self.complain("scope", f"partition {number} does not know the whole scope")
        if missing := world.web.keys() - done.keys():
            self.complain("early end", f"{sorted(missing)[:2]} of {len(missing)} are missing")
        if twice := [page for page, count in done.items() if count > 1]:
            self.complain("twice", f"{twice[:2]} in two partitions")


SHARED = -1  # the machine whose disks all have


class Words:
    """What owners say of their replicas: the machine of the one that is waited for may promote it. They say it each
    second: so that a carrier forgets it is left out here, but not that it comes late, or twice."""

    def __init__(self) -> None:
        self._holdings = Holdings(incarnation="words")
        self._said = 0

    def in_step(self, number: int) -> int | None:
        machine = self._last(number)[1]
        return int(machine) if machine else None

    def epoch(self, number: int) -> int:
        """In which the last word was said."""
        return int(self._last(number)[0])

    def word(self, number: int, epoch: int, machine: int | None) -> Callable[[], bool]:
        """What an owner says in its epoch now, whenever that arrives. Returns whether nothing later was said."""
        self._said += 1
        order, value = (epoch, self._said), b"%d " % epoch + (b"" if machine is None else b"%d" % machine)
        return lambda: self._holdings.put(name_of(number), {REPLICAS: value}, order)

    def _last(self, number: int) -> list[bytes]:
        (value,) = self._holdings.get([name_of(number)], REPLICAS)
        return (value or b"0 ").split(b" ")


class Places:
    """Where the partitions are. Without replicas all processes share one directory, and no partition has a home."""

    def __init__(self) -> None:
        self.disks: dict[tuple[int, int], Disk] = {}
        self.homes: dict[int, int] = {}
        self.replicas: dict[int, Replica | None] = {}
        self.epochs: dict[int, int] = defaultdict(int)  # in which partitions came to their homes
        self.words = Words()
        self.seen_at: dict[int, float] = defaultdict(float)  # when the owner of a partition was last heard of

    def take(self, number: int, machine: int, replica: Replica | None) -> None:
        """A partition is at home on another machine."""
        self.homes[number], self.replicas[number] = machine, replica

    def home(self, number: int) -> int | None:
        """The machine of the partition; None: any."""
        return self.homes.get(number)

    def disk(self, number: int, machine: int) -> Disk:
        """What a machine has of a partition."""
        return self.disks.setdefault((number, machine if self.homes else SHARED), Disk())

    def seen(self, name: str, machine: int, now: float) -> None:
        """The owner of a partition has renewed its claim."""
        number = int(name[1:]) if name[1:].isdecimal() else -1
        if self.homes.get(number) == machine:
            self.seen_at[number] = now

    def burn(self, machine: int) -> None:
        """All that is on a machine is gone."""
        self.disks = {where: disk for where, disk in self.disks.items() if where[1] != machine}
        for number, replica in self.replicas.items():
            if replica is not None and replica.process == machine:
                self.replicas[number] = None


@dataclass
class Life:
    """How it went. ``wrong``: what must not be, by its kind."""

    pages: int
    wrong: dict[str, list[str]]
    counts: Counter[str]


@dataclass(frozen=True)
class Trouble:
    """How bad it is. ``calls``: to the carrier, 1 is usual; ``faults``: the share of steps that are one."""

    calls: float
    faults: float


class World:
    """One life."""

    def __init__(self, seed: int) -> None:
        chance = self.chance = random.Random(seed)
        self.web = web_of(chance)
        self.seed = next(iter(self.web))
        self.widens = {page for page in self.web if chance.random() < 0.05}
        self.placement = Placement(SECRET, chance.randint(2, 4))
        self.holdings = Holdings(incarnation="0")
        self.late: list[tuple[float, Callable[[], Any]]] = []
        self.witness, self.places = Witness(), Places()
        self.now = 0.0
        self.trouble = Trouble(chance.choice((0.0, 0.3, 1.0, 2.0)), chance.choice((0.02, 0.05)))
        self.state = State.FAULTY
        self.processes = [Process(self, number) for number in range(chance.randint(2, 3))]
        if chance.random() < 0.5:
            self.places.homes = {number: number % len(self.processes) for number in range(self.partitions)}

    @property
    def partitions(self) -> int:
        return self.placement.partitions

    @property
    def is_faulty(self) -> bool:
        return self.state is State.FAULTY

    def live(self) -> Life:
        """Live to the end."""
        for _ in range(self.chance.randint(50, 400)):
            if self.state is State.ENDED:
                break
            self._step()
        if self.state is State.FAULTY:
            self._come_to_an_end()
        return Life(len(self.web), dict(self.witness.wrong), self.witness.counts)

    def ends(self) -> None:
        """A process sees that the crawl has ended."""
        self.state = State.ENDED
        self.witness.ends(self)

    def loses(self) -> bool:
        """Whether an entry is lost of which the carrier says that it has it."""
        return self.is_faulty and self.chance.random() < 0.03 * self.trouble.calls

    def is_locked(self, number: int) -> bool:
        """Whether a process has the directory open, be it a stopped one."""
        return not self.places.homes and any(number in process.parts for process in self.processes)

    def follows(self, replica: Replica, part: Part) -> bool:
        """Whether a replica hears of the owner, and the owner of it. A process that has not learnt yet that it is
        not the owner any more does not follow."""
        cut_until = part.process.cut_until
        return any(
            process.number == replica.process
            and max(process.stopped_until, process.cut_until, cut_until) <= self.now
            and part.number not in process.parts
            for process in self.processes
        )

    def replica(self, part: Part) -> Replica | None:
        """The replica of an open partition, which it chooses if there is none."""
        replicas, number = self.places.replicas, part.number
        if self.places.home(number) != part.process.number:
            return None
        replica = replicas.get(number)
        others = [process.number for process in self.processes if process is not part.process]
        if replica is None or replica.process not in others:
            part.process.give_up(part)
            replica = replicas[number] = Replica(self.chance.choice(others))
        return replica

    # -- what happens

    def _step(self) -> None:
        chance = self.chance
        self.now += chance.choice((0.0, 0.01, 0.05, 0.2, 1.0))
        if self.late:
            self._arrive()
        process, fate = chance.choice(self.processes), chance.random()
        if fate < self.trouble.faults:
            faults = [self._kill, self._lose_power, self._lose_power, self._stop, self._cut, self._forget, self._burn]
            chance.choice(faults if chance.random() < 0.9 else [self._fail_over])(process)
        elif process.stopped_until <= self.now:
            self._act(process)

    def _arrive(self) -> None:
        """What was late is done now."""
        ready, self.late = (
            [each for each in self.late if each[0] <= self.now],
            [each for each in self.late if each[0] > self.now],
        )
        for _, do in ready:
            try:
                do()
            except (CarrierError, StaleEpochError):
                self.witness.count("late and refused")

    def _act(self, process: Process) -> None:
        chance = self.chance
        acts: list[Callable[[], None]] = [process.tend, process.take_next_door, *[process.look_for_the_end] * 3]
        of_all = not process.parts or chance.random() < 0.25
        number = chance.randrange(self.partitions) if of_all else chance.choice(list(process.parts))
        if (part := process.parts.get(number)) is None:
            acts += [lambda: process.open(number), lambda: process.open(number), lambda: process.promote(number)]
        else:
            acts = [
                *acts,
                *[part.visit, part.visit, part.send, part.receive, part.acknowledge] * 3,
                part.sync,
                part.sync,
            ]
            acts.append(lambda: process.hand_over(number) if self.places.homes else process.close(number))
            if self.places.homes:
                acts += [lambda: process.replicate(part)] * 5
        self._try(process, chance.choice(acts))

    def _try(self, process: Process, act: Callable[[], None]) -> None:
        try:
            act()
        except CarrierError:
            self.witness.count("calls failed")
        except StaleEpochError:
            process.claims = {name: (epoch, -HELD) for name, (epoch, _) in process.claims.items()}  # doubted

    def _come_to_an_end(self) -> None:
        """Without faults, the crawl must end."""
        self.state = State.CALM
        for process in self.processes:
            process.stopped_until = process.cut_until = 0.0
        self.late.clear()
        for _ in range(CALM):
            self.now += 1.0
            for process in self.processes:
                for act in self._all_of(process):
                    self._try(process, act)
                    if self.state is State.ENDED:
                        return
        self.witness.complain("end", f"none after {CALM} s without faults")

    def _all_of(self, process: Process) -> Iterable[Callable[[], None]]:
        """All that a process does in a second."""
        yield process.tend
        for number in range(self.partitions):
            yield lambda number=number: process.promote(number)
            yield lambda number=number: process.open(number)
        for part in list(process.parts.values()):
            yield from (part.receive, part.visit, part.visit, part.send, part.sync)
            if self.places.homes:
                yield lambda part=part: process.replicate(part)
            yield part.acknowledge
        yield process.take_next_door
        yield process.look_for_the_end

    # -- faults

    def _begin_again(self, process: Process, machine: int) -> None:
        self.processes[self.processes.index(process)] = Process(self, machine)

    def _kill(self, process: Process) -> None:
        self.witness.count("killed")
        self._begin_again(process, process.number)

    def _lose_power(self, process: Process) -> None:
        self.witness.count("power lost")
        self._tell_at_last(process)
        for number, part in process.parts.items():
            left = self.chance.randint(part.disk.durable, len(part.disk.batches))
            machine = process.number if self.places.homes else SHARED
            self.places.disks[number, machine] = part.disk.first(left)
            self.witness.loses(number)
        self._begin_again(process, process.number)

    def _tell_at_last(self, process: Process) -> None:
        """Often the loss comes in the moment after it has told others something."""
        if process.stopped_until > self.now:
            return
        for part in list(process.parts.values()):
            acts = self.chance.choice(((), (part.receive, part.acknowledge), (part.visit, part.send)))
            for act in (*acts, part.sync, part.acknowledge) if self.chance.random() < 0.3 else acts:
                self._try(process, act)

    def _burn(self, process: Process) -> None:
        """A machine and its disk are gone, if each of its partitions has a replica. A new one comes."""
        places = self.places
        mine = [number for number, home in places.homes.items() if home == process.number]
        is_needed = any(
            each is not None and each.process == process.number and (number, places.homes[number]) not in places.disks
            for number, each in places.replicas.items()
        )
        if not places.homes or is_needed or not all(self._is_replicated(process, number) for number in mine):
            return
        self.witness.count("burnt")
        self._tell_at_last(process)
        places.burn(process.number)
        self._begin_again(process, 100 + self.witness.counts["burnt"])

    def _is_replicated(self, process: Process, number: int) -> bool:
        part, replica = process.parts.get(number), self.places.replicas.get(number)
        if part is None or part.log.replicated is None or replica is None or replica.disk is None:
            return False
        if part.log.is_leaving:
            return False
        return self.places.words.in_step(number) == replica.process

    def _stop(self, process: Process) -> None:
        self.witness.count("stopped")
        process.stopped_until = self.now + self.chance.choice((1.0, 4.0, 40.0)) * self.chance.random()

    def _cut(self, process: Process) -> None:
        self.witness.count("cut off")
        process.cut_until = self.now + self.chance.choice((1.0, 4.0, 40.0)) * self.chance.random()

    def _forget(self, _: Process) -> None:
        self.witness.count("forgotten")
        which, names = self.chance.random(), [*names_of(range(self.partitions)), CRAWL]
        if which < 0.3:
            self.holdings.forget()
        elif which < 0.5:
            self.holdings.forget(self.chance.sample(names, 2))
        else:
            self.holdings.forget_end(self.chance.choice(names), self.chance.randint(1, 3))

    def _fail_over(self, _: Process) -> None:
        """All that the carrier takes in the next steps is lost."""
        self.witness.count("failed over")
        copied = copy.deepcopy(self.holdings.__dict__)
        for _ in range(self.chance.randint(1, 12)):
            process = self.chance.choice(self.processes)
            if process.stopped_until <= self.now and self.state is State.FAULTY:
                self._act(process)
        roll_back(self.holdings, copied)


class State(Enum):
    """How far a life is."""

    FAULTY = auto()
    CALM = auto()
    ENDED = auto()


def roll_back(holdings: Holdings, copied: dict[str, Any]) -> None:
    """Let a carrier hold what it held when that was copied. Positions of entries that it has lost are unknown to it."""
    born = holdings.__dict__["_born"]
    holdings.__dict__.update(copied, _born=born)
    for name in list(holdings.__dict__["_streams"]):
        holdings.forget_end(name, 0)


def live(seed: int) -> Life:
    """One life; the same number gives the same life."""
    world = World(seed)
    try:
        return world.live()
    except Exception as error:  # noqa: BLE001  # a bug is an outcome here
        return Life(len(world.web), {"error": [repr(error)]}, world.witness.counts)
