"""What do many jobs in one process cost? Memory, files, threads and CPU of 1, 4, 16 and 64 partitions with the same
number of pages in all.

    python benchmarks/crawl/many_jobs.py [--pages 12800] [--files 4096] [JOBS ...]

Each number of jobs is a process of its own, which may open ``--files`` files. One job has a platform of its own,
several share one. Jobs, stores and outputs are real and on the disk; the web is made in the same process, so that
nothing waits: each host has 50 pages of some kilobytes, each with links to five further ones. Memory is that of the
process in MB of 2**20 bytes, when all jobs are open and when all pages are fetched: of all pages that it maps, and
without files (RssAnon). Then nothing is left to do, and the process is idle, as partitions are that wait for each
other: ``idle`` is its CPU time in per cent of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from msgspec.structs import replace

from benchmarks.kit.machine import describe_machine
from crawler.base.clock import SteadyClock
from crawler.base.settings.load import settings_from
from crawler.engine.membership import Membership
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.job.job import Job
from crawler.job.platform import Platform, SharedPlatform
from crawler.web.fetch import Response
from tests.simulated_web import SimulatedWeb

JOBS = (1, 4, 16, 64)
OF_A_HOST = 50  # pages
FAN = 5  # further pages that a page links to
CAPACITY = 1_000_000  # of all seen-sets
IDLE = 10.0  # seconds
ROW = "{:>6}{:>8}{:>14}{:>14}{:>16}{:>8}{:>9}{:>14}{:>8}"


class MadeWeb(SimulatedWeb):
    """Hosts with ``OF_A_HOST`` pages each."""

    def __init__(self) -> None:
        super().__init__({})
        chance = random.Random(1)
        self._words = ["".join(chance.choices("abcdefghiklmnoprstu", k=chance.randint(2, 11))) for _ in range(4_000)]

    def answer(self, href: str, headers: Mapping[str, str] | None = None) -> Response:
        """As ``SimulatedWeb.answer``."""
        number = int(href.rsplit("/", 1)[1] or 0)
        first = FAN * number + 1
        links = "".join(f'<a href="/{page}">x</a>' for page in range(first, min(first + FAN, OF_A_HOST)))
        text = " ".join(random.Random(href).choices(self._words, k=300))
        body = f"<!doctype html><title>{number}</title><p>{text}{links}".encode("ascii")
        return Response(200, {}, "text/html", "utf-8", body, None, None, 0.01, len(body))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", type=int, nargs="*", metavar="JOBS", help="how many jobs a process has")
    parser.add_argument("--pages", type=int, default=12_800, help="pages in all")
    parser.add_argument("--files", type=int, default=4_096, help="files that a process may open")
    parser.add_argument("--one", type=int, metavar="JOBS", help=argparse.SUPPRESS)
    chosen = parser.parse_args(words)
    if chosen.one is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (chosen.files, chosen.files))
        logging.disable(logging.WARNING)
        with tempfile.TemporaryDirectory(prefix="many-jobs-") as directory:
            print(json.dumps(asyncio.run(measure(Path(directory), chosen.one, chosen.pages))))
        return 0
    print("\n".join(describe_machine(["rocksdict"])))
    print(f"\n{chosen.pages:,} pages, {chosen.files:,} files at most; MB of memory, all (without files)\n")
    print(ROW.format("jobs", "pages", "open", "crawled", "more than one", "files", "threads", "us CPU a page", "idle"))
    first: float | None = None
    for jobs in chosen.jobs or JOBS:
        command = [sys.executable, __file__, "--one", str(jobs), f"--pages={chosen.pages}", f"--files={chosen.files}"]
        got = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        first = got["crawled"][0] if first is None else first
        (opened, opened_anon), (crawled, crawled_anon) = got["opened"], got["crawled"]
        print(ROW.format(jobs, got["pages"], f"{opened:.0f} ({opened_anon:.0f})", f"{crawled:.0f} ({crawled_anon:.0f})",
                         f"{crawled - first:+.0f}", got["files"], got["threads"], f"{got['cpu']:.0f}",
                         f"{got['idle']:.1%}"))  # fmt: skip
    return 0


async def measure(directory: Path, number: int, pages: int) -> dict[str, Any]:
    clock, settings = SteadyClock(), settings_of(number)
    context = contextlib.nullcontext(Platform()) if number == 1 else SharedPlatform(number)
    with context as platform, contextlib.ExitStack() as jobs:
        worker = Worker(MadeWeb(), settings, clock)
        serving = asyncio.ensure_future(worker.serve())
        runs = []
        for each in range(number):
            job = Job(directory / f"{each:02}", settings, clock(), platform)
            jobs.callback(job.close)
            hosts = range(each, pages // OF_A_HOST, number)
            member = Membership(lambda: True, lambda: True)
            runs.append(Run(job, settings, worker.context, seeds_of(hosts), member=member))
        opened, began = memory(), time.process_time()
        for run in runs:
            worker.add(run)
        while not all(run.is_idle for run in runs):  # noqa: ASYNC110, nothing tells of it
            await asyncio.sleep(0.5)
        await asyncio.gather(*(run.job.sync() for run in runs))
        spent, crawled = time.process_time() - began, memory()
        files, threads = (len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task"))
        began = time.process_time()
        await asyncio.sleep(IDLE)
        idle = (time.process_time() - began) / IDLE
        fetched = sum(run.job.counters.pages_fetched for run in runs)
        for run in runs:
            run.finish()
        worker.end()
        await serving
    return {
        "pages": fetched,
        "opened": opened,
        "crawled": crawled,
        "files": files,
        "threads": threads,
        "cpu": spent * 1e6 / fetched,
        "idle": idle,
    }


def settings_of(jobs: int) -> Any:
    settings = settings_from(
        {
            "crawl": {"concurrency": 64},
            "politeness": {"delay": 0.0, "per_host": 8},
            "robots": {"ignore": True},
            "durability": {"checkpoint_interval": 5.0},
        },
        "the benchmark",
    )
    return replace(settings, seen=replace(settings.seen, capacity=CAPACITY // jobs))


async def seeds_of(hosts: range) -> AsyncIterator[list[str]]:
    yield [f"http://h{host}.test/" for host in hosts]


def memory() -> tuple[float, float]:
    """MB of memory: all, and without files."""
    with open("/proc/self/status", encoding="ascii") as stream:
        fields = dict(line.split(":", 1) for line in stream)
    return tuple(int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
