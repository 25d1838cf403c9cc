"""Whose turn it is: classes by their shares, hosts in turn, a host's entries in the order that was asked for."""

from __future__ import annotations

from collections import Counter

import pytest

from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import CLASSES, Entry
from crawler.frontier.front_queues import SHARES
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Done
from crawler.frontier.order import Order
from tests.memory_store import MemoryStore

NOW = 1_700_000_000.0


def taken(frontier: Frontier, store: MemoryStore, count: int, now: float = NOW, step: float = 0.001) -> list[Entry]:
    """So many entries, each finished at once."""
    found = []
    for _ in range(count):
        lease = frontier.take(now)
        assert lease is not None
        assert lease.entry is not None
        found.append(lease.entry)
        batch = store.batch()
        frontier.finish(lease, Done(), now, batch)
        store.write(batch)
        frontier.written()
        now += step
    return found


def filled(
    entries: list[Entry], order: Order = Order.BREADTH, *, sessions: bool = False
) -> tuple[Frontier, MemoryStore]:
    store = MemoryStore()
    frontier = Frontier(store, PolitenessSettings(delay=0.0), order=order, robots=False)
    if not sessions:
        frontier.alternate()
    batch = store.batch()
    frontier.admit(entries, batch)
    store.write(batch)
    return frontier, store


def test_classes_have_the_shares_that_are_documented_and_none_starves() -> None:
    entries = [Entry(f"http://h{place}-{host}.test/{n}", 0, priority=place) for n in range(40)
               for place in range(CLASSES) for host in range(7)]  # fmt: skip
    frontier, store = filled(entries)
    assert sum(SHARES) == 255
    found = Counter(entry.priority for entry in taken(frontier, store, 255))
    # As many hosts in each class: each has an eighth of them, and no less than half of an eighth of the turns.
    weights = [max(share / 255, 1 / 8) for share in SHARES]
    expected = [255 * weight / sum(weights) for weight in weights]
    assert [found[place] for place in range(CLASSES)] == pytest.approx(expected, abs=2)


@pytest.mark.parametrize(("last", "first_hosts", "last_hosts"), [(1, 3, 60), (3, 60, 3), (CLASSES - 1, 30, 30)])
def test_no_host_waits_for_longer_than_two_laps_because_of_its_class(
    last: int, first_hosts: int, last_hosts: int
) -> None:
    hosts = [(f"a{host}", 0) for host in range(first_hosts)] + [(f"z{host}", last) for host in range(last_hosts)]
    laps, lap = 12, len(hosts)
    # A host has a turn in each lap at most before all others had theirs, and some have many more than others.
    entries = [Entry(f"http://{name}.test/{n}", 0, priority=place) for name, place in hosts for n in range(2 * lap)]
    frontier, store = filled(entries)
    at, longest = dict.fromkeys((name for name, _ in hosts), 0), 0
    for number, entry in enumerate(taken(frontier, store, laps * lap)):
        name = entry.href[7:].partition(".")[0]
        longest = max(longest, number - at[name])
        at[name] = number
    longest = max(longest, *(laps * lap - number for number in at.values()))
    assert longest <= 2 * lap + CLASSES, f"{longest / lap:.2f} laps"


def test_the_share_of_a_class_without_a_ready_host_goes_to_the_others_and_is_not_saved_up() -> None:
    entries = [Entry(f"http://h{place}-{n % 5}.test/{n}", 0, priority=place) for n in range(400) for place in (1, 2)]
    frontier, store = filled(entries)
    first = Counter(entry.priority for entry in taken(frontier, store, 300))
    # Two thirds are the share of the first, half of the hosts are in the second: as two thirds to a half.
    assert first == pytest.approx({1: 300 * 4 / 7, 2: 300 * 3 / 7}, abs=2)
    batch = store.batch()
    frontier.admit([Entry(f"http://late{n % 5}.test/{n}", 0) for n in range(200)], batch)
    store.write(batch)
    later = Counter(entry.priority for entry in taken(frontier, store, 70, NOW + 1))
    weights = [4 / 7, 1 / 3, 1 / 3]  # a third of the hosts is more than a share of two and of one seventh
    expected = pytest.approx([70 * weight / sum(weights) for weight in weights], abs=1.5)
    assert [later[place] for place in range(3)] == expected, (
        "the class that comes late has its share from now on, nothing for the past"
    )


@pytest.mark.parametrize(
    ("order", "expected"),
    [(Order.BREADTH, "adbce"), (Order.DEPTH, "aecdb"), (Order.SCORE, "aebcd")],
)
def test_within_a_host_class_goes_before_rank_and_rank_before_number(order: Order, expected: str) -> None:
    entries = [
        Entry("http://h.test/b", 2, priority=3, score=0.5),
        Entry("http://h.test/d", 1, priority=3, score=0.1),
        Entry("http://h.test/c", 2, priority=3, score=0.5),
        Entry("http://h.test/a", 9, priority=0),
        Entry("http://h.test/e", 3, priority=3, score=0.9),
    ]
    frontier, store = filled(entries, order)
    assert "".join(entry.href[-1] for entry in taken(frontier, store, 5)) == expected
