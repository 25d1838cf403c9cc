"""Turns of groups over partitions: a world of partitions whose notes are late, lost, doubled and overtake each other,
whose clocks differ, and which die. The judge is the server of the group: it sees when requests begin and end."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from crawler.job.partition.group_turns import DRIFT, LENT, Lessee, Lessor, TurnsAnswer, TurnsQuestion

TICK = 0.05  # seconds between two looks of a partition


class Faults(Struct):
    """What may go wrong. ``delay``: seconds of a note, at least and at most; ``drift``: of clocks, as a part."""

    delay: tuple[float, float] = (0.2, 0.2)
    late: float = 0.0  # the part of notes that take up to 10 seconds
    lost: float = 0.0
    doubled: float = 0.0
    drift: float = 0.0
    kills: int = 0
    owner_kills: int = 0
    one_clock: bool = False  # that all partitions have, and know to have
    cuts: int = 0  # of the line to a partition: what it says meanwhile is lost, what it is told comes afterwards


class Request(Struct):
    partition: int
    began: float
    ended: float | None = None
    life: int = 0  # of the partition


class Asker:
    """A partition with endless URLs of each group, as a gate asks for them: one at a time, a gap apart."""

    def __init__(self, world: World, number: int, epoch: int) -> None:
        self.world, self.number, self.epoch = world, number, epoch
        self.lessee = Lessee(
            next(world.names), lambda _: world.owner, lambda key: self.next.get(key, 0.0), world.clock_name
        )
        self.next: dict[str, float] = {}
        self.waits: set[str] = set()
        self.busy: set[str] = set()
        self.dead = False

    @property
    def now(self) -> float:
        return self.world.clock(self.number)

    def _free_at(self, key: str) -> float:
        return self.next.get(key, 0.0)

    def tick(self) -> None:
        if self.dead:
            return
        self.attempt()
        for owner, question in self.lessee.questions(self.epoch, self.now):
            assert owner == self.world.owner
            if self.world.now >= self.world.cut[self.number]:
                self.world.tell(lambda question=question: self.world.hear_question(self.number, question))
        self.world.at(TICK, self.tick)

    def attempt(self) -> None:
        if self.dead:
            return
        for key in self.world.groups:
            if key in self.busy or key in self.waits or self._free_at(key) > self.now:
                continue
            wait = self.lessee.wait(key, self.world.gap, self.now)
            if wait is None:
                self.waits.add(key)
            elif wait > 0:
                self.come_back(key, wait)
            else:
                self.begin(key)

    def come_back(self, key: str, wait: float) -> None:
        self.next[key] = self.now + wait
        self.world.at(wait / self.world.clocks[self.number][1] + 1e-6, self.attempt)

    def begin(self, key: str) -> None:
        self.lessee.began(key)
        self.busy.add(key)
        self.next[key] = self.now + self.world.gap
        self.world.at(self.world.random.choice(self.world.connects), lambda: self.send(key))

    def send(self, key: str) -> None:
        """The connection is there; the fence is asked in this step."""
        if self.dead:
            return
        request = None
        if self.lessee.may_send(key, self.now):
            request = Request(self.number, self.world.now, life=self.epoch)
            self.world.log[key].append(request)
        self.world.at(self.world.random.choice(self.world.lasts), lambda: self.end(key, request))

    def end(self, key: str, request: Request | None) -> None:
        if request is not None:
            request.ended = self.world.now
        if self.dead:
            return
        self.busy.discard(key)
        self.lessee.ended(key, self.now, more=self.world.random.random() >= self.world.idle)
        self.come_back(key, self.world.gap)

    def heard(self, answer: TurnsAnswer) -> None:
        if self.world.now < self.world.cut[self.number]:
            self.world.at(self.world.cut[self.number] - self.world.now, lambda: self.heard(answer))
        elif not self.dead:
            self.waits -= set(self.lessee.heard(self.world.owner, answer, self.now))
            self.attempt()


class World:
    """The time of the server, the notes under way, and the partitions."""

    owner = 0  # the partition that owns all groups

    def __init__(self, seed: int, faults: Faults, *, partitions: int = 8, groups: int = 1, gap: float = 1.0) -> None:
        self.random, self.faults, self.gap = random.Random(seed), faults, gap
        self.names, self.order = itertools.count(1), itertools.count()
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], Any]]] = []
        self.groups = [f"group-{number}" for number in range(groups)]
        self.log: dict[str, list[Request]] = {key: [] for key in self.groups}
        self.connects, self.lasts = (0.0,), (0.02,)
        self.idle = 0.0  # the part of requests after which nobody seems to want another one
        self.clocks = [
            (self.random.uniform(0, 1e6), 1 + self.random.uniform(-faults.drift, faults.drift))
            for _ in range(partitions + 1)
        ]
        self.clock_name = "one" if faults.one_clock else ""
        if faults.one_clock:
            self.clocks = [self.clocks[0]] * len(self.clocks)
        self.epochs = itertools.count(1)
        self.cut = [0.0] * partitions  # until when the line to each is cut
        self.askers = [Asker(self, number, next(self.epochs)) for number in range(partitions)]
        self.lessor = self.new_lessor()

    def clock(self, partition: int) -> float:
        offset, rate = self.clocks[partition]
        return offset + rate * self.now

    def at(self, seconds: float, what: Callable[[], Any]) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.order), what))

    def tell(self, what: Callable[[], None]) -> None:
        copies = 0 if self.random.random() < self.faults.lost else 1 + (self.random.random() < self.faults.doubled)
        for _ in range(copies):
            delay = (0.0, 10.0) if self.random.random() < self.faults.late else self.faults.delay
            self.at(self.random.uniform(*delay), what)

    def new_lessor(self) -> Lessor:
        return Lessor(next(self.epochs), len(self.askers), self.clock(-1), self.clock_name)

    def hear_question(self, partition: int, question: TurnsQuestion) -> None:
        self.say(self.lessor.heard(partition, question, self.clock(-1)))

    def say(self, answers: list[tuple[int, TurnsAnswer]]) -> None:
        for partition, answer in answers:
            self.tell(lambda partition=partition, answer=answer: self.askers[partition].heard(answer))

    def look(self) -> None:
        self.say(self.lessor.look(self.clock(-1)))
        self.at(0.25, self.look)

    def call(self) -> None:
        epoch = self.lessor.epoch
        for partition in self.lessor.to_call(self.clock(-1)):
            self.tell(lambda partition=partition: self.askers[partition].lessee.called(self.owner, epoch))
        self.at(1.0, self.call)

    def kill(self) -> None:
        number = self.random.randrange(len(self.askers))
        self.askers[number].dead = True
        new = Asker(self, number, next(self.epochs))
        self.askers[number] = new
        self.at(self.random.choice((0.01, 1.0, 12.0)), new.tick)

    def cut_off(self) -> None:
        number = self.random.randrange(len(self.askers))
        self.cut[number] = self.now + self.random.choice((0.5, 3.0, 6.0, 15.0))

    def kill_owner(self) -> None:
        self.lessor = self.new_lessor()

    def run(self, seconds: float) -> None:
        for asker in self.askers:
            self.at(self.random.uniform(0, TICK), asker.tick)
        self.look()
        self.call()
        for _ in range(self.faults.kills):
            self.at(self.random.uniform(0, seconds), self.kill)
        for _ in range(self.faults.cuts):
            self.at(self.random.uniform(0, seconds), self.cut_off)
        for _ in range(self.faults.owner_kills):
            self.at(self.random.uniform(0, seconds), self.kill_owner)
        while self.events and self.events[0][0] <= seconds:
            self.now, _, what = heapq.heappop(self.events)
            what()

    def closest(self) -> float:
        """The shortest time between the begins of two requests to a group."""
        return min(
            (later.began - earlier.began for log in self.log.values() for earlier, later in itertools.pairwise(log)),
            default=self.gap,
        )


def harsh(seed: int) -> World:
    """A world in which much goes wrong."""
    chance = random.Random(seed)
    faults = Faults(
        delay=chance.choice([(0.0, 0.0), (0.0, 0.1), (0.2, 0.2), (0.0, 3.0)]),
        late=chance.choice([0.0, 0.05, 0.3]),
        lost=chance.choice([0.0, 0.1, 0.5]),
        doubled=chance.choice([0.0, 0.3]),
        drift=0.01,
        kills=chance.randrange(7),
        owner_kills=chance.randrange(5),
        cuts=chance.randrange(13),
        one_clock=chance.random() < 0.3,
    )
    world = World(seed, faults, partitions=4, groups=2, gap=chance.choice([0.1, 1.0, 4.0]))
    world.idle = chance.choice([0.0, 0.2])
    if chance.random() < 0.5:
        world.connects, world.lasts = (0.0, 0.3, 4.0, 8.0), (0.0, 0.5, 3.0, 15.0)
    return world


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_two_requests_of_a_group_are_never_closer_than_its_gap(seed: int) -> None:
    world = harsh(seed)
    world.run(60.0)
    # A partition goes by its own clock.
    assert world.closest() >= world.gap / 1.0101


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.3, 1.0, 2.5]))
def test_without_faults_no_request_begins_before_the_one_of_another_partition_has_ended(seed: int, gap: float) -> None:
    world = World(seed, Faults(delay=(0.0, 0.3), drift=0.01), partitions=4, gap=gap)
    world.connects, world.lasts = (0.0, 0.3, 2.0), (0.0, 0.5, 3.0, 7.0)
    world.run(90.0)
    (log,) = world.log.values()
    assert len({request.partition for request in log}) == 4
    for earlier, later in itertools.pairwise(log):
        assert earlier.ended is not None
        assert later.began >= earlier.ended + gap / 1.0101


@pytest.mark.parametrize("gap", [0.1, 1.0, 3.0, 10.0, 30.0])
def test_notes_that_take_a_fifth_of_a_second_cost_a_twentieth_of_the_requests_at_most(gap: float) -> None:
    world = World(7, Faults(drift=0.01), gap=gap)
    world.lasts = (0.0,)
    world.run(200 * max(1.0, min(gap, 3.0)) + 20 * gap)
    (log,) = world.log.values()
    steady = log[len(log) // 10 :]
    lasted = steady[-1].began - steady[0].began
    assert (len(steady) - 1) * gap >= 0.95 * lasted
    assert world.closest() >= gap / 1.0101


def test_with_one_clock_the_time_of_notes_passes_within_the_gap() -> None:
    world = World(7, Faults(delay=(0.1, 0.3), one_clock=True), gap=1.0)
    world.lasts = (0.0,)
    world.run(300.0)
    (log,) = world.log.values()
    assert len({request.partition for request in log}) == 8
    assert len(log) - 1 >= 0.985 * (log[-1].began - log[0].began)
    assert world.closest() >= world.gap - 1e-9


def test_partitions_that_want_a_group_all_have_a_fair_share() -> None:
    world = World(3, Faults(delay=(0.0, 0.1)), gap=0.5)
    world.run(400.0)
    (log,) = world.log.values()
    shares = [sum(request.partition == number for request in log) for number in range(8)]
    assert min(shares) >= 0.7 * max(shares)


def test_what_a_dead_partition_had_is_lent_again_within_its_lease() -> None:
    world = World(5, Faults(delay=(0.01, 0.05)), partitions=2, gap=1.0)
    world.at(30.0, lambda: setattr(world.askers[1], "dead", True))
    world.run(60.0)
    (log,) = world.log.values()
    longest = max(later.began - earlier.began for earlier, later in itertools.pairwise(log) if earlier.began > 10)
    assert longest <= LENT * DRIFT + 2 * world.gap
    assert {request.partition for request in log if request.began > 37} == {0}


def test_a_new_owner_lends_as_soon_as_all_have_dropped_what_an_older_one_lent() -> None:
    world = World(5, Faults(delay=(0.01, 0.05)), partitions=4, gap=1.0)
    world.at(30.0, world.kill_owner)
    world.run(60.0)
    (log,) = world.log.values()
    longest = max(later.began - earlier.began for earlier, later in itertools.pairwise(log) if earlier.began > 10)
    assert longest <= 1.0 + 2 * world.gap  # it calls each second


def test_a_new_owner_waits_for_a_partition_that_does_not_answer() -> None:
    lessor = Lessor(7, 2, 100.0)
    lessee = Lessee(1, lambda _: 0, lambda _: 0.0)
    assert lessee.wait("group", 1.0, 50.0) is None
    lessee.called(0, 7)
    ((_, question),) = lessee.questions(1, 50.0)
    ((_, answer),) = lessor.heard(1, question, 100.1)
    assert answer.turns == ()
    assert lessor.to_call(100.2) == [0]
    assert lessor.look(100.0 + LENT) == []
    assert lessor.to_call(100.0 + LENT * DRIFT) == []
