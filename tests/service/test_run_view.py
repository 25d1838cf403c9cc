"""Looking at a crawl from its dashboard changes nothing in it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from crawler.engine.lifecycle import Stop
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.kv import Family, Row
from crawler.service.commands import Command, Refused
from crawler.service.run_view import RunView
from crawler.service.view import TableAsked
from crawler.settings import PolitenessSettings, Settings
from crawler.store import MemoryStore
from tests.driving import Driven
from tests.laboratory import SETTINGS, SimulatedWeb, links

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
        return reason, job.counters.fetched
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
        table = await view.hosts(TableAsked("pending", True, 0, 100, ""))
        seen.append(len(table.rows))
        assert all(row["pending"] >= 0 <= row["in_flight"] <= 1 for row in table.rows)

    reason, fetched = asyncio.run(_crawl(tmp_path / "job", SOON, look))
    assert (reason, fetched) == (Stop.FINISHED, HOSTS * PAGES)
    assert max(seen) == HOSTS, "it was looked at"


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
