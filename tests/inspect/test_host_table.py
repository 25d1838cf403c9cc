"""The table of hosts: which rows are shown, and that no others are made."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import PolitenessSettings, Settings
from crawler.base.settings.sites import Sites
from crawler.frontier.entry import Entry, encode_entry, pending_key, retry_slot
from crawler.frontier.frontier import Frontier
from crawler.frontier.host import encode_host
from crawler.frontier.lease import RobotsKnown
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import FailureClass
from crawler.inspect.host_table import HostsAsked, Selection, all_host_rows, told_by
from crawler.inspect.hosts_now import HostsNow
from tests.frontier.hosts import made_host
from tests.memory_store import MemoryStore

NOW = 1_700_000_000.0
SETTINGS = Sites(Settings())
BESIDE = HostsNow(MemoryStore(), {"h7.test:80": 1}, {"h99.test:80": NOW})


@functools.cache
def store_of(hosts: int) -> MemoryStore:
    rng, store = random.Random(7), MemoryStore()
    batch = store.batch()
    for n in range(hosts):
        host = made_host(f"h{n}.test:80", size=rng.randrange(2, 9), fetched=rng.randrange(9), failed=rng.randrange(3))
        host.politeness.latency = rng.choice([None, 0.1, 2.0])
        if rng.random() < 0.1:
            host.tally.errors = {FailureClass.TIMEOUT: rng.randrange(1, 4)}
        batch.put(Family.HOSTS, host.name.encode(), encode_host(host))
    store.write(batch)
    return store


def selected(store: MemoryStore, *, sparing: bool, **how: Any) -> tuple[int, list[dict[str, Any]], int]:
    """The number of hosts that fit, the rows, and how many rows were made."""
    selection = Selection(HostsAsked(**how), told_by(how["sort"]))
    wants = selection.wants if sparing else lambda name, value: True
    count = 0

    def counted() -> Any:
        nonlocal count
        for row in all_host_rows(store, SETTINGS, NOW, BESIDE, wants):
            count += 1
            yield row

    selection.add(counted())
    return *selection.table(), count


@pytest.mark.parametrize("sort", ["work", "pending", "fetched", "failed", "errors", "share", "latency_seconds"])
def test_of_many_hosts_few_are_described(sort: str) -> None:
    total, rows, made = selected(store_of(1_000), sparing=True, sort=sort, limit=20)
    assert (total, len(rows)) == (1_000, 20)
    assert made < 300


def named(name: str, **known: Any) -> tuple[str, bytes]:
    host = made_host(name, size=3)
    for field, value in known.items():
        setattr(host.politeness, field, value)
    return name, encode_host(host)


def rows_of(hosts: list[tuple[str, bytes]], beside: HostsNow, **politeness: Any) -> dict[str, dict[str, Any]]:
    store = MemoryStore()
    batch = store.batch()
    for name, value in hosts:
        batch.put(Family.HOSTS, name.encode(), value)
    store.write(batch)
    settings = replace(Settings(), politeness=PolitenessSettings(**politeness))
    rows = all_host_rows(store, Sites(settings), NOW, beside)
    return {row["host"]: row for row in rows}


def test_what_holds_one_port_of_a_name_holds_the_others() -> None:
    held = named("a.test:443", next_time=NOW + 30.0, hold_reason=HoldReason.RETRY_AFTER)
    snoozed = named("b.test:443", next_time=NOW + 30.0, hold_reason=HoldReason.SNOOZED)
    hosts = [held, named("a.test:80"), named("a.test.b:80"), snoozed, named("b.test:80")]
    rows = rows_of(hosts, HostsNow(MemoryStore()))
    assert {name: row["state"] for name, row in rows.items()} == {
        "a.test:443": "held",
        "a.test:80": "held",
        "a.test.b:80": "ready",
        "b.test:443": "snoozed",
        "b.test:80": "ready",
    }
    assert (rows["a.test:80"]["rule"], rows["a.test:80"]["wait_seconds"]) == ("retry_after", 30.0)
    assert rows_of(hosts, HostsNow(MemoryStore()), host_key="origin")["a.test:80"]["state"] == "ready"


def test_the_gap_of_a_host_counts_the_crawl_delay_of_all_ports_of_its_name() -> None:
    hosts = [
        named("a.test:443", crawl_delay=30.0),
        named("a.test:80", crawl_delay=5.0),
        named("a.test:8080"),
        named("b.test:443", crawl_delay=0.5),
        named("b.test:80"),
    ]
    rows = rows_of(hosts, HostsNow(MemoryStore()))
    assert [row["gap_seconds"] for row in rows.values()] == [30.0, 30.0, 30.0, 1.0, 1.0]
    alone = rows_of(hosts, HostsNow(MemoryStore()), host_key="origin")
    assert [row["gap_seconds"] for row in alone.values()] == [30.0, 5.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(("fresh", "wait", "state"), [(0, 60.0, "held"), (0, -9.0, "ready"), (1, 60.0, "ready")])
def test_a_host_whose_urls_wait_for_their_next_try_is_not_ready(fresh: int, wait: float, state: str) -> None:
    host, store = made_host("a.test:80", size=1 + fresh, next_time=NOW - 5.0), MemoryStore()
    host.queue.retry_size = 1
    entry, batch = Entry("http://a.test/", 0, None, seed=True), store.batch()
    batch.put(Family.HOSTS, host.name.encode(), encode_host(host))
    batch.put(Family.PENDING, pending_key(host.name, retry_slot(NOW + wait, 1)), encode_entry(entry))
    store.write(batch)
    (row,) = filter(None, all_host_rows(store, SETTINGS, NOW, HostsNow(store)))
    assert (row["state"], row["wait_seconds"]) == (state, max(0.0, wait) if not fresh else 0.0)


def test_a_running_crawl_says_so_too() -> None:
    store, batch = MemoryStore(), MemoryStore().batch()
    frontier = Frontier(store, PolitenessSettings(delay=1.0))
    frontier.admit((Entry(f"http://a.test{port}/{n}", 0) for port in ("", ":81", ":82") for n in range(2)), batch)
    store.write(batch)
    frontier.written()
    lease = frontier.take(NOW)
    assert lease is not None
    known = RobotsKnown(NOW + 1e6, 30.0)
    batch = store.batch()
    frontier.finish(lease, known, NOW, batch)
    store.write(batch)
    frontier.written()
    gaps = [frontier.describe(f"a.test:{port}", NOW) for port in (80, 81, 82)]
    assert [row and row.gap_seconds for row in gaps] == [30.0] * 3


def test_a_request_to_one_port_of_a_name_keeps_the_others_waiting() -> None:
    hosts = [named("a.test:443"), named("a.test:80"), named("b.test:80")]
    beside = HostsNow(MemoryStore(), {"a.test:443": 1})
    assert [row["state"] for row in rows_of(hosts, beside).values()] == ["leased", "queued", "ready"]
    assert [row["state"] for row in rows_of(hosts, beside, per_host=2).values()] == ["leased", "ready", "ready"]
