"""The behaviour of the frontier, the same over every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawler.base.kv import Family, Store
from crawler.base.settings import PolitenessSettings
from crawler.frontier import (
    AddressKnown,
    Completion,
    Done,
    Entry,
    FailureClass,
    Frontier,
    HoldReason,
    Lease,
    Limits,
    MemoryLimits,
    RequestOutcome,
    Retry,
    RobotsKnown,
    RobotsLater,
    TakenBack,
)
from crawler.job.store import MemoryStore, RocksStore
from crawler.url.urls import host_key
from tests.frontier.hosts import throttled

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


def test_hosts_take_turns(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, session_pages=1)
    for host in range(3):
        admit(frontier, store, *urls(host, 2))
    order = []
    now = NOW
    while (lease := frontier.take(now)) is not None:
        order.append(href(lease))
        finish(frontier, store, lease, now)
        now += 0.1
    assert [url[8] for url in order] == ["0", "1", "2", "0", "1", "2"]


def test_a_host_that_is_due_keeps_its_turn_when_another_of_its_requests_ends(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, per_host=2)
    admit(frontier, store, *urls(0, 5), *urls(1, 5))
    for _ in range(2):  # the first session of a host is one page
        if (lease := frontier.take(NOW)) is not None:
            finish(frontier, store, lease, NOW)
    out = [lease for _ in range(4) if (lease := frontier.take(NOW + 1)) is not None]
    one, other = ([lease for lease in out if lease.host.name == name] for name in ("h0.test:80", "h1.test:80"))
    finish(frontier, store, one[0], NOW + 2)
    finish(frontier, store, other[0], NOW + 3)
    finish(frontier, store, one[1], NOW + 4)
    assert href(frontier.take(NOW + 5)).startswith("http://h0.test/")


def test_lease_slots_bound_the_requests_to_one_host(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, per_host=2)
    admit(frontier, store, *urls(0, 5))
    first, second = frontier.take(NOW), frontier.take(NOW)
    assert {href(first), href(second)} == {"http://h0.test/0", "http://h0.test/1"}
    assert frontier.take(NOW) is None
    assert first is not None
    finish(frontier, store, first, NOW)
    assert href(frontier.take(NOW)) == "http://h0.test/2"


def test_with_several_slots_the_gap_still_parts_the_starts(store: Store, make: Make) -> None:
    frontier = make(delay=2.0, per_host=4)
    admit(frontier, store, *urls(0, 5))
    assert frontier.take(NOW) is not None
    assert frontier.take(NOW + 1.9) is None
    assert frontier.take(NOW + 2.0) is not None


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


def test_answers_429_to_requests_already_under_way_are_one_event(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, per_host=3, backoff_first=5.0)
    admit(frontier, store, *urls(0, 3))
    leases = [frontier.take(NOW) for _ in range(3)]
    for lease in leases:
        assert lease is not None
        batch = store.batch()
        frontier.finish(lease, throttled(lease.entry), NOW + 1, batch)
        store.write(batch)
        assert lease.host.failures.backoff == 1


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


def test_robots_that_cannot_be_had_is_asked_again_later(store: Store, make: Make) -> None:
    frontier = make(robots=True, delay=0.0)
    admit(frontier, store, *urls(0, 1))
    lease = frontier.take(NOW)
    assert lease is not None
    batch = store.batch()
    frontier.finish(lease, RobotsLater(20.0), NOW, batch)
    store.write(batch)
    assert frontier.next_ready() == NOW + 20
    again = frontier.take(NOW + 20)
    assert again is not None
    assert again.entry is None
    assert again.host.politeness.robots_tries == 1


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


def test_idle_hosts_leave_no_trace_in_memory_and_keep_their_gap(store: Store, make: Make) -> None:
    frontier = make(Limits(memory=MemoryLimits(idle=1)), delay=10.0)
    for host in range(4):
        admit(frontier, store, *urls(host, 1))
    for _ in range(4):
        lease = frontier.take(NOW)
        assert lease is not None
        finish(frontier, store, lease, NOW)
    assert frontier.hosts_pending == 0
    admit(frontier, store, "http://h0.test/new")
    assert frontier.next_ready() == NOW + 10
    assert frontier.hosts == 4


def test_an_idle_host_of_a_clock_that_was_set_back_waits_no_longer_than_its_gap(store: Store, make: Make) -> None:
    frontier = make(delay=2.0)
    admit(frontier, store, *urls(0, 1))
    lease = frontier.take(NOW)
    assert lease is not None
    finish(frontier, store, lease, NOW)
    resumed = make(delay=2.0)
    resumed.load(NOW - 3600, next_number=9)
    admit(resumed, store, "http://h0.test/new")
    ready = resumed.next_ready()
    assert ready is not None
    assert ready <= NOW - 3600 + 2.0


def test_a_retry_stored_before_older_ones_of_a_clock_that_was_set_back(store: Store, make: Make) -> None:
    frontier = make(delay=0.0, per_host=2)
    admit(frontier, store, *urls(0, 2))
    for _ in range(2):
        lease = frontier.take(NOW)
        assert lease is not None
        assert lease.entry is not None
        batch = store.batch()
        frontier.finish(lease, Retry(lease.entry, 5.0), NOW, batch)
        store.write(batch)
    early = NOW - 100_000
    resumed = make(delay=0.0, per_host=2, jitter=0.0)
    resumed.load(early, next_number=99)
    first = resumed.take(early + 3600)
    second = resumed.take(early + 3600)
    assert first is not None
    assert first.entry is not None
    batch = store.batch()
    resumed.finish(first, Retry(first.entry, 5.0), early + 3601, batch)
    store.write(batch)
    again = resumed.take(early + 3606.1)
    assert href(again) == first.entry.href
    assert href(second) != href(again), "what is in flight is not handed out twice"


def test_which_queue_a_url_belongs_to_is_given_from_outside(store: Store) -> None:
    def by_section(href: str) -> str:
        return f"{host_key(href)}/{href.split('/')[3]}"

    frontier = Frontier(store, PolitenessSettings(delay=1.0), robots=False, queue_of=by_section)
    admit(frontier, store, "http://h.test/a/1", "http://h.test/a/2", "http://h.test/b/1")
    leases = [frontier.take(NOW), frontier.take(NOW)]
    assert [href(lease) for lease in leases] == ["http://h.test/a/1", "http://h.test/b/1"], "each queue has its own gap"
    assert frontier.take(NOW) is None
    assert [name for name, _ in store.scan(Family.HOSTS, b"")] == [b"h.test:80/a", b"h.test:80/b"]
    resumed = Frontier(store, PolitenessSettings(delay=1.0), robots=False, queue_of=by_section)
    resumed.load(NOW, next_number=frontier.next_number, hosts=frontier.hosts)
    assert (resumed.queued, resumed.hosts_pending) == (3, 2)
    admit(resumed, store, "http://h.test/b/2")
    assert resumed.hosts == 2


@pytest.mark.parametrize("ours", [True, False])
def test_an_address_that_was_not_found_is_looked_up_again_after_the_request_that_failed(ours: bool) -> None:
    store = MemoryStore()
    politeness = PolitenessSettings(host_key="address", delay=0.0, backoff_first=1.0, jitter=0.0)
    frontier = Frontier(store, politeness, robots=False)
    admit(frontier, store, "http://h.test/a")

    def end(lease: Lease | None, end: Completion, now: float) -> None:
        assert lease is not None
        batch = store.batch()
        frontier.finish(lease, end, now, batch)
        store.write(batch)

    now = NOW
    for found in (None, "192.0.2.1"):
        lookup = frontier.take(now)
        assert lookup is not None
        assert lookup.address
        end(lookup, AddressKnown(found), now)
        lease = frontier.take(now)
        assert lease is not None
        assert lease.entry is not None
        assert lease.host.politeness.address == found
        now += 10.0
        end(lease, TakenBack() if ours else Retry(lease.entry, 0.0, RequestOutcome(failure=FailureClass.DNS)), now)
        now += 10.0
    end(frontier.take(now), AddressKnown(None), now)
    lease = frontier.take(now)
    assert lease is not None
    assert lease.host.politeness.address == "192.0.2.1", "the last that is known counts"
