"""Does ``take`` depend on how many hosts there are?

    python benchmarks/frontier/take.py [--hosts 1000 100000 1000000] [--takes 20000]

Hosts on RocksDB, CPU microseconds of a ``take`` and a ``finish`` (thread time, medians of 20 batches), and the memory
that the hosts take when a job with them is resumed. Two cases, which must not be mixed up:

    some    500 hosts are ready and take turns, with 40 URLs each; all others wait for an hour: on the heap, not in the
            way. The next entry is in memory for most takes.
    all     every host is ready and each take gives another one, whose record and next entry are on disk

The first tells what the heap of waiting hosts costs, the second what it costs to crawl more hosts than memory holds.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from scale import resident

from benchmarks.kit.machine import describe_machine
from crawler.base.kv import Family
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry, encode_entry, fresh_slot, pending_key
from crawler.frontier.frontier import Frontier
from crawler.frontier.host import BackQueue, Host, encode_host
from crawler.frontier.lease import Done, Lease
from crawler.frontier.limits import Limits, MemoryLimits
from crawler.frontier.politeness import HoldReason
from crawler.job.store.rocks import RocksStore

START = 1_700_000_000.0
READY = 500  # hosts that are ready, where only some are
BATCHES = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--takes", type=int, default=20_000)
    args = parser.parse_args()
    for line in describe_machine(["rocksdict"]):
        print(line)
    print(f"\n{'hosts':>10}{'ready':>14}{'take us':>10}{'finish us':>11}{'RSS growth MB':>15}{'bytes a host':>14}")
    for count in args.hosts:
        with tempfile.TemporaryDirectory(prefix="take-") as directory:
            measure(Path(directory), count, args.takes)


def measure(directory: Path, count: int, takes: int) -> None:
    for kind, ready, urls, kept in (
        ("some", min(count, READY), takes // READY, MemoryLimits().waiting),
        ("all", count, 1, 0),
    ):
        store = RocksStore(directory / kind)
        fill(store, count, ready, urls)
        gc.collect()
        before = resident()
        limits = Limits(memory=MemoryLimits(waiting=kept))
        frontier = Frontier(store, PolitenessSettings(delay=0.0), limits, robots=False)
        frontier.load(START, next_number=2**32)
        growth = resident() - before
        take, finish = turns(frontier, store, min(takes, ready * urls))
        store.close()
        print(
            f"{count:>10,}{kind:>14}{take:>10.1f}{finish:>11.1f}{growth:>15,.0f}{growth * 2**20 / count:>14,.0f}",
            flush=True,
        )


def fill(store: RocksStore, count: int, ready: int, urls: int) -> None:
    """The rows that such a job would have left."""
    batch, number = store.batch(), 0
    for at in range(count):
        name = f"host{at}.example.org:80"
        host = Host(name, BackQueue(urls if at < ready else 1, complete=False))
        if at >= ready:
            host.politeness.next_time, host.politeness.hold_reason = START + 3_600, HoldReason.RETRY_AFTER
        for n in range(host.queue.size):
            entry = Entry(f"http://host{at}.example.org/path/to/a-page-{n}.html", 2, f"http://host{at}.example.org/")
            batch.put(Family.PENDING, pending_key(name, fresh_slot(number)), encode_entry(entry))
            number += 1
        batch.put(Family.HOSTS, name.encode("ascii"), encode_host(host))
        if len(batch.changes) > 1_000:
            store.write(batch)
            batch = store.batch()
    store.write(batch)


def turns(frontier: Frontier, store: RocksStore, takes: int) -> tuple[float, float]:
    """Medians over the batches, of one take and of one finish."""
    size, now = takes // BATCHES, START + 1
    take, finish = [], []
    for _ in range(BATCHES):
        began = time.thread_time()
        leases: list[Lease] = [lease for _ in range(size) if (lease := frontier.take(now)) is not None]
        take.append((time.thread_time() - began) / len(leases) * 1e6)
        batch = store.batch()
        began = time.thread_time()
        for lease in leases:
            now += 1e-5
            frontier.finish(lease, Done(), now, batch)
        finish.append((time.thread_time() - began) / len(leases) * 1e6)
        store.write(batch)
        frontier.written()
    return statistics.median(take), statistics.median(finish)


if __name__ == "__main__":
    main()
