"""How long the event loop stalls while a large seen-set is checkpointed, and how much a checkpoint writes.

    python benchmarks/durability/stall.py [--megabytes 1024] [--seconds 30] [--dir DIR]

Real crawls of a simulated web that never ends, with everything that a crawl has but the network: links, steps, journal,
fsync, generations. The seen-set is one slice of the given size, filled beforehand with random digests, and each
generation is made to write all of it (``renewal.py`` measures what it does otherwise). The delays are those of the
metrics ``crawler_loop_stall_...``: of a timer of 20 ms. Then the bytes of a checkpoint after 1% new URLs, of a chain
with sealed slices.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.settings.parts import (
    CrawlSettings,
    DurabilitySettings,
    PolitenessSettings,
    RobotsSettings,
    SeenSettings,
    Settings,
)
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.job.checkpoint.generations import Renewal
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.service.session import spare_the_collector
from tests.simulated_web import SimulatedWeb

EACH_TIME = Platform(renewal=Renewal(most_keys=0))  # the seen-set is stored by each generation
_BITS_PER_KEY = 15.1  # of a slice for an fpp of 0.001
_LINKS = 20  # new ones on each page
_HOSTS = 200
_PAUSE = 0.2  # seconds that a page takes at most: as on a network, the loop is idle now and then
_NEVER = 1e9


class Endless(dict[str, str]):
    """Every page links to new ones, on all hosts."""

    def __init__(self) -> None:
        self._next = 0

    def get(self, href: str, default: object = None) -> str:  # type: ignore[override]
        first, self._next = self._next, self._next + _LINKS
        links = (f"http://h{number % _HOSTS}.test/page/{number}" for number in range(first, first + _LINKS))
        return "<!doctype html><p>" + "</p><p>".join(f'some text <a href="{link}">a link</a>' for link in links)


async def seeds() -> AsyncIterator[list[str]]:
    yield [f"http://h{number}.test/" for number in range(_HOSTS)]


async def pause(_: str) -> None:
    # Drawn: otherwise all pages arrive at once, and the loop is late by the time that all of them take.
    await asyncio.sleep(random.uniform(0, _PAUSE))


def settings(seen: SeenSettings, seconds: float, interval: float) -> Settings:
    return Settings(
        crawl=CrawlSettings(concurrency=16, max_time=seconds),
        politeness=PolitenessSettings(delay=0.0, per_host=16),
        robots=RobotsSettings(ignore=True),
        seen=seen,
        durability=DurabilitySettings(checkpoint_interval=interval),
    )


async def stalls(name: str, seen: SeenSettings, keys: int, seconds: float, interval: float, directory: Path) -> None:
    chosen = settings(seen, seconds, interval)
    job = Job(directory, chosen, time.time(), EACH_TIME)
    try:
        fill(job, keys)
        first = job.checkpointer.manifest
        worker = Worker(SimulatedWeb(Endless(), pause), chosen, time.time)
        run = Run(job, chosen, worker.context, seeds())
        spare_the_collector()
        began = time.monotonic()
        await worker.drive(run)
        lasted = time.monotonic() - began
        stall = run.stats()["loop_stall_seconds"]
        last, written = job.checkpointer.manifest, 0
        if last is not None:
            written = last.generation - (first.generation if first is not None else 0)
        print(
            f"{name:<34}{1000 * stall['p99']:>9.1f}{1000 * stall['longest']:>9.1f}"
            f"{job.counters.pages_fetched / lasted:>11.0f}{written:>13}{0 if last is None else last.seconds:>11.1f}",
            flush=True,
        )
    finally:
        job.close()


def fill(job: Job, keys: int) -> None:
    draw = np.random.default_rng(1)
    for _ in range(0, keys, 2**16):
        job.seen.restore(draw.bytes(2**16 * 16))


async def bytes_written(directory: Path, keys: int) -> None:
    chosen = settings(SeenSettings(capacity=2**20, compact_slices=0), 1, _NEVER)
    job = Job(directory, chosen, time.time(), EACH_TIME)
    try:
        fill(job, keys)
        job.counters.sequence += 1
        whole = (await job.checkpoint(time.time())).manifest
        fill(job, keys // 100)
        job.counters.sequence += 1
        after = (await job.checkpoint(time.time())).manifest
        assert whole is not None
        assert after is not None
        active = sum(s.size for s in after.segments if not s.sealed and s.name.startswith("slice"))
        watched = sum(s.size for s in after.segments if not s.name.startswith("slice"))
        sealed = sum(s.size for s in after.segments if s.sealed)
        print(f"\na chain of {len(after.segments) - 1} slices, {len(job.seen):,} keys: {sealed + active:,} bytes")
        print(f"the first generation wrote          {whole.bytes:>13,} bytes in {whole.seconds:.2f} s")
        print(f"after 1% new keys the second wrote  {after.bytes:>13,} bytes in {after.seconds:.2f} s:")
        print(f"  the active slice                  {active:>13,}")
        print(f"  the watched keys                  {watched:>13,}")
        print(f"  sealed since the first            {after.bytes - active - watched:>13,}")
        print(f"the journal's part, 16 bytes a key  {16 * (keys // 100):>13,}")
    finally:
        job.close()


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1_024, help="of the seen-set (1024)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each crawl (30)")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between generations (1)")
    parser.add_argument("--keys", type=int, default=10_000_000, help="in the chain of the second part (10,000,000)")
    parser.add_argument("--dir", type=Path, help="where the jobs are made; both fsync and space matter")
    chosen = parser.parse_args(words)
    for line in describe_machine(("numpy", "bitarray", "mmh3", "rocksdict")):
        print(line)
    capacity = int(chosen.megabytes * 2**20 * 8 / _BITS_PER_KEY)
    large = SeenSettings(kind="bloom", capacity=capacity)
    print(f"\nloop stalls while a seen-set of {chosen.megabytes} MiB is used by a crawl, in ms")
    print(f"{'':<34}{'p99':>9}{'longest':>9}{'pages/s':>11}{'generations':>13}{'s for one':>11}")
    filled = min(capacity // 2, 8_000_000)
    with tempfile.TemporaryDirectory(dir=chosen.dir) as name:
        home = Path(name)
        for what, interval in (("no checkpoint", _NEVER), ("one checkpoint after the other", chosen.interval)):
            asyncio.run(stalls(what, large, filled, chosen.seconds, interval, home / what.replace(" ", "-")))
        asyncio.run(bytes_written(home / "chain", chosen.keys))


if __name__ == "__main__":
    main(sys.argv[1:])
