"""Which hosts stay in memory."""

from __future__ import annotations

import pytest

from crawler.frontier.host import Host
from crawler.frontier.hosts import WorkingSet


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("crawler.frontier.hosts.WAITING_MAX", 10)
    monkeypatch.setattr("crawler.frontier.hosts.RESTING_MAX", 3)
    monkeypatch.setattr("crawler.frontier.hosts.IDLE_MAX", 2)
    return []


def waiting(name: str, ready: float) -> Host:
    return Host(name, size=1, on_heap=True, ready=ready)


def put(hosts: WorkingSet, host: Host) -> None:
    hosts.place(host)
    hosts.trim()


def test_where_more_hosts_take_turns_than_there_is_room_for_those_that_are_next_stay(gone: list[str]) -> None:
    hosts = WorkingSet(lambda host: gone.append(host.name))
    for number in range(15):
        put(hosts, waiting(f"h{number}", ready=float(number)))
    assert gone == [f"h{number}" for number in range(10, 15)]


def test_hosts_that_are_held_for_long_do_not_keep_others_out(gone: list[str]) -> None:
    hosts = WorkingSet(lambda host: gone.append(host.name))
    for number in range(10):
        put(hosts, waiting(f"held{number}", ready=3_600.0))
    for turn in range(30):
        host = hosts.get(f"h{turn % 5}") or Host(f"h{turn % 5}", size=1)
        host.on_heap, host.leased = False, 1
        hosts.place(host)
        host.on_heap, host.leased, host.ready = True, 0, float(turn)
        put(hosts, host)
    assert sorted(gone) == [f"held{number}" for number in range(5)], "and none of the five that take turns"


def test_who_is_leased_is_never_put_away(gone: list[str]) -> None:
    hosts = WorkingSet(lambda host: gone.append(host.name))
    leased = [Host(f"leased{number}", size=1, leased=1, parked=number > 9) for number in range(20)]
    for host in leased:
        put(hosts, host)
    assert gone == []
    assert all(hosts.get(host.name) is host for host in leased)


def test_of_those_that_stand_in_a_line_the_first_stay(gone: list[str]) -> None:
    hosts = WorkingSet(lambda host: gone.append(host.name))
    for number in range(6):
        put(hosts, Host(f"h{number}", size=1, parked=True))
    assert gone == ["h3", "h4", "h5"]
    first = hosts.get("h0")
    assert first is not None
    first.parked, first.leased = False, 1
    put(hosts, first)
    put(hosts, Host("h3", size=1, parked=True))
    assert gone == ["h3", "h4", "h5"], "there is room for the next"


def test_of_hosts_with_nothing_queued_the_least_recently_used_go(gone: list[str]) -> None:
    hosts = WorkingSet(lambda host: gone.append(host.name))
    one, two, three = Host("one"), Host("two"), Host("three")
    for host in (one, two, one, three):
        put(hosts, host)
    assert gone == ["two"]
    assert {host.name for host in hosts} == {"one", "three"}
