"""Does a crawl that keeps outputs stay as small as it was? Memory and CPU of a whole crawl, tenth by tenth.

    python benchmarks/crawl/memory.py [--pages 1000000] [--hosts 1000] [--output warc,links] [--dir DIR]

The job, its store and its outputs are real and on the disk; the web is a table in the same process, so that nothing
waits. Each page is text of its own of some kilobytes, and links to five further pages of its host and to one of another
host; every tenth body is that of another page. Memory is that of the process at the end of each tenth, in MB of 2**20
bytes: of all pages that it maps, and without files (RssAnon). The web's own share is the same from the start.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))


from benchmarks.kit.machine import describe_machine
from crawler.base.clock import SteadyClock
from crawler.base.settings.load import settings_from
from crawler.job.job import Job
from crawler.service.session import drive_and_checkpoint
from crawler.web.fetch import Failure, Keeps, RawExchange, Response, is_html
from tests.driving import Driven
from tests.simulated_web import SimulatedWeb

TENTHS = 10
FAN = 5  # further pages of its host that a page links to
ROW = "{:>12}{:>10}{:>10}{:>14}{:>16}{:>12}"


class MadeWeb(SimulatedWeb):
    """``hosts`` hosts with ``pages`` pages each. ``met(count)`` is called after each request."""

    def __init__(self, hosts: int, pages: int, met: Callable[[int], None]) -> None:
        super().__init__({})
        self._hosts = hosts
        self._count = pages
        self._met = met
        self._asked = 0
        chance = random.Random(1)
        self._words = ["".join(chance.choices("abcdefghiklmnoprstu", k=chance.randint(2, 11))) for _ in range(4_000)]

    async def fetch(
        self,
        href: str,
        *,
        accept: Callable[[str | None], bool] = is_html,
        max_body: int | None = None,
        truncate: bool = False,
        headers: Mapping[str, str] | None = None,
        keep: Keeps | None = None,
    ) -> Response | Failure:
        """As ``Fetcher.fetch``."""
        await asyncio.sleep(0)
        self._asked += 1
        self._met(self._asked)
        _, _, host, path = href.split("/", 3)
        name, number = int(host.removeprefix("h").removesuffix(".test")), int(path or 0)
        body = self._page(name, number)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n".encode("ascii")
        request = f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("ascii")
        raw = RawExchange(request, head, body, address="192.0.2.1") if keep is not None else None
        return Response(200, {}, "text/html", "utf-8", body, None, None, 0.01, len(body), raw=raw)

    async def resolve(self, href: str) -> str | None:
        """As ``Fetcher.resolve``."""
        return "192.0.2.1"

    def _page(self, host: int, number: int) -> bytes:
        first = FAN * number + 1
        links = [f"/{child}" for child in range(first, min(first + FAN, self._count))]
        links.append(f"http://h{(host * 7 + number) % self._hosts}.test/")
        chance = random.Random(number // TENTHS * TENTHS if number % TENTHS == 9 else host << 32 | number)
        text = " ".join(chance.choices(self._words, k=600))
        written = "".join(f'<a href="{link}">{link}</a> ' for link in links)
        return f"<!doctype html><title>{host} {number}</title><p>{text}</p>{written}".encode("ascii")


def memory() -> tuple[float, float]:
    """(resident, resident without files) in MB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024, int(lines["RssAnon"].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=1_000_000, help="in all (1000000)")
    parser.add_argument("--hosts", type=int, default=1_000, help="(1000)")
    parser.add_argument("--output", default="warc,links", help="NAME,... (warc,links)")
    parser.add_argument("--dir", type=Path, help="where the job lies while it runs")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    for line in describe_machine():
        print(line)
    print(f"{chosen.pages:,} pages of {chosen.hosts:,} hosts, outputs: {chosen.output or 'none'}\n")
    print(ROW.format("pages", "MB", "anon MB", "us CPU/page", "bytes/page", "seconds"), flush=True)
    with tempfile.TemporaryDirectory(prefix="memory-", dir=chosen.dir) as directory:
        asyncio.run(crawl(Path(directory) / "job", chosen))


async def crawl(directory: Path, chosen: argparse.Namespace) -> None:
    """Crawl it all, and tell each tenth."""
    keep = [name for name in chosen.output.split(",") if name]
    settings = settings_from(
        {
            "politeness": {"delay": 0.0},
            "robots": {"ignore": True},
            "traps": {"soft404": False},
            "output": {"keep": keep},
            "durability": {"checkpoint_interval": 60.0},
        },
        "the benchmark",
    )
    clock = SteadyClock()
    job = Job(directory, settings, clock())
    step = chosen.pages // TENTHS
    cpu, began = time.process_time(), time.monotonic()

    def met(count: int) -> None:
        nonlocal cpu
        if count % step == 0:
            resident, own = memory()
            spent, size = time.process_time() - cpu, sum(each.bytes for each in job.files.outputs.sizes().values())
            figures = (f"{count:,}", f"{resident:,.0f}", f"{own:,.0f}", f"{1e6 * spent / step:,.0f}")
            print(ROW.format(*figures, f"{size / count:,.0f}", f"{time.monotonic() - began:,.0f}"), flush=True)
            cpu = time.process_time()

    async def seeds() -> AsyncIterator[list[str]]:
        yield [f"http://h{number}.test/" for number in range(chosen.hosts)]

    try:
        web = MadeWeb(chosen.hosts, chosen.pages // chosen.hosts, met)
        driven = Driven(job, web, settings, clock, seeds())
        await drive_and_checkpoint(driven.worker, driven.run, clock)
        print(f"\n{job.counters.pages_fetched:,} pages, {job.counters.urls_admitted:,} URLs, {os.cpu_count()} cores")
    finally:
        job.close()


if __name__ == "__main__":
    main()
