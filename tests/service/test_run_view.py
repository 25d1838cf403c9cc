"""Looking at a crawl from its dashboard changes nothing in it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family, Row
from crawler.base.settings.parts import PolitenessSettings, Settings
from crawler.engine.lifecycle import State, Stop
from crawler.engine.run import Run
from crawler.frontier.capacity import AT_ONCE, Serving
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.host import encode_host
from crawler.frontier.lease import Completion, Done, Retry, RobotsKnown
from crawler.frontier.request_outcome import FailureClass
from crawler.inspect.host_table import SORTS, HostsAsked
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.service.commands import Command, Refused
from crawler.service.run_view import RunView
from tests.driving import Driven
from tests.frontier.hosts import made_host
from tests.laboratory import SETTINGS, SimulatedWeb, links
from tests.memory_store import MemoryStore

NOW = 1_700_000_000.0
HOSTS, PAGES = 12, 25
SECONDS = 0.002  # of the fastest response; they differ, so that some end while others are in flight
AHEAD = 20  # requests that the crawl makes while a reader has read the rows and not yet looked at them


class LaggingStore(MemoryStore):
    """Holds up everybody who reads hosts beside the event loop until the crawl has gone on."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.over = False
        self.moved = threading.Condition()
        self._crawl = threading.current_thread()

    def scan(self, family: Family, start: bytes = b"", end: bytes | None = None, limit: int = 1_024) -> list[Row]:
        rows = super().scan(family, start, end, limit)
        if family is Family.HOSTS and threading.current_thread() is not self._crawl:
            with self.moved:
                until = self.asked + AHEAD
                self.moved.wait_for(lambda: self.over or self.asked >= until)
        return rows

    def move(self, *, over: bool = False) -> None:
        with self.moved:
            self.asked += 1
            self.over = over
            self.moved.notify_all()


async def _none(_: Command) -> Refused | None:
    return None


async def _seeds(hrefs: list[str]) -> AsyncIterator[list[str]]:
    yield hrefs


async def _crawl(directory: Path, settings: Settings, look: Any) -> tuple[Stop, int]:
    """Crawl a small web while ``look`` is awaited again and again; how it ended, and how many pages were fetched."""
    store = LaggingStore()
    pages: dict[str, Any] = {f"http://h{n}.test/": links([f"/{m}" for m in range(1, PAGES)]) for n in range(HOSTS)}
    pages |= {f"http://h{n}.test/{m}": "" for n in range(HOSTS) for m in range(1, PAGES)}

    async def before(href: str) -> None:
        await asyncio.sleep(SECONDS * (1 + len(href) % 3 + sum(href.encode()) % 5))
        store.move()

    job = Job(directory, settings, time.time(), Platform(open_store=lambda _: store))
    driven = Driven(job, SimulatedWeb(pages, before), settings, time.time, _seeds([*pages][:HOSTS]))
    view = RunView(lambda: driven.run, _none, settings, time.time)

    async def watch() -> None:
        while True:
            await look(view)

    watching = asyncio.create_task(watch())
    try:
        async with asyncio.timeout(30):
            reason = await driven.to_the_end()
        return reason, job.counters.pages_fetched
    finally:
        store.move(over=True)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await view.close()
        job.close()


SOON = replace(SETTINGS, politeness=PolitenessSettings(delay=0.001))


def test_a_crawl_whose_hosts_are_looked_at_all_the_time_asks_each_of_them_to_the_end(tmp_path: Path) -> None:
    seen: list[int] = []

    async def look(view: RunView) -> None:
        table = await view.hosts(HostsAsked("pending", True, 0, 100, ""))
        seen.append(len(table.rows))
        assert all(row["pending"] >= 0 <= row["in_flight"] <= 1 for row in table.rows)

    reason, fetched = asyncio.run(_crawl(tmp_path / "job", SOON, look))
    assert (reason, fetched) == (Stop.FINISHED, HOSTS * PAGES)
    assert max(seen) == HOSTS, "it was looked at"


class Standing(NamedTuple):
    """What a view asks of a run, of hosts at a moment."""

    job: Any
    serving: Serving = AT_ONCE
    paused: str | None = None
    life: Any = SimpleNamespace(state=State.RUNNING)


def _standing(hosts: int) -> Standing:
    """Hosts of which the later ones are in memory, where some wait for a retry: no record tells of that."""
    store = MemoryStore()
    stored = store.batch()
    for number in range(hosts):
        host = made_host(f"h{number:03}.test:80", size=1 + number % 5)
        host.politeness.latency = [None, 0.1, 2.0][number % 3]
        if number % 7 == 1:
            host.failures = host.failures._replace(backoff=3)
            host.tally.errors = {FailureClass.THROTTLED: number}
        stored.put(Family.HOSTS, host.name.encode(), encode_host(host))
    store.write(stored)
    frontier, batch = Frontier(store, PolitenessSettings(delay=1.0)), store.batch()
    frontier.admit((Entry(f"http://m{n:03}.test/{m}", 0) for n in range(hosts) for m in range(1 + n % 3)), batch)
    store.write(batch)
    frontier.written()
    for moment in (NOW, NOW + 2.0):
        while lease := frontier.take(moment):
            end: Completion = Done()
            if lease.entry is None:
                end = RobotsKnown(NOW + 1e6, None)
            elif lease.host.name < "m010":
                end = Retry(lease.entry, 600.0)
            batch = store.batch()
            frontier.finish(lease, end, moment, batch)
            store.write(batch)
            frontier.written()
    return Standing(SimpleNamespace(frontier=frontier, store=store))


@pytest.mark.parametrize("sort", SORTS)
async def test_a_part_of_the_table_is_that_of_all_its_rows(sort: str) -> None:
    run = cast("Run", _standing(60))
    view = RunView(lambda: run, _none, Settings(politeness=PolitenessSettings(delay=1.0)), lambda: NOW + 10.0)
    try:
        total, rows = await view.hosts(HostsAsked("host", False, 0, 1_000, ""))
        assert (total, len(rows)) == (120, 120)
        assert {"ready", "held", "idle"} <= {row["state"] for row in rows}
        for descending in (False, True):
            known = [row for row in rows if row[sort] is not None] if sort != "work" else []
            best = sorted(known, key=lambda row: str(row[sort]) if sort == "errors" else row[sort], reverse=descending)
            _, found = await view.hosts(HostsAsked(sort, descending, 0, 9, ""))
            assert len(found) == 9
            if sort not in ("work", "failed", "errors"):
                assert [row[sort] for row in found] == ([row[sort] for row in best] + [None] * 9)[:9]
            assert all(row in rows for row in found)
    finally:
        await view.close()


def test_nor_do_the_page_of_a_host_and_explanations_change_it(tmp_path: Path) -> None:
    seen: list[str] = []

    async def look(view: RunView) -> None:
        for number in range(HOSTS):
            page = await view.host(f"h{number}.test:80")
            if page is not None:
                seen.append(page["state"])
            await view.explain(f"http://h{number}.test/{PAGES - 1}")

    reason, fetched = asyncio.run(_crawl(tmp_path / "job", SOON, look))
    assert (reason, fetched) == (Stop.FINISHED, HOSTS * PAGES)
    assert len(set(seen)) > 1, "while it was crawled"
