"""What a score makes of a URL: its class, and a place further forward if a better one comes while it waits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Family
from crawler.base.settings import CLASSES, PolitenessSettings
from crawler.frontier import Done, Entry, Frontier, Lease, Limits, MemoryLimits, Retry, class_of_score
from crawler.job.store import MemoryStore

NOW = 1_700_000_000.0
TIGHT = MemoryLimits(waiting=1, resting=1, idle=1, read_ahead=2, rows=3)
HOST = "http://h.test/"

scores = st.floats(0.0, 1.0)


@given(scores, scores)
def test_a_better_score_is_never_a_later_class(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert CLASSES - 1 >= class_of_score(less) >= class_of_score(more) >= 0


def test_each_class_has_an_eighth_of_the_scores() -> None:
    assert [class_of_score(number / CLASSES) for number in range(CLASSES)] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert class_of_score(1.0) == 0
    assert class_of_score(0.5) == 3, "the middle, as for a URL of which nobody knows anything"


class World:
    """A frontier that keeps places over a store with one host, and another that pushes it out of memory."""

    def __init__(self, memory: MemoryLimits) -> None:
        self.store = MemoryStore()
        self._memory = memory
        self.frontier = self._made()

    def _made(self) -> Frontier:
        politeness = PolitenessSettings(delay=0.0, per_host=2, session_pages=1_000)
        made = Frontier(self.store, politeness, Limits(memory=self._memory), robots=False)
        made.keep_places(self.store)
        return made

    def restart(self) -> None:
        number, hosts = self.frontier.next_number, self.frontier.hosts
        self.frontier = self._made()
        self.frontier.load(NOW, next_number=number, hosts=hosts)

    def add(self, entries: list[Entry]) -> None:
        batch = self.store.batch()
        self.frontier.admit(entries, batch)
        self.store.write(batch)
        self.frontier.written()

    def found_again(self, classes: Mapping[str, int]) -> int:
        batch = self.store.batch()
        moved = self.frontier.raise_classes(classes, batch)
        self.store.write(batch)
        self.frontier.written()
        return moved

    def take(self) -> Lease:
        lease = self.frontier.take(NOW)
        assert lease is not None
        assert lease.entry is not None
        return lease

    def finish(self, lease: Lease, end: Done | Retry | None = None) -> None:
        batch = self.store.batch()
        self.frontier.finish(lease, end or Done(), NOW, batch)
        self.store.write(batch)
        self.frontier.written()

    def drain(self) -> list[Entry]:
        taken = []
        while (lease := self.frontier.take(NOW)) is not None:
            assert lease.entry is not None
            if lease.entry.href.startswith(HOST):
                taken.append(lease.entry)
            self.finish(lease)
        return taken


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 7), min_size=1, max_size=4)),
        st.tuples(st.just("again"), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 7)), max_size=6)),
        st.tuples(st.sampled_from(("take", "restart")), st.just([])),
    ),
    max_size=25,
)


@given(steps, st.sampled_from((MemoryLimits(), TIGHT)))
def test_urls_move_forward_and_never_back_whatever_is_in_memory(
    steps: list[tuple[str, list[object]]], memory: MemoryLimits
) -> None:
    world = World(memory)
    waiting: dict[str, tuple[int, int]] = {}  # href -> class, number
    made = 0
    for what, given_ in steps:
        if what == "add":
            entries = [Entry(f"{HOST}{made + n}", 0, priority=int(str(each))) for n, each in enumerate(given_)]
            waiting |= {entry.href: (entry.priority, made + n) for n, entry in enumerate(entries)}
            made += len(entries)
            world.add([*entries, Entry(f"http://other.test/{made}", 0)])
        elif what == "again":
            better = {f"{HOST}{number}": priority for number, priority in given_}  # type: ignore[misc, attr-defined]
            moves = {href: each for href, each in better.items() if href in waiting and each < waiting[href][0]}
            assert world.found_again(better) == len(moves)
            waiting |= {href: (each, waiting[href][1]) for href, each in moves.items()}
        elif what == "take":
            lease = world.frontier.take(NOW)
            if lease is not None and lease.entry is not None:
                if lease.entry.href.startswith(HOST):
                    assert lease.entry.href == min(waiting, key=lambda href: waiting[href])
                    assert lease.entry.priority == waiting.pop(lease.entry.href)[0]
                world.finish(lease)
        else:
            world.restart()
    assert [entry.href for entry in world.drain()] == sorted(waiting, key=lambda href: waiting[href])
    assert world.store.scan(Family.META, b"") == [], "a place goes with its URL"


@pytest.mark.parametrize("memory", [MemoryLimits(), TIGHT])
def test_what_is_in_flight_stays_and_moves_once_it_waits_again(memory: MemoryLimits) -> None:
    world = World(memory)
    world.add([Entry(HOST, 0, priority=3)])
    lease = world.take()
    assert world.found_again({HOST: 1}) == 0
    world.frontier.release(lease)
    assert world.found_again({HOST: 1}) == 1
    assert [entry.priority for entry in world.drain()] == [1]


def test_what_waits_for_another_try_stays() -> None:
    world = World(MemoryLimits())
    world.add([Entry(HOST, 0, priority=3)])
    lease = world.take()
    assert lease.entry is not None
    world.finish(lease, Retry(lease.entry._replace(tries=1), 0.0))
    assert world.found_again({HOST: 1}) == 0
    assert [entry.priority for entry in world.drain()] == [3]
    assert world.store.scan(Family.META, b"") == []


def test_a_place_that_a_run_without_scores_left_means_nothing() -> None:
    world = World(MemoryLimits())
    world.add([Entry(HOST, 0, priority=3)])
    kept = world.store.scan(Family.META, b"")
    assert [entry.href for entry in world.drain()] == [HOST]
    batch = world.store.batch()
    for key, value in kept:
        batch.put(Family.META, key, value)
    world.store.write(batch)
    assert world.found_again({HOST: 1}) == 0
    assert world.store.scan(Family.META, b"") == []


def test_without_scores_nothing_is_kept_and_nothing_moves() -> None:
    store = MemoryStore()
    frontier, batch = Frontier(store, PolitenessSettings(), robots=False), store.batch()
    frontier.admit([Entry(HOST, 0, priority=3)], batch)
    store.write(batch)
    assert store.scan(Family.META, b"") == []
    assert frontier.raise_classes({HOST: 0}, store.batch()) == 0
