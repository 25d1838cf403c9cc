"""Pending entries get another class: whatever is in memory, they are taken in the order of their new classes."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Family
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry, decode_entry, split_pending_key
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Done, Lease, Retry
from crawler.frontier.limits import Limits, MemoryLimits
from crawler.frontier.order import Order
from tests.memory_store import MemoryStore

NOW = 1_700_000_000.0
TIGHT = MemoryLimits(waiting=1, resting=1, idle=1, read_ahead=2, rows=3)


class World:
    """A frontier over a store with one host, and another that pushes it out of memory."""

    def __init__(self, limits: Limits, order: Order = Order.BREADTH) -> None:
        self.store = MemoryStore()
        self._limits, self._order = limits, order
        self.frontier = self._made()
        self.now = NOW

    def _made(self) -> Frontier:
        politeness = PolitenessSettings(delay=0.0, per_host=2)
        return Frontier(self.store, politeness, self._limits, order=self._order, robots=False)

    def restart(self) -> None:
        number, hosts = self.frontier.next_number, self.frontier.hosts
        self.frontier = self._made()
        self.frontier.load(self.now, next_number=number, hosts=hosts)

    def add(self, entries: list[Entry], *, first: bool = False) -> None:
        batch = self.store.batch()
        self.frontier.admit(entries, batch, first=first)
        self.store.write(batch)
        self.frontier.written()

    def change(self, hrefs: set[str], priority: int) -> int:
        stored = [(split_pending_key(key)[1], decode_entry(row)) for key, row in self.store.scan(Family.PENDING, b"")]
        rows = [(slot, entry._replace(priority=priority)) for slot, entry in stored if entry.href in hrefs]
        batch = self.store.batch()
        changed = self.frontier.change_class(rows, batch)
        self.store.write(batch)
        self.frontier.written()
        return changed

    def take(self) -> Lease | None:
        return self.frontier.take(self.now)

    def finish(self, lease: Lease, end: Done | Retry | None = None) -> None:
        batch = self.store.batch()
        self.frontier.finish(lease, end or Done(), self.now, batch)
        self.store.write(batch)
        self.frontier.written()

    def drain(self, host: str = "h") -> list[Entry]:
        taken = []
        while (lease := self.take()) is not None:
            assert lease.entry is not None
            if lease.host.name == f"{host}.test:80":
                taken.append(lease.entry)
            self.finish(lease)
        return taken


classes = st.integers(0, 7)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), classes),
        st.tuples(st.just("change"), classes),
        st.tuples(st.sampled_from(("take", "restart")), st.just(0)),
    ),
    max_size=30,
)


@given(steps, st.sampled_from((MemoryLimits(), TIGHT)), st.integers(0, 2**16))
def test_urls_are_taken_by_their_new_classes_whatever_is_in_memory(
    steps: list[tuple[str, int]], memory: MemoryLimits, seed: int
) -> None:
    world, chance = World(Limits(memory=memory)), random.Random(seed)
    waiting: dict[str, tuple[int, int]] = {}  # href -> class, number
    for what, priority in steps:
        if what == "add":
            entries = [Entry(f"http://h.test/{world.frontier.next_number + n}", 0, priority=priority) for n in range(3)]
            waiting |= {entry.href: (priority, world.frontier.next_number + n) for n, entry in enumerate(entries)}
            world.add([*entries, Entry(f"http://other.test/{world.frontier.next_number}", 0)])
        elif what == "change":
            chosen = {href for href in waiting if chance.random() < 0.4}
            assert world.change(chosen, priority) == len(chosen)
            waiting |= {href: (priority, waiting[href][1]) for href in chosen}
        elif what == "take":
            lease = world.take()
            if lease is not None and lease.entry is not None:
                if lease.host.name == "h.test:80":
                    assert lease.entry.href == min(waiting, key=lambda href: waiting[href])
                    assert lease.entry.priority == waiting.pop(lease.entry.href)[0]
                world.finish(lease)
        else:
            world.restart()
    assert world.frontier.queued == len(world.store.scan(Family.PENDING, b""))
    assert [entry.href for entry in world.drain()] == sorted(waiting, key=lambda href: waiting[href])
    assert world.store.scan(Family.PENDING, b"") == []
