"""Within a host, revisits and first visits share the turns, whatever their classes."""

from __future__ import annotations

from collections import Counter

import pytest

from crawler.base.settings import PolitenessSettings
from crawler.frontier import Done, Entry, Frontier, Limits, MemoryLimits, Order
from crawler.job.store import MemoryStore

NOW = 1_700_000_000.0
TIGHT = MemoryLimits(waiting=1, resting=1, idle=1, read_ahead=2, rows=3)


class Queues:
    """A frontier over a store, and what it hands out."""

    def __init__(self, limits: Limits, order: Order = Order.BREADTH) -> None:
        self.store = MemoryStore()
        self._limits, self._order = limits, order
        self.frontier = self._made()
        self.names = 0

    def _made(self) -> Frontier:
        politeness = PolitenessSettings(delay=0.0)
        return Frontier(self.store, politeness, self._limits, order=self._order, robots=False)

    def add(self, number: int, priority: int, *, revisit: bool, host: str = "h") -> None:
        entries = []
        for _ in range(number):
            self.names += 1
            href = f"http://{host}.test/{self.names}"
            entries.append(Entry(href, priority, priority=priority, revisit=revisit))
        batch = self.store.batch()
        self.frontier.admit(entries, batch)
        self.store.write(batch)
        self.frontier.written()

    def restart(self) -> None:
        number, hosts = self.frontier.next_number, self.frontier.hosts
        self.frontier = self._made()
        self.frontier.load(NOW, next_number=number, hosts=hosts)

    def take(self, host: str = "h") -> Entry:
        """The next URL of a host; those of others are handed back."""
        others = []
        while (lease := self.frontier.take(NOW)) is not None and lease.host.name != f"{host}.test:80":
            others.append(lease)
        assert lease is not None
        assert lease.entry is not None
        batch = self.store.batch()
        self.frontier.finish(lease, Done(), NOW, batch)
        self.store.write(batch)
        for other in others:
            self.frontier.release(other)
        self.frontier.written()
        return lease.entry

    def kinds(self, number: int) -> Counter[bool]:
        return Counter(self.take().revisit for _ in range(number))


@pytest.mark.parametrize(("of_revisits", "of_new"), [(0, 7), (7, 0), (3, 3)])
@pytest.mark.parametrize("memory", [MemoryLimits(), TIGHT])
@pytest.mark.parametrize("order", Order)
def test_both_kinds_have_half_of_the_turns(of_revisits: int, of_new: int, memory: MemoryLimits, order: Order) -> None:
    queues = Queues(Limits(memory=memory), order)
    queues.add(30, of_new, revisit=False)
    queues.add(30, of_revisits, revisit=True)
    assert queues.kinds(20) == {True: 10, False: 10}


@pytest.mark.parametrize(("share", "revisits"), [(0.0, 0), (0.1, 2), (0.75, 15), (1.0, 20)])
def test_the_share_is_a_setting(share: float, revisits: int) -> None:
    queues = Queues(Limits(revisits=share))
    queues.add(30, 0, revisit=True)
    queues.add(30, 0, revisit=False)
    assert queues.kinds(20)[True] == revisits


@pytest.mark.parametrize("alone", [True, False])
def test_one_kind_alone_has_all_turns(alone: bool) -> None:
    queues = Queues(Limits(revisits=0.1 if alone else 0.9))
    queues.add(10, 0, revisit=not alone)
    assert queues.kinds(10) == {not alone: 10}
    queues.add(10, 0, revisit=alone)
    assert queues.kinds(10) == {alone: 10}


def test_neither_kind_waits_for_the_other_though_the_host_leaves_memory_after_each_turn() -> None:
    queues = Queues(Limits(memory=TIGHT))
    for host in ("a", "b", "h"):
        queues.add(30, 0, revisit=True, host=host)
        queues.add(30, 5, revisit=False, host=host)
    seen: Counter[bool] = Counter()
    for _ in range(12):
        seen[queues.take().revisit] += 1
        queues.restart()
    assert seen == {True: 6, False: 6}


def test_revisits_come_in_the_order_in_which_they_were_queued_whatever_their_class() -> None:
    queues = Queues(Limits(memory=MemoryLimits(read_ahead=2)))
    for priority in (5, 0, 7, 3):
        queues.add(2, priority, revisit=True)
    queues.restart()
    assert [queues.take().priority for _ in range(8)] == [5, 5, 0, 0, 7, 7, 3, 3]


def test_a_url_that_is_handed_back_costs_its_kind_no_turn() -> None:
    queues = Queues(Limits())
    queues.add(5, 0, revisit=True)
    queues.add(5, 0, revisit=False)
    for expected in (False, True, False):
        for _ in range(2):
            lease = queues.frontier.take(NOW)
            assert lease is not None
            assert lease.entry is not None
            assert lease.entry.revisit is expected
            queues.frontier.release(lease)
        assert queues.take().revisit is expected
