"""The protocol between partitions alone, without jobs, files or an event loop, so that a life takes a few milliseconds:
the outboxes, inlets, routers and rounds of the end are the real ones, and so is what the carrier holds. One life
follows from one number.

Processes own partitions by claims, visit the pages of a small web, tell each other what they find, and look for the
end. Chance kills them, takes their power, stops them for longer than their claims hold, and cuts them off; calls to the
carrier are lost, done without an answer, done twice or late; and the carrier forgets all, a part, the end of a stream,
or some seconds of everything. In every other life the crawl lives in a store: no lock keeps a partition from a process
that has its claim, and one from which others have taken a partition begins again with nothing.

The last faults over, the crawl must come to its end; and whenever it ends, nothing may be left anywhere.
"""

from __future__ import annotations

import copy
import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from crawler.base.carrier.verbs import START, CarrierError, Position, StaleEpochError, decoded, encoded
from crawler.base.kv import Batch, Family
from crawler.cluster.claims import ASKED, HELD, name_of, names_of
from crawler.job.found import Found
from crawler.job.metrics.catalogue import Counters
from crawler.job.partition.end_rounds import Announcement, EndRounds, Status
from crawler.job.partition.inlet import Verdict, decode_row
from crawler.job.partition.link_batch_codec import Ack, LinkBatch, LinkBatchCodec
from crawler.job.partition.placement import Placement
from crawler.job.partition.router import PartitionRouter
from crawler.job.receiving import EPOCH, Receipt, decode_epoch, encode_epoch, read_content
from crawler.url.urls.canonicaliser import Canonical
from tests.holdings import LosingHoldings
from tests.memory_store import MemoryStore

T = TypeVar("T")

CALM = 400  # rounds without faults in which a crawl must end
SECRET = b"of the partitions of a simulated crawl"
CODEC = LinkBatchCodec(SECRET)
SCOPE, SEEDS = b"scope/", b"seeds"  # keys of META
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
    """What a disk has of a partition."""

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
    def epoch(self) -> int:
        return decode_epoch(self.get(Family.META, EPOCH))

    def hrefs(self, family: Family) -> set[str]:
        return {key.decode() for key, _ in self.rows(family)}


class TakenOverError(Exception):
    """Another process has taken over what this one had."""


class Part:
    """A partition that is open in a process."""

    def __init__(self, process: Process, number: int, disk: Disk) -> None:
        self.process, self.number, self.disk = process, number, disk
        self.name = name_of(number)
        self.router = PartitionRouter(number, process.world.placement, sent_bytes=4096)
        self.router.load(disk, Counters())
        self.pending = sorted(disk.hrefs(Family.PENDING))
        self.is_rising = True
        self.commits = self.durable = self.said = 0
        self.read_to: Position = START
        self.read: deque[tuple[int, Position]] = deque()

    # -- what it writes

    def write(self, batch: Batch) -> None:
        """A step. Raises TakenOverError."""
        self.process.check()
        world = self.process.world
        for family, key, value, _ in batch.changes:
            if family is Family.INLET and value is not None:
                before = self.disk.get(family, key)
                if before is not None and decode_row(key, value) <= decode_row(key, before):
                    world.witness.complain("inlet", f"{decode_row(key, value)} after {decode_row(key, before)}")
        self.commits += 1
        self.disk.write(batch)

    def sync(self) -> None:
        self.process.check()
        self.disk.sync()
        self.durable = self.commits

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
        """Acknowledge what is durable. Raises CarrierError, StaleEpochError."""
        if not self.is_rising:
            for ack in self.router.inlet.acks(self.durable):
                self._tell(ack.sender, ack)

    def _tell(self, target: int, what: LinkBatch | Ack) -> None:
        holdings, name, epoch = self.process.world.holdings, self.name, self.router.outbox.epoch
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
        while self.read and self.read[0][0] <= self.durable:
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
        return not self.pending and not self.is_rising and self.durable == self.commits

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
        status = encoded(Status(asked, outbox.epoch, self.commits, self.is_at_rest, is_sent, self.read_to))
        self.said += 1
        order = outbox.epoch, self.said
        self.process.call(lambda: holdings.put(self.name, {STATUS: status}, order))


