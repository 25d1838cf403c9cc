"""Which hosts stay in memory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings import PolitenessSettings
from crawler.frontier import Done, Entry, Frontier, Host, Limits, MemoryLimits, decode_host, encode_host
from crawler.frontier.working_set import WorkingSet
from crawler.job.store import MemoryStore
from tests.frontier.hosts import in_memory, made_host

SMALL = MemoryLimits(waiting=10, resting=3, idle=2)


@pytest.fixture
def gone() -> list[str]:
    return []


@pytest.fixture
def hosts(gone: list[str]) -> WorkingSet:
    return WorkingSet(lambda host: gone.append(host.name), SMALL)


def waiting(name: str, ready: float) -> Host:
    return made_host(name, size=1, on_heap=True, ready=ready)


def put(hosts: WorkingSet, host: Host) -> None:
    hosts.place(host)
    hosts.trim()


def test_where_more_hosts_take_turns_than_there_is_room_for_those_that_are_next_stay(
    hosts: WorkingSet, gone: list[str]
) -> None:
    for number in range(15):
        put(hosts, waiting(f"h{number}", ready=float(number)))
    assert gone == [f"h{number}" for number in range(10, 15)]


def test_hosts_that_are_held_for_long_do_not_keep_others_out(hosts: WorkingSet, gone: list[str]) -> None:
    for number in range(10):
        put(hosts, waiting(f"held{number}", ready=3_600.0))
    for turn in range(30):
        host = hosts.get(f"h{turn % 5}") or made_host(f"h{turn % 5}", size=1)
        host.on_heap, host.leased = False, 1
        hosts.place(host)
        host.on_heap, host.leased, host.ready = True, 0, float(turn)
        put(hosts, host)
    assert sorted(gone) == [f"held{number}" for number in range(5)], "and none of the five that take turns"


def test_who_is_leased_is_never_put_away(hosts: WorkingSet, gone: list[str]) -> None:
    leased = [made_host(f"leased{number}", size=1, leased=1, in_line=number > 9) for number in range(20)]
    for host in leased:
        put(hosts, host)
    assert gone == []
    assert all(hosts.get(host.name) is host for host in leased)


def test_of_those_that_stand_in_a_line_the_first_stay(hosts: WorkingSet, gone: list[str]) -> None:
    for number in range(6):
        put(hosts, made_host(f"h{number}", size=1, in_line=True))
    assert gone == ["h3", "h4", "h5"]
    first = hosts.get("h0")
    assert first is not None
    first.in_line, first.leased = False, 1
    put(hosts, first)
    put(hosts, made_host("h3", size=1, in_line=True))
    assert gone == ["h3", "h4", "h5"], "there is room for the next"


def test_of_hosts_with_nothing_queued_the_least_recently_used_go(hosts: WorkingSet, gone: list[str]) -> None:
    one, two, three = Host("one"), Host("two"), Host("three")
    for host in (one, two, one, three):
        put(hosts, host)
    assert gone == ["two"]
    assert {host.name for host in hosts} == {"one", "three"}


def test_hosts_that_come_back_are_not_put_off_for_ever_after_the_clock_was_set_back() -> None:
    """All were asked by a clock that was a minute ahead; most are read from the store when their time has come."""
    store, count = MemoryStore(), 400
    batch = store.batch()
    frontier = Frontier(store, PolitenessSettings(delay=1.0), Limits(memory=SMALL), robots=False)
    frontier.admit((Entry(f"http://h{at % count}.test/{at}", 0) for at in range(2 * count)), batch)
    store.write(batch)
    frontier.written()
    assert len(asked(frontier, store, 1_000.0)) == count

    frontier = Frontier(store, PolitenessSettings(delay=1.0), Limits(memory=SMALL), robots=False)
    frontier.load(940.0, next_number=2 * count, hosts=count)
    assert frontier.take(940.5) is None, "the gap holds from the run's begin on"
    assert len(asked(frontier, store, 942.0)) == count


def test_one_take_passes_over_so_many_hosts_and_leaves_the_others_their_turn() -> None:
    store, count = MemoryStore(), 100
    limits = Limits(memory=replace(SMALL, passed_over=20))
    frontier = Frontier(store, PolitenessSettings(delay=1.0), limits, robots=False)
    batch = store.batch()
    frontier.admit((Entry(f"http://h{at}.test/", 0) for at in range(count)), batch)
    store.write(batch)
    frontier.written()
    for at in range(count):  # the tickets of those that are put away say that they are ready
        name = f"h{at}.test:80"
        stored = store.get(Family.HOSTS, name.encode())
        assert stored is not None
        host = frontier.known(name) or decode_host(name, stored)
        host.politeness.next_time = 2_000.0
        batch = store.batch()
        batch.put(Family.HOSTS, name.encode(), encode_host(host))
        store.write(batch)
    names = [f"h{at}.test:80" for at in range(count)]
    kept = in_memory(frontier, names)
    assert 0 < kept < count
    assert frontier.take(1_000.0) is None
    ready = frontier.next_ready()
    assert ready is not None
    assert ready <= 1_000.0, "there may be others"
    assert in_memory(frontier, names) <= kept
    calls = 1
    while (ready := frontier.next_ready()) is not None and ready <= 1_000.0:
        assert frontier.take(1_000.0) is None
        calls += 1
    assert calls >= count // 20


def asked(frontier: Frontier, store: MemoryStore, now: float) -> set[str]:
    """One URL of each host that is ready is taken and finished."""
    names = set()
    while (lease := frontier.take(now)) is not None:
        batch = store.batch()
        frontier.finish(lease, Done(), now, batch)
        store.write(batch)
        frontier.written()
        assert lease.host.name not in names
        names.add(lease.host.name)
    return names
