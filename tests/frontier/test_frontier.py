"""What a host is spared, by what it answered. ``test_machine`` has the order and the gaps, over every store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crawler.base.kv import Store
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Completion, Done, Lease, RobotsKnown
from crawler.frontier.politeness import HoldReason
from tests.frontier.hosts import throttled
from tests.memory_store import MemoryStore

NOW = 1_700_000_000.0


@pytest.fixture
def store() -> Store:
    return MemoryStore()


Make = Callable[..., Frontier]


@pytest.fixture
def make(store: Store) -> Make:
    def frontier(*, robots: bool = False, **politeness: float) -> Frontier:
        return Frontier(store, PolitenessSettings(**politeness), robots=robots)

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


def test_429_holds_the_whole_host(store: Store, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.frontier.backoff_policy.JITTER", 0.0)
    frontier = make(delay=0.0, backoff_first=5.0)
    admit(frontier, store, *urls(0, 3))
    now = NOW
    for expected in (5.0, 10.0, 20.0):
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