class Process:
    """A process: its claims, each with its epoch and when its last renewal began, and the partitions open in it."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        world.witness.counts["processes"] += 1
        self.holder = f"m{number}.{world.witness.counts['processes']}"
        self.claims: dict[str, tuple[int, float]] = {}
        self.parts: dict[int, Part] = {}
        self.stopped_until = self.cut_until = 0.0
        self.rounds: EndRounds | None = None
        self.is_taken_over = False

    def check(self) -> None:
        """Raise TakenOverError if it may write no more."""
        if self.is_taken_over:
            for number in self.parts:
                self.world.witness.loses(number)  # what it was about to write
            raise TakenOverError

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
        self.check()
        world, holder = self.world, self.holder
        epoch = self.call(lambda: world.holdings.claim(name, holder, floor, HELD, world.now))
        if epoch is not None:
            self.claims[name] = (epoch, world.now)
            for part in self.parts.values():
                part.is_rising = part.is_rising or part.name == name
        return epoch

    def free(self, name: str) -> None:
        if name not in self.claims:
            return
        world, holder, (epoch, _) = self.world, self.holder, self.claims.pop(name)
        self.call(lambda: world.holdings.renew(name, holder, epoch, 0.0, world.now))

    def tend(self) -> None:
        """Renew the claims, and begin the epochs of those that are new. Raises CarrierError, StaleEpochError."""
        self.check()
        world, holder = self.world, self.holder
        for name, (epoch, _) in list(self.claims.items()):
            renewed = self.call(
                lambda name=name, epoch=epoch: world.holdings.renew(name, holder, epoch, HELD, world.now)
            )
            if renewed:
                self.claims[name] = (epoch, world.now)
            elif self.claim(name, epoch) is None:
                del self.claims[name]
        for part in list(self.parts.values()):
            self._follow_claim(part)

    def _follow_claim(self, part: Part) -> None:
        if part.name not in self.claims:
            del self.parts[part.number]  # it is lost: nothing more is written
            return
        epoch, outbox = self.claims[part.name][0], part.router.outbox
        part.is_rising = part.is_rising or epoch != outbox.epoch or outbox.outrun >= outbox.epoch
        if part.is_rising:
            floor = max(part.disk.epoch, outbox.outrun)
            if epoch <= floor and (self.claim(part.name, floor) or 0) <= floor:
                return
            part.rise(self.claims[part.name][0])

    def open(self, number: int) -> None:
        """Open a partition, if nobody has it. Raises CarrierError, StaleEpochError."""
        world = self.world
        if number in self.parts or world.is_locked(number):
            return
        if self.claim(name_of(number), 0) is not None:
            world.take_over(number)
            self.parts[number] = Part(self, number, world.disks[number])
            self._follow_claim(self.parts[number])

    def close(self, number: int) -> None:
        """Hand over in order. Raises CarrierError, StaleEpochError."""
        part = self.parts[number]
        part.sync()
        part.acknowledge()
        del self.parts[number]
        self.free(part.name)

    # -- its other work

    def look_for_the_end(self) -> None:
        """Answer the round, and lead the rounds if that is its part; not while anything is left to do here. Raises
        CarrierError."""
        world = self.world
        if not all(part.is_at_rest for part in self.parts.values()):
            return
        told = decoded(self.call(lambda: world.holdings.get([CRAWL], END))[0], Announcement)
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
        statuses = [decoded(value, Status) for value in self.call(lambda: world.holdings.get(names, STATUS))]
        rounds.look(statuses, self.call(lambda: world.holdings.last(names)))
        announcement = rounds.announcement
        if announcement != told:
            self.call(lambda: world.holdings.put(CRAWL, {END: encoded(announcement)}))


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
            disk = world.disks[number]
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
        self.holdings = LosingHoldings(incarnation="0")
        self.late: list[tuple[float, Callable[[], Any]]] = []
        self.witness, self.disks = Witness(), defaultdict[int, Disk](Disk)  # of all partitions
        self.now = 0.0
        self.trouble = Trouble(chance.choice((0.0, 0.3, 1.0, 2.0)), chance.choice((0.02, 0.05)))
        self.state = State.FAULTY
        self.processes = [Process(self, number) for number in range(chance.randint(2, 3))]
        self.is_stored = chance.random() < 0.5

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
        """Whether a process has the directory open, be it a stopped one; or, of a store, the partition, and was heard
        of not long ago."""
        name, since = name_of(number), self.now - HELD if self.is_stored else -math.inf
        return any(
            number in process.parts and process.claims.get(name, (0, since))[1] >= since
            for process in self.processes
            if not process.is_taken_over
        )

    def take_over(self, number: int) -> None:
        """A process that has the partition open has it no more, nor what it had not synced."""
        for process in self.processes:
            part = process.parts.get(number)
            if part is not None and not process.is_taken_over:
                self.witness.count("taken over")
                process.is_taken_over = True
                for each in process.parts.values():
                    self.disks[each.number] = each.disk.first(each.disk.durable)
                    self.witness.loses(each.number)

    # -- what happens

    def _step(self) -> None:
        chance = self.chance
        self.now += chance.choice((0.0, 0.01, 0.05, 0.2, 1.0))
        if self.late:
            self._arrive()
        process, fate = chance.choice(self.processes), chance.random()
        if fate < self.trouble.faults:
            faults = [self._kill, self._lose_power, self._lose_power, self._stop, self._cut, self._forget]
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
        acts: list[Callable[[], None]] = [process.tend, *[process.look_for_the_end] * 3]
        of_all = not process.parts or chance.random() < 0.25
        number = chance.randrange(self.partitions) if of_all else chance.choice(list(process.parts))
        if (part := process.parts.get(number)) is None:
            acts += [lambda: process.open(number), lambda: process.open(number)]
        else:
            acts = [
                *acts,
                *[part.visit, part.visit, part.send, part.receive, part.acknowledge] * 3,
                part.sync,
                part.sync,
            ]
            acts.append(lambda: process.close(number))
        self._try(process, chance.choice(acts))

    def _try(self, process: Process, act: Callable[[], None]) -> None:
        try:
            act()
        except CarrierError:
            self.witness.count("calls failed")
        except TakenOverError:
            self._begin_again(process)
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
                    if process not in self.processes:
                        break
        self.witness.complain("end", f"none after {CALM} s without faults")

    def _all_of(self, process: Process) -> Iterable[Callable[[], None]]:
        """All that a process does in a second."""
        yield process.tend
        for number in range(self.partitions):
            yield lambda number=number: process.open(number)
        for part in list(process.parts.values()):
            yield from (part.receive, part.visit, part.visit, part.send, part.sync, part.acknowledge)
        yield process.look_for_the_end

    # -- faults

    def _begin_again(self, process: Process) -> None:
        if process in self.processes:
            self.processes[self.processes.index(process)] = Process(self, process.number)

    def _kill(self, process: Process) -> None:
        self.witness.count("killed")
        self._begin_again(process)

    def _lose_power(self, process: Process) -> None:
        self.witness.count("power lost")
        self._tell_at_last(process)
        for number, part in process.parts.items():
            left = self.chance.randint(part.disk.durable, len(part.disk.batches))
            if part.disk is self.disks[number]:
                self.disks[number] = part.disk.first(left)
            self.witness.loses(number)
        self._begin_again(process)

    def _tell_at_last(self, process: Process) -> None:
        """Often the loss comes in the moment after it has told others something."""
        if process.stopped_until > self.now:
            return
        for part in list(process.parts.values()):
            acts = self.chance.choice(((), (part.receive, part.acknowledge), (part.visit, part.send)))
            for act in (*acts, part.sync, part.acknowledge) if self.chance.random() < 0.3 else acts:
                self._try(process, act)

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


def roll_back(holdings: LosingHoldings, copied: dict[str, Any]) -> None:
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
