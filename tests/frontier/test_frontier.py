"""The behaviour of the frontier, the same over every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawler.base.kv import Family, Store
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Completion, Done, Lease, Retry, RobotsKnown
from crawler.frontier.limits import Limits
from crawler.frontier.politeness import HoldReason
from crawler.job.store.rocks import RocksStore
from tests.frontier.hosts import throttled
from tests.memory_store import MemoryStore

NOW = 1_700_000_000.0


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "store")
    yield made
    made.close()


Make = Callable[..., Frontier]


@pytest.fixture
def make(store: Store) -> Make:
    def frontier(limits: Limits | None = None, *, robots: bool = False, **politeness: float) -> Frontier:
        return Frontier(store, PolitenessSettings(**politeness), limits, robots=robots)

    return frontier


def admit(frontier: Frontier, store: Store, *hrefs: str) -> None:
    batch = store.batch()
    frontier.admit([Entry(href, 0) for href in hrefs], batch)
    store.write(batch)


def finish(frontier: Frontier, store: Store, lease: Lease, now: float, end: Completion | None = None) -> None:
    batch = store.batch()
    frontier.finish(lease, end or Done(), now, batch)
    store.write(batch)


def href(lease: Lease | None) -> str:
    assert lease is not None
    assert lease.entry is not None
    return lease.entry.href


def urls(host: int, count: int) -> list[str]:
    return [f"http://h{host}.test/{number}" for number in range(count)]


def test_a_host_is_taken_in_the_order_admitted_and_after_its_gap(store: Store, make: Make) -> None:
    frontier = make(delay=1.0)
    admit(frontier, store, *urls(0, 3))
    lease = frontier.take(NOW)
    assert href(lease) == "http://h0.test/0"
    assert frontier.take(NOW + 100) is None, "the host is leased: nobody else may have it"
    assert lease is not None
    finish(frontier, store, lease, NOW + 5)
    assert frontier.next_ready() == NOW + 6
    assert frontier.take(NOW + 5.999) is None
    second = frontier.take(NOW + 6)
    assert href(second) == "http://h0.test/1"


def test_lease_slots_bound_the_requests_to_one_host(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, per_host=2)
    admit(frontier, store, *urls(0, 5))
    first, second = frontier.take(NOW), frontier.take(NOW)
    assert {href(first), href(second)} == {"http://h0.test/0", "http://h0.test/1"}
    assert frontier.take(NOW) is None
    assert first is not None
    finish(frontier, store, first, NOW)
    assert href(frontier.take(NOW)) == "http://h0.test/2"


def test_a_retry_waits_its_time_and_others_go_first(store: Store, make: Make) -> None:
    frontier = make(delay=0.0)
    admit(frontier, store, *urls(0, 2))
    lease = frontier.take(NOW)
    assert lease is not None
    assert lease.entry is not None
    batch = store.batch()
    frontier.finish(lease, Retry(lease.entry._replace(tries=1), 10.0), NOW, batch)
    store.write(batch)
    other = frontier.take(NOW)
    assert href(other) == "http://h0.test/1"
    assert other is not None
    finish(frontier, store, other, NOW)
    assert frontier.take(NOW + 9.99) is None
    again = frontier.take(NOW + 10.01)
    assert again is not None
    assert again.entry == Entry("http://h0.test/0", 0, tries=1)
    finish(frontier, store, again, NOW + 11)
    assert frontier.next_ready() is None
    assert frontier.queued == 0


def test_429_holds_the_whole_host(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, backoff_first=5.0, backoff_max=12.0, jitter=0.0)
    admit(frontier, store, *urls(0, 3))
    now = NOW
    for expected in (5.0, 10.0, 12.0):
        lease = frontier.take(now)
        assert lease is not None
        batch = store.batch()
        frontier.finish(lease, throttled(lease.entry), now, batch)
        store.write(batch)
        assert frontier.next_ready() == pytest.approx(now + expected)
        now += expected + 0.01
    lease = frontier.take(now)
    assert lease is not None
    batch = store.batch()
    frontier.finish(lease, throttled(lease.entry, 7.0), now, batch)
    assert frontier.next_ready() == pytest.approx(now + 7.0), "what the server asks for wins over the back-off"
    assert lease.host.politeness.hold_reason is HoldReason.RETRY_AFTER


def test_robots_comes_first_and_keeps_the_gap(store: Store, make: Make) -> None:
    frontier = make(robots=True, delay=1.0, per_host=2)
    admit(frontier, store, *urls(0, 2))
    robots = frontier.take(NOW)
    assert robots is not None
    assert robots.entry is None
    assert frontier.peek(robots.host).href == "http://h0.test/0"
    assert frontier.take(NOW + 10) is None, "no page before robots.txt is known"
    batch = store.batch()
    frontier.finish(robots, RobotsKnown(NOW + 86_400, 3.0), NOW + 10, batch)
    store.write(batch)
    assert frontier.take(NOW + 12.9) is None
    assert href(frontier.take(NOW + 13)) == "http://h0.test/0"


def test_a_url_that_was_never_asked_costs_no_gap(store: Store, make: Make) -> None:
    frontier = make(delay=5.0)
    admit(frontier, store, *urls(0, 3))
    first = frontier.take(NOW)
    assert first is not None
    finish(frontier, store, first, NOW + 1)
    refused = frontier.take(NOW + 6)
    assert refused is not None
    finish(frontier, store, refused, NOW + 6, Done(request=None))
    assert href(frontier.take(NOW + 6)) == "http://h0.test/2"


def test_released_leases_are_the_next_again(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, per_host=2)
    admit(frontier, store, *urls(0, 3))
    lease = frontier.take(NOW)
    assert lease is not None
    frontier.release(lease)
    assert (frontier.queued, frontier.leased) == (3, 0)
    assert href(frontier.take(NOW)) == "http://h0.test/0"


def test_a_queue_longer_than_the_read_ahead_comes_whole_and_in_order(store: Store, make: Make) -> None:
    frontier = make(delay=0.0)
    wanted = urls(0, 200)
    admit(frontier, store, *wanted[:150])
    got = []
    now = NOW
    for step in range(200):
        if step == 60:
            admit(frontier, store, *wanted[150:])
        lease = frontier.take(now)
        assert lease is not None
        got.append(href(lease))
        finish(frontier, store, lease, now)
    assert got == wanted
    assert store.scan(Family.PENDING, b"") == []


def test_a_frontier_taken_up_again_holds_what_was_not_finished(store: Store, make: Make) -> None:
    frontier = make(delay=1.0)
    admit(frontier, store, *urls(0, 3), *urls(1, 1))
    done = frontier.take(NOW)
    assert done is not None
    finish(frontier, store, done, NOW)
    assert frontier.take(NOW) is not None, "in flight when the process dies"
    resumed = make(delay=1.0)
    resumed.load(NOW + 0.5, next_number=frontier.next_number)
    assert resumed.queued == 3
    assert resumed.take(NOW + 1.4) is None, "a request may have been under way: the gap starts anew"
    taken = set()
    now = NOW + 1.5
    while resumed.queued:
        lease = resumed.take(now)
        if lease is not None:
            taken.add(href(lease))
            finish(resumed, store, lease, now)
        now += 0.5
    assert taken == {"http://h0.test/1", "http://h0.test/2", "http://h1.test/0"}


def test_a_hold_outlives_the_process_but_not_what_the_rules_allow(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, max_retry_after=3600.0)
    admit(frontier, store, *urls(0, 1))
    lease = frontier.take(NOW)
    assert lease is not None
    batch = store.batch()
    frontier.finish(lease, throttled(lease.entry, 1800.0), NOW, batch)
    store.write(batch)
    resumed = make(delay=0.0)
    resumed.load(NOW + 60, next_number=9)
    assert resumed.next_ready() == pytest.approx(NOW + 1800, abs=0.01)
    set_back = make(delay=0.0)
    set_back.load(NOW - 100_000, next_number=9)
    assert set_back.next_ready() == pytest.approx(NOW - 100_000 + 3600), "the clock was set back: no longer than that"
    assert href(set_back.take(NOW - 96_000)) == "http://h0.test/0"
