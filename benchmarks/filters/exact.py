"""The exact seen-set: how many lookups of unknown URLs read from a file, and whether any answer is wrong.

Ten million URLs are added in steps of 64, one batch of the store each, as a crawl does. The store is then closed and
opened again, so that nothing is left in RocksDB's memory, and when its compaction has come to rest it is asked for

    unknown     as many URLs that were never added, half of them on hosts that were met: the whole seen-set
    the rows alone
                a million of those with a filter in front that answers "maybe" to each: what RocksDB's filters do
    known       a million that were added, 64 at random (worst case: none near another), then as pages have them (64
                of one host)

Reads are RocksDB's own ticker ``block.cache.miss`` (data, index and filter blocks; the cache is the store's own, a
fraction of the rows). Times are thread CPU; RocksDB's compaction runs in threads of its own and is given for the
process.

    python -m benchmarks.filters.exact [--keys 10000000] [--out benchmarks/filters/exact.txt]
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from rocksdict import Options

from benchmarks.kit.machine import describe_machine
from crawler.base.kv import Family
from crawler.job.store import rocks
from crawler.job.store.rocks import RocksStore
from crawler.seen.exact.seen import ExactSeenSet
from crawler.seen.filters import ScalableBloomFilter
from crawler.seen.slices.key_hash import Blake2b

HASH = Blake2b(b"")
BATCH = 64
HOSTS = 100_000
_READS = "rocksdb.block.cache.miss"


def url(number: int) -> str:
    """Sixty-four in a row are links of one page: most of one host."""
    host = number // BATCH if number % 4 else number
    return f"https://www.example{host * 48_271 % HOSTS}.org/section/{number % 97}/page-{number:010d}.html?ref=list"


def unmet(number: int) -> str:
    return f"https://unmet{number % HOSTS}.example/section/{number % 97}/page-{number:010d}.html?ref=list"


def batches(urls: Iterable[str]) -> Iterator[list[str]]:
    page: list[str] = []
    for one in urls:
        page.append(one)
        if len(page) == BATCH:
            yield page
            page = []
    if page:
        yield page


@dataclass
class Asked:
    """What lookups cost: ``seconds`` of thread CPU, ``reads`` from a file."""

    lookups: int = 0
    called_known: int = 0
    seconds: float = 0.0
    reads: int = 0

    def line(self, name: str) -> str:
        return (
            f"{name:34}{self.lookups:>12,}{self.called_known:>12,}{self.reads:>12,}"
            f"{self.reads / self.lookups:>14.6f}{1e6 * self.seconds / self.lookups:>10.2f}"
        )


def tickers(store: RocksStore) -> dict[str, int]:
    """RocksDB's counters since the store was opened, by name."""
    lines = (line.partition(" COUNT : ") for line in (store._database.options.get_statistics() or "").splitlines())
    return {name: int(count) for name, _, count in lines if count.isdecimal()}


def counting(stores: int = 1, *, options: Callable[[int], Options] = rocks.database_options) -> Options:
    """The options of a store, with RocksDB's counters."""
    made = options(stores)
    made.enable_statistics()
    return made


def ask(seen: ExactSeenSet, store: RocksStore, urls: Iterable[str]) -> Asked:
    asked = Asked()
    before = tickers(store)[_READS]
    for page in batches(urls):
        begun = time.thread_time()
        known = seen.contains_many(page)
        asked.seconds += time.thread_time() - begun
        asked.lookups += len(page)
        asked.called_known += sum(known)
    asked.reads = tickers(store)[_READS] - before
    return asked


def fill(store: RocksStore, seen: ExactSeenSet, keys: int) -> list[str]:
    begun, cpu, all_cpu = time.perf_counter(), 0.0, time.process_time()
    for page in batches(map(url, range(keys))):
        started = time.thread_time()
        seen.add_many(page)
        cpu += time.thread_time() - started
    store.sync()
    wall, all_cpu = time.perf_counter() - begun, time.process_time() - all_cpu
    return [
        f"add_many, {keys:,} new URLs in batches of {BATCH}: {1e6 * cpu / keys:.2f} us of thread CPU a URL, "
        f"{1e6 * all_cpu / keys:.2f} of the process with compaction and the making of URLs, "
        f"{keys / wall:,.0f} URLs/s of wall time",
    ]


