"""The end of a crawl of partitions, in a model: links travel between partitions that crash, over a carrier that loses
what it likes. What must never happen is an end while a link is anywhere. One life follows from one number."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from crawler.job.partition.end_rounds import Announcement, EndRounds, Look, Status


@dataclass
class State:
    """What a partition stores: pages that wait, links to be sent (target, page), and all pages that it ever had."""

    pending: set[int] = field(default_factory=set)
    outbox: set[tuple[int, int]] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)

    def copy(self) -> State:
        return State(set(self.pending), set(self.outbox), set(self.seen))


@dataclass
class Model:
    """Partitions whose pages form a web, at most ``chance`` decides what happens next."""

    chance: random.Random
    partitions: int
    web: dict[int, list[int]]
    forgets: float = 0.01
    faults: bool = True
    states: list[State] = field(default_factory=list)
    durable: list[State] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    synced: list[int] = field(default_factory=list)
    streams: list[list[tuple[int, int, int]]] = field(default_factory=list)  # sender, page, the sender's epoch
    ends: list[int] = field(default_factory=list)  # entries ever appended to each stream
    read: list[int] = field(default_factory=list)
    received: list[list[tuple[int, int, int]]] = field(default_factory=list)  # not yet acknowledged
    statuses: dict[int, Status] = field(default_factory=dict)
    told: Announcement | None = None
    rounds: list[EndRounds] = field(default_factory=list)
    coordinators: int = 0

    def __post_init__(self) -> None:
        each = range(self.partitions)
        self.states, self.durable = [State() for _ in each], [State() for _ in each]
        self.epochs, self.commits, self.synced = [1 for _ in each], [0 for _ in each], [0 for _ in each]
        self.streams, self.ends, self.read = [[] for _ in each], [0 for _ in each], [0 for _ in each]
        self.received = [[] for _ in each]
        first = self.owner(0)
        self.states[first].pending.add(0)
        self.states[first].seen.add(0)
        self.sync(first)
        self.new_coordinator()

    def owner(self, page: int) -> int:
        return page % self.partitions

    # -- what happens ------------------------------------------------------------------------------------------

    def visit(self, at: int) -> None:
        state = self.states[at]
        if not state.pending:
            return
        page = self.chance.choice(sorted(state.pending))
        state.pending.discard(page)
        for link in self.web.get(page, ()):
            target = self.owner(link)
            if target != at:
                state.outbox.add((target, link))
            elif link not in state.seen:
                state.pending.add(link)
                state.seen.add(link)
        self.commits[at] += 1

    def send(self, at: int) -> None:
        if self.states[at].outbox:
            target, page = self.chance.choice(sorted(self.states[at].outbox))
            self.streams[target].append((at, page, self.epochs[at]))
            self.ends[target] += 1

    def receive(self, at: int) -> None:
        if not self.streams[at]:
            self.read[at] = self.ends[at]
            return
        message = self.streams[at].pop(0)
        self.read[at] = self.ends[at] - len(self.streams[at])
        page, state = message[1], self.states[at]
        if page not in state.seen:
            state.seen.add(page)
            state.pending.add(page)
        self.received[at].append(message)
        self.commits[at] += 1

    def sync(self, at: int) -> None:
        self.durable[at], self.synced[at] = self.states[at].copy(), self.commits[at]
        for sender, page, _ in self.received[at]:
            if not (self.faults and self.chance.random() < 0.3) and (at, page) in self.states[sender].outbox:
                self.states[sender].outbox.discard((at, page))
                self.commits[sender] += 1
        self.received[at].clear()

    def crash(self, at: int) -> None:
        """A loss of power, and another owner."""
        self.states[at] = self.durable[at].copy()
        self.received[at].clear()
        self.epochs[at] += 1
        self.commits[at] = self.synced[at] = 0
        self.read[at] = 0

    def forget(self) -> None:
        """The carrier loses its streams, and now and then everything."""
        self.streams, self.ends = [[] for _ in self.streams], [0 for _ in self.ends]
        if self.chance.random() < 0.1:
            self.statuses, self.told = {}, None

    def answer(self, at: int) -> None:
        if self.told is None or (self.faults and self.chance.random() < 0.2):
            return
        before = self.statuses.get(at)
        if before is not None and before.round == self.told.round and self.chance.random() < 0.97:
            return  # answers are old when they are read
        idle = not self.states[at].pending and self.synced[at] == self.commits[at]
        read_to = str(self.read[at]) if self.read[at] else ""
        empty = not self.states[at].outbox
        self.statuses[at] = Status(self.told.round, self.epochs[at], self.commits[at], idle, empty, read_to)

    def new_coordinator(self) -> None:
        self.coordinators += 1
        self.rounds = [*self.rounds[-1:], EndRounds(self.partitions, f"c{self.coordinators}")]

    def coordinate(self) -> bool:
        """Let one of the coordinators look. Returns whether the crawl has ended."""
        rounds = self.chance.choice(self.rounds)
        statuses = [self.statuses.get(at) for at in range(self.partitions)]
        lasts = [str(end) if end else "" for end in self.ends]
        ended = rounds.look(statuses, lasts) is Look.ENDED
        self.told = rounds.announcement
        return ended

    # -- what must hold ----------------------------------------------------------------------------------------

    def is_anything_left(self) -> bool:
        return any(state.pending or state.outbox for state in (*self.states, *self.durable))

    def missing(self) -> set[int]:
        reachable, new = {0}, [0]
        while new:
            new = [link for page in new for link in self.web.get(page, ()) if link not in reachable]
            reachable.update(new)
        return reachable - set[int]().union(*(state.seen for state in self.durable))

    def step(self) -> bool:
        at = self.chance.randrange(self.partitions)
        usual = [self.visit, self.send, self.receive, self.receive, self.sync, self.sync, self.answer, self.answer]
        fault = self.chance.random()
        if self.faults and fault < 0.01:
            self.crash(at)
        elif self.faults and fault < 0.01 + self.forgets:
            self.forget()
        elif self.faults and fault > 0.99:
            self.new_coordinator()
        elif fault > 0.8:
            return self.coordinate()
        else:
            self.chance.choice(usual)(at)
        return False


def end(seed: int, partitions: int) -> list[str]:
    """Let a crawl come to its end. Returns what is wrong with it."""
    chance = random.Random(seed)
    size = chance.randrange(1, 30)
    web = {page: [page + 1, chance.randrange(size)] for page in range(size - 1)}
    model = Model(chance, partitions, web, chance.choice([0.0, 0.01, 0.2]))
    for step in range(20_000):
        model.faults = step < 2_000
        if step == 2_000:
            model.rounds = model.rounds[-1:]
        if model.step():
            return ["something is left"] * model.is_anything_left() + [
                f"page {page}" for page in sorted(model.missing())
            ]
    return ["the end was never said"]


def end_by_chance(seed: int) -> list[str]:
    """A life of chance. Returns what is wrong with it."""
    return end(seed, 1 + seed % 5)
