"""A large frontier on a real store: the cost of admitting, taking and finishing, the memory it keeps, and how soon a
restarted job hands out its first URL.

    python benchmarks/frontier/scale.py [--pending 10000000] [--hosts 100000] [--taken 2000000] [--dir DIR] [--keep]

Hosts are chosen by a Zipf law (exponent 1), URLs are of 70 to 80 characters. Pages of 50 new outlinks are admitted one
step each, then URLs are taken and finished one step each: queue, host records, counters and journal, written to RocksDB
as the job writes them, with fsync once a second in a thread. (The seen-set and ``pages.jsonl`` have benchmarks of their
own.)

CPU seconds are those of the thread that runs the steps; RocksDB flushes and compacts in threads of its own, whose share
the last column has besides. Politeness runs on a virtual clock: a gap of 1 s, at 40,000 URLs a second.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Done as LeaseDone
from crawler.job.metrics.catalogue import Counters
from crawler.job.records import (
    Done,
    Outcome,
    Position,
    decode_counters,
    encode_admitted,
    encode_counters,
    encode_done,
    sequence_key,
)
from crawler.job.recovery import COUNTERS
from crawler.job.store.rocks import RocksStore

LINKS = 50  # new ones of a page
SOON = 300_000  # the first ones after a restart, shown by themselves: most of their hosts are on the disk
RATE = 40_000  # URLs a second on the virtual clock
START = 1_700_000_000.0
TITLES = ("", "CPU us/URL", "URLs/s CPU", "URLs/s wall", "RSS MB", "growth", "process CPU us")
WIDTHS = (24, 12, 12, 12, 9, 8, 16)
_REPORT = 20  # lines while it runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pending", type=int, default=10_000_000)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--taken", type=int, default=2_000_000)
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--keep", action="store_true", help="leave the store, and go on from there next time")
    args = parser.parse_args()
    for line in describe_machine(["rocksdict", "numpy"]):
        print(line)
    directory = args.dir or Path(tempfile.mkdtemp(prefix="frontier-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"\n{args.pending:,} URLs of {args.hosts:,} hosts (Zipf), {args.taken:,} taken and finished")
    print("".join(f"{title:>{width}}" for title, width in zip(TITLES, WIDTHS, strict=True)))
    try:
        run(directory, args.pending, args.hosts, args.taken)
    finally:
        if not args.keep:
            shutil.rmtree(directory)


def run(directory: Path, pending: int, hosts: int, taken: int) -> None:
    store = RocksStore(directory / "store")
    base = resident()
    bench = Steps(store)
    if bench.counters.urls_admitted < pending:
        with grouped_commit(store):
            bench.admit(pending, hosts, base)
    size = disk_bytes(directory)
    print(f"on disk {size / 2**20:,.0f} MB, {size / bench.counters.urls_admitted:.0f} bytes a URL", flush=True)
    store.close()
    del bench, store
    gc.collect()

    began, cpu = time.perf_counter(), time.process_time()
    store = RocksStore(directory / "store")
    opened = time.perf_counter()
    bench = Steps(store)
    bench.frontier.load(START + 10_000.0, next_number=bench.counters.next_number, hosts=bench.counters.hosts)
    loaded = time.perf_counter()
    while (first := bench.frontier.take(START + 10_002.0)) is None:  # 4,096 hosts are put in order in one call
        assert bench.frontier.next_ready() is not None
    print(
        f"restart: first URL after {time.perf_counter() - began:.2f} s ({opened - began:.2f} opening, "
        f"{loaded - opened:.2f} hosts; {time.process_time() - cpu:.2f} CPU), {bench.frontier.queued + 1:,} pending, "
        f"RSS {resident():,.0f} MB"
    )
    bench.frontier.release(first)
    gc.collect()
    gc.freeze()  # as `crawler run` does
    with grouped_commit(store):
        soon = min(taken, SOON)
        bench.take_and_finish("soon after a restart", soon, base)
        if taken > soon:
            bench.take_and_finish("after that", taken - soon, base)
    store.close()


class Steps:
    """The frontier's part of the job's steps."""

    def __init__(self, store: RocksStore) -> None:
        stored = store.get(Family.META, COUNTERS)
        self.store = store
        self.now = 0.0
        self.counters = Counters() if stored is None else decode_counters(stored)
        self.frontier = Frontier(
            store,
            PolitenessSettings(delay=1.0),
            robots=False,
        )

    def admit(self, pending: int, hosts: int, base: float) -> None:
        table = Table("admit", pending, base)
        chunk = 200 * LINKS
        chosen = Zipf(hosts)
        while self.counters.urls_admitted < pending:
            first = self.counters.urls_admitted
            pages = list(self._pages(first, chosen.draw(chunk)))
            table.start()
            for digests, entries in pages:
                batch = self.store.batch()
                batch.put(Family.ADMITTED, sequence_key(self.counters.sequence), encode_admitted(digests))
                self.counters.sequence += 1
                self.counters.urls_admitted += len(entries)
                self.frontier.admit(entries, batch)
                self._write(batch)
            table.stop(chunk)
        table.total()

    def _pages(self, first: int, numbers: list[int]) -> Iterator[tuple[bytes, list[Entry]]]:
        for at in range(0, len(numbers), LINKS):
            via = f"http://host{numbers[at - 1]}.example.org/some/path/index-{first + at}.html"
            entries = [
                Entry(f"http://host{host}.example.org/some/path/to/a-page-{first + at + i}.html", 2, via, priority=2)
                for i, host in enumerate(numbers[at : at + LINKS])
            ]
            yield os.urandom(16 * LINKS), entries

    def take_and_finish(self, name: str, count: int, base: float) -> None:
        table = Table(name, count, base)
        now, done = max(START + 10_002.0, self.now), 0
        while done < count:
            table.start()
            steps = min(50_000, count - done)
            for _ in range(steps):
                while (lease := self.frontier.take(now)) is None:
                    now = self.frontier.next_ready() or now
                now += 1 / RATE
                assert lease.entry is not None
                batch = self.store.batch()
                event = Done(Outcome.FETCHED, 200, lease.entry, (Position(0, 400 * done, 400, 1),))
                batch.put(Family.DONE, sequence_key(self.counters.sequence), encode_done(event))
                self.counters.sequence += 1
                self.counters.pages_fetched += 1
                self.frontier.finish(lease, LeaseDone(), now, batch)
                self._write(batch)
            done += steps
            table.stop(steps)
        table.total()
        self.now = now

    def _write(self, batch: Batch) -> None:
        self.counters.next_number = self.frontier.next_number
        self.counters.hosts = self.frontier.hosts
        batch.put(Family.META, COUNTERS, encode_counters(self.counters))
        self.store.write(batch)
        self.frontier.written()


class Zipf:
    """Numbers below ``count``, number k with a chance proportional to 1 / (k + 1)."""

    def __init__(self, count: int) -> None:
        weights = 1.0 / np.arange(1, count + 1)
        self._sums = np.cumsum(weights) / weights.sum()
        self._chance = np.random.default_rng(7)

    def draw(self, count: int) -> list[int]:
        found = np.searchsorted(self._sums, self._chance.random(count))
        numbers: list[int] = found.tolist()
        return numbers


class Table:
    """Rows of figures: now and then while it runs, each of what was done since the one before, and the whole at the
    end, with the most memory that was in use at the end of a row."""

    def __init__(self, name: str, expected: int, base: float) -> None:
        self._name, self._every, self._base = name, max(1, expected // _REPORT), base
        self._all, self._lately, self._marks = np.zeros(3), np.zeros(3), np.zeros(3)
        self._count = self._shown = 0
        self._most = 0.0

    def start(self) -> None:
        self._marks = _times()

    def stop(self, count: int) -> None:
        self._lately += _times() - self._marks
        self._count += count
        if self._count % self._every < count:
            self._show()

    def _show(self) -> None:
        rss = resident()
        _row(f"  {self._count:,}", self._lately / (self._count - self._shown), rss, self._base)
        self._all += self._lately
        self._lately[:] = 0.0
        self._shown, self._most = self._count, max(self._most, rss)

    def total(self) -> None:
        if self._count > self._shown:
            self._show()
        _row(self._name, self._all / self._count, self._most, self._base)


def _times() -> np.ndarray:
    """Seconds: CPU of this thread, wall, CPU of the process."""
    return np.array((time.thread_time(), time.perf_counter(), time.process_time()))


def _row(name: str, each: np.ndarray, rss: float, base: float) -> None:
    cpu, wall, process = each
    speed = f"{cpu * 1e6:12.1f}{1 / cpu:12,.0f}{1 / wall:12,.0f}"
    print(f"{name:24}{speed}{rss:9,.0f}{rss - base:8,.0f}{process * 1e6:16.1f}", flush=True)


class grouped_commit:
    """fsync of the store's log once a second, in a thread, as the job does."""

    def __init__(self, store: RocksStore) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sync, args=(store.sync,))

    def _sync(self, sync: Callable[[], None]) -> None:
        while not self._ended.wait(1.0):
            sync()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()


def resident() -> float:
    """MB of memory that this process has in use; files that are mapped are not counted."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