def settle(store: RocksStore) -> None:
    """Wait until nothing is read any more: compaction reads blocks too."""
    before = -1
    while (reads := tickers(store)[_READS]) != before:
        before = reads
        time.sleep(3)


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.sst"))


def measure(directory: Path, keys: int) -> list[str]:
    lines = []
    front = ScalableBloomFilter(0.001)
    store = RocksStore(directory)
    lines += fill(store, ExactSeenSet(store, front), keys)
    store.close()

    rocks.database_options = counting
    store = RocksStore(directory)
    settle(store)
    seen = ExactSeenSet(store, front)
    lines.append(
        f"rows: {len(seen):,}, {size_of(directory) / keys:.1f} bytes a URL on disk with their filters; filter in "
        f"front: {seen.statistics()['bytes'] * 8 / keys:.1f} bits a URL"
    )
    lines += ["", f"{'':34}{'lookups':>12}{'known':>12}{'reads':>12}{'reads/lookup':>14}{'us CPU':>10}"]
    half = keys // 2
    met_unknown = ask(seen, store, map(url, range(keys, keys + half)))
    unmet_unknown = ask(seen, store, map(unmet, range(keys, keys + half)))
    lines += [met_unknown.line("unknown, host met"), unmet_unknown.line("unknown, host never met")]

    million = min(10**6, half)
    unknown = [url(number) for number in range(keys, keys + million)]
    foreign = [unmet(number) for number in range(keys, keys + million)]
    crowd = ScalableBloomFilter(0.001, 2 * million)
    crowd.restore(HASH.digest_keys(unknown) + HASH.digest_keys(foreign))
    alone = ExactSeenSet(store, crowd)
    met_alone, unmet_alone = ask(alone, store, unknown), ask(alone, store, foreign)
    lines += [met_alone.line("  the rows alone, host met"), unmet_alone.line("  the rows alone, host never met")]

    chance = random.Random(1)
    scattered = ask(seen, store, (url(chance.randrange(keys)) for _ in range(million)))
    starts = [chance.randrange(keys - BATCH) // BATCH * BATCH for _ in range(million // BATCH)]
    pages = ask(seen, store, (url(start + at) for start in starts for at in range(BATCH)))
    lines += [scattered.line("known, scattered"), pages.line("known, by pages")]

    rows = sum(1 for _ in all_rows(store))
    store.close()
    wrong = sum(part.called_known for part in (met_unknown, unmet_unknown, met_alone, unmet_alone))
    missed = sum(part.lookups - part.called_known for part in (scattered, pages))
    unknown_reads = met_unknown.reads + unmet_unknown.reads
    lines += [
        "",
        f"false positives: {wrong} of {2 * half + 2 * million:,}; false negatives: {missed} of "
        f"{scattered.lookups + pages.lookups:,}; rows counted in the store: {rows:,}",
        f"unknown URLs answered without a read: {100 * (1 - unknown_reads / (2 * half)):.4f}% "
        "; by the rows alone: "
        f"{100 * (1 - (met_alone.reads + unmet_alone.reads) / (2 * million)):.2f}%",
        f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB",
    ]
    return lines


def all_rows(store: RocksStore) -> Iterator[bytes]:
    return (row for row, _ in store.rows(Family.SEEN))


def main() -> None:
    wanted = argparse.ArgumentParser(description="lookups of the exact seen-set")
    wanted.add_argument("--keys", type=int, default=10_000_000)
    wanted.add_argument("--out", type=Path)
    options = wanted.parse_args()
    head = describe_machine(("rocksdict", "numpy"))
    with tempfile.TemporaryDirectory(prefix="exact-") as directory:
        lines = measure(Path(directory) / "store", options.keys)
    text = "\n".join([*head, "", *lines])
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
