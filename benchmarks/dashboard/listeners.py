"""The cost of watching a crawl: CPU time of its process with no watcher, 20 event streams, or 20 open pages.

    python benchmarks/dashboard/listeners.py [--rounds 5] [--seconds 15] [--listeners 20]

The same crawl each time: made manuals on nginx, with its dashboard on. What listeners cost does not depend on how fast
the crawl goes: a message a second, written to each. So the crawl is slow, and what they add is not lost in what the
pages of a fast one cost. CPU time, user and system, is read from the kernel over the same stretch of each crawl. A
stream is ``/api/events`` read as fast as it comes; a page is a stream that also asks for the hosts with errors, and for
what the records tell, as often as the overview does in a browser. The kinds take turns, so that a busy minute of the
machine meets all of them; the medians are compared. The share is that of one core, which is what a crawl at full speed
takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

sys.path.append(str(Path(__file__).resolve().parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "crawl"))

from web import served

from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import make_files
from tests.asked import knows, rights

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("nobody", "streams", "pages")
RATE = 5  # pages a second
WARM = 4.0  # seconds before the measured stretch
# What the overview of a crawl of few hosts asks for, and every how many seconds: as while some host is in trouble and
# pages come in. While all is well it asks for hosts three times less often. The whole table is only on the tab Hosts.
ASKED = {
    "api/hosts?sort=errors&order=desc&offset=0&limit=50&q=": 10.0,
    "api/hosts?sort=pending&order=desc&offset=0&limit=12&q=": 10.0,
    "api/survey": 10.0,
}
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Measured:
    """``cpu`` in seconds a second, ``pages`` a second, ``messages`` heard by all listeners together."""

    cpu: float
    pages: float
    messages: int


class Audience:
    """Listeners of one crawl."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.messages = 0

    async def listen(self, client: aiohttp.ClientSession) -> None:
        async with client.get(f"{self.url}api/events") as response:
            async for line in response.content:
                self.messages += line.startswith(b"event: ")

    async def look(self, client: aiohttp.ClientSession, path: str, every: float, late: float) -> None:
        """Ask for ``path`` as a page does, beginning after a share of ``every``."""
        await asyncio.sleep(every * late)
        tag = ""
        while True:
            async with client.get(f"{self.url}{path}", headers={"If-None-Match": tag} if tag else {}) as response:
                await response.read()
                tag = response.headers.get("ETag", "")
            await asyncio.sleep(every)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


async def measure(process: subprocess.Popen[bytes], job: Path, kind: str, seconds: float, listeners: int) -> Measured:
    while not (job / "live.json").exists():
        assert process.poll() is None, "the crawl ended before it began"
        await asyncio.sleep(0.1)
    audience = Audience(knows(json.loads((job / "live.json").read_text())["dashboard"], job))
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    shared: Any = {"connector": connector, "timeout": timeout, "headers": rights(audience.url)}
    async with aiohttp.ClientSession(read_bufsize=2**20, **shared) as client:
        looking = []
        if kind != "nobody":
            looking += [asyncio.create_task(audience.listen(client)) for _ in range(listeners)]
        if kind == "pages":
            for path, every in ASKED.items():
                looks = [audience.look(client, path, every, number / listeners) for number in range(listeners)]
                looking += [asyncio.create_task(look) for look in looks]
        await asyncio.sleep(WARM)
        cpu, began, heard, pages = (
            cpu_seconds(process.pid),
            time.monotonic(),
            audience.messages,
            await fetched(client, audience),
        )
        await asyncio.sleep(seconds)
        cpu, lasted = cpu_seconds(process.pid) - cpu, time.monotonic() - began
        pages = await fetched(client, audience) - pages
        assert not [task for task in looking if task.done()], "a listener was turned away"
        for task in looking:
            task.cancel()
    return Measured(cpu / lasted, pages / lasted, audience.messages - heard)


async def fetched(client: aiohttp.ClientSession, audience: Audience) -> int:
    async with client.get(f"{audience.url}api/stats") as response:
        return int((await response.json())["pages_fetched"])


def crawl(seeds: Path, job: Path, kind: str, seconds: float, listeners: int) -> Measured:
    words = [sys.executable, "-m", "crawler", str(seeds), "--job", str(job), "--quiet", "--dashboard", "0"]
    words += ["--allow-private", "--delay", "0", "--per-host", "16", "--rate", str(RATE)]
    process = subprocess.Popen(words, cwd=ROOT)
    try:
        return asyncio.run(measure(process, job, kind, seconds, listeners))
    finally:
        process.terminate()
        process.wait()


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--listeners", type=int, default=20)
    arguments = parser.parse_args(words)
    print("\n".join(describe_machine(["aiohttp", "rocksdict"])))
    print(f"\n{RATE} pages/s, {arguments.listeners} listeners, {arguments.seconds:.0f} s, {arguments.rounds} rounds\n")
    found: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as home:
        pages = int(RATE * (WARM + arguments.seconds) * 2)
        with served(make_files(Path(home) / "web", pages=pages), Path(home) / "nginx") as web:
            seeds = Path(home) / "seeds.txt"
            seeds.write_text("".join(f"{seed}\n" for seed in web.seeds))
            for turn in range(arguments.rounds):
                for kind in KINDS:
                    job = Path(home) / f"job-{turn}-{kind}"
                    found[kind].append(crawl(seeds, job, kind, arguments.seconds, arguments.listeners))
    print(f"{'':<10}{'of a core':>11}{'more':>9}{'pages/s':>10}{'messages':>11}   all rounds")
    base = statistics.median(one.cpu for one in found["nobody"])
    for kind, rounds in found.items():
        cpu = statistics.median(one.cpu for one in rounds)
        heard = statistics.median(one.messages for one in rounds)
        speed = statistics.median(one.pages for one in rounds)
        every = " ".join(f"{one.cpu:.2%}" for one in rounds)
        print(f"{kind:<10}{cpu:>11.2%}{cpu - base:>9.2%}{speed:>10.1f}{heard:>11.0f}   {every}")


if __name__ == "__main__":
    main()
