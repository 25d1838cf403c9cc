"""The frontier against a model that keeps everything in plain lists: whatever happens, in whatever order, nothing is
lost, nothing is handed out twice, gaps are kept, no host that is ready is left waiting, and the order is as promised.

Memory is cut to almost nothing, so that windows overflow, hosts are put away and taken up again all the time."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crawler.base.kv import Family, Store
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import CLASSES, Entry, EntryError, decode_entry, is_retry, split_pending_key
from crawler.frontier.frontier import Frontier
from crawler.frontier.host import decode_host, host_name
from crawler.frontier.lease import Done, Lease, Retry, TakenBack
from crawler.frontier.limits import Limits, MemoryLimits
from crawler.frontier.order import Order
from crawler.job.store.rocks import RocksStore
from tests.examples import TIMES
from tests.memory_store import MemoryStore

START = 1_700_000_000.0
NAMES = ("h0.test:80", "h0.test:8080", "h1.test:80", "h2.test:80")  # the first two share a gap and slots
ROUNDING = 1e-6  # seconds: less is the rounding of times of this size
SMALL = MemoryLimits(waiting=1, resting=1, idle=1, read_ahead=2, rows=3)


@dataclass
class Known:
    """What the model knows of a pending URL."""

    entry: Entry
    number: int
    due: float | None = None  # of a retry
    out: bool = False


@dataclass
class Site:
    """What the model knows of a host."""

    answered: float = -math.inf  # no request before the gap after this is over
    reserved: float = -math.inf  # a lease given back may have reserved a gap that was never used
    leases: list[Lease] = field(default_factory=list)
    urls: dict[str, Known] = field(default_factory=dict)


class FrontierMachine(RuleBasedStateMachine):
    """Over a store in memory; a subclass has one on RocksDB."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make_store()
        self.now = START
        self.sites: dict[str, Site] = {}
        self.names = 0
        self.begun = -math.inf  # when the process before this one died

    def make_store(self) -> Store:
        return MemoryStore()

    def teardown(self) -> None:
        self.store.close()

    @initialize(order=st.sampled_from(Order), per_host=st.integers(1, 2), delay=st.sampled_from([0.0, 1.0]))
    def begin(self, order: Order, per_host: int, delay: float) -> None:
        self.order, self.per_host, self.delay = order, per_host, delay
        self.frontier = self.made()

    def made(self) -> Frontier:
        politeness = PolitenessSettings(delay=self.delay, per_host=self.per_host)
        return Frontier(self.store, politeness, Limits(memory=SMALL), order=self.order, robots=False)

    def write(self, batch: Any) -> None:
        self.store.write(batch)
        self.frontier.written()

    # -- what happens ------------------------------------------------------------------------------------------

    @rule(
        found=st.lists(
            st.tuples(
                st.integers(0, 3),
                st.integers(0, CLASSES - 1),
                st.integers(0, 3),
                st.sampled_from([0.0, 0.1, 0.9]),
                st.booleans(),
            ),
            min_size=1,
            max_size=8,
        )
    )
    def admit(self, found: list[tuple[int, int, int, float, bool]]) -> None:
        entries = []
        for host, priority, depth, score, revisit in found:
            self.names += 1
            name = NAMES[host]
            href = f"http://{name.removesuffix(':80')}/{self.names}"
            entry = Entry(href, depth, priority=priority, score=score, revisit=revisit)
            number = self.frontier.next_number + len(entries)
            self.sites.setdefault(name, Site()).urls[entry.href] = Known(entry, number)
            entries.append(entry)
        batch = self.store.batch()
        self.frontier.admit(entries, batch)
        self.write(batch)

    @rule()
    def take(self) -> None:
        lease = self.frontier.take(self.now)
        if lease is None:
            for name in self.sites:
                assert not self.surely_ready(name), f"{name} is ready and was not handed out"
            ready = self.frontier.next_ready()
            assert ready is None or ready > self.now
            return
        site = self.sites[lease.host.name]
        mates = self.mates(lease.host.name)
        leases = [other for mate in mates for other in mate.leases]
        assert len(leases) < self.per_host
        assert all(self.now >= mate.answered + self.delay - ROUNDING for mate in mates)
        assert all(self.now >= other.taken_at + self.delay - ROUNDING for other in leases)
        known = site.urls[lease.entry.href]
        assert not known.out, "handed out twice"
        assert known in self.next_of(site)
        assert lease.entry.priority == known.entry.priority
        known.out = True
        site.leases.append(lease)
        site.reserved = self.now

    @precondition(lambda self: any(site.leases for site in self.sites.values()))
    @rule(data=st.data(), end=st.sampled_from(["finish", "finish", "refuse", "retry", "release", "take back"]))
    def end(self, data: st.DataObject, end: str) -> None:
        busy = sorted(name for name, site in self.sites.items() if site.leases)
        site = self.sites[data.draw(st.sampled_from(busy))]
        lease = site.leases.pop(data.draw(st.integers(0, len(site.leases) - 1)))
        batch = self.store.batch()
        known = site.urls[lease.entry.href]
        known.out = False
        if end == "release":
            self.frontier.release(lease)
            return
        if end == "take back":
            self.frontier.finish(lease, TakenBack(), self.now, batch)
        elif end == "retry":
            wait = data.draw(st.sampled_from([0.0, 3.0, 20.0]))
            known.number, known.due = self.frontier.next_number, math.ceil((self.now + wait) * 1000) / 1000
            known.entry = known.entry._replace(tries=min(known.entry.tries + 1, 255))
            self.frontier.finish(lease, Retry(known.entry, wait), self.now, batch)
        else:
            del site.urls[lease.entry.href]
            self.frontier.finish(lease, Done() if end == "finish" else Done(request=None), self.now, batch)
        if end != "refuse":
            site.answered = self.now
            site.reserved = self.now
        self.write(batch)

    @rule(seconds=st.sampled_from([0.001, 0.5, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def crash(self) -> None:
        """What was in flight is pending again, and may have been asked for a moment ago."""
        number, hosts = self.frontier.next_number, self.frontier.hosts
        self.frontier = self.made()
        self.frontier.load(self.now, next_number=number, hosts=hosts)
        self.begun = self.now
        for site in self.sites.values():
            site.leases.clear()
            for known in site.urls.values():
                known.out = False
            if site.urls:
                site.answered = site.reserved = self.now

    # -- what holds --------------------------------------------------------------------------------------------

    def rank(self, known: Known) -> tuple[int, ...]:
        entry = known.entry
        return entry.priority, -known.number if self.order is Order.DEPTH else entry.depth, known.number

    def next_of(self, site: Site) -> list[Known]:
        """What may be taken next; by score any of the first few, if it is of the first one's class. A revisit and a
        first visit may both be."""
        waiting = [known for known in site.urls.values() if not known.out]
        due = [known for known in waiting if known.due is not None and known.due <= self.now]
        if due:
            return [min(due, key=lambda known: (known.due, known.number))]
        window = SMALL.read_ahead if self.order is Order.SCORE else 1
        fresh = [known for known in waiting if known.due is None]
        first = sorted((known for known in fresh if not known.entry.revisit), key=self.rank)[:window]
        again = sorted((known for known in fresh if known.entry.revisit), key=lambda known: known.number)[:1]
        return [*(known for known in first if known.entry.priority == first[0].entry.priority), *again]

    def mates(self, name: str) -> list[Site]:
        """The hosts of the name, on all ports."""
        return [site for other, site in self.sites.items() if other.partition(":")[0] == name.partition(":")[0]]

    def surely_ready(self, name: str) -> bool:
        mates = self.mates(name)
        free = sum(len(mate.leases) for mate in mates) < self.per_host
        held = max(max(mate.answered, mate.reserved) for mate in mates)
        return (
            free and self.now >= max(held, self.begun) + self.delay + ROUNDING and bool(self.next_of(self.sites[name]))
        )

    @invariant()
    def nothing_is_lost(self) -> None:
        pending = {href for site in self.sites.values() for href in site.urls}
        rows = self.store.scan(Family.PENDING, b"")
        assert sorted(decode_entry(value).href for _, value in rows) == sorted(pending)
        out = sum(known.out for site in self.sites.values() for known in site.urls.values())
        if hasattr(self, "frontier"):
            assert (self.frontier.queued, self.frontier.leased) == (len(pending) - out, out)
            assert self.frontier.hosts_pending == sum(bool(site.urls) for site in self.sites.values())

    @invariant()
    def records_agree_with_the_queues(self) -> None:
        firsts: dict[str, bytes] = {}
        sizes: dict[str, list[int]] = {}
        for key, _ in self.store.scan(Family.PENDING, b""):
            name, slot = split_pending_key(key)
            size = sizes.setdefault(name, [0, 0])
            size[0] += 1
            size[1] += is_retry(slot)
            if not is_retry(slot):
                firsts.setdefault(name, slot)
        for key, value in self.store.scan(Family.HOSTS, b""):
            host = decode_host(host_name(key), value)
            assert [host.queue.size, host.queue.retry_size] == sizes.get(host.name, [0, 0])
            assert host.queue.cursor <= firsts.get(host.name, b"\xff")


class RocksFrontierMachine(FrontierMachine):
    """The same over RocksDB."""

    def make_store(self) -> Store:
        self.directory = tempfile.TemporaryDirectory()
        return RocksStore(Path(self.directory.name) / "store")

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


TestFrontier = FrontierMachine.TestCase
TestFrontier.settings = settings(max_examples=33 * TIMES, stateful_step_count=40)
TestFrontierOnRocks = RocksFrontierMachine.TestCase
TestFrontierOnRocks.settings = settings(max_examples=5 * TIMES, stateful_step_count=40)


def test_a_queue_that_lacks_what_its_record_counts_is_named() -> None:
    store = MemoryStore()
    frontier = Frontier(store, PolitenessSettings(delay=0.0), robots=False)
    batch = store.batch()
    frontier.admit([Entry(f"http://h.test/{number}", 0) for number in range(40)], batch)
    store.write(batch)
    batch = store.batch()
    batch.delete_range(Family.PENDING, b"", b"\xff")
    store.write(batch)
    resumed = Frontier(store, PolitenessSettings(delay=0.0), robots=False)
    resumed.load(START, next_number=40)
    with pytest.raises(EntryError, match="h\\.test:80"):
        resumed.take(START + 1)
