"""What compaction buys and costs: bits a key while a seen-set grows from 10 to 80 million keys, time, memory, and how
long the event loop stalls.

A journal of random digests is written to a real store while a seen-set finds them new; as in a crawl, the chain is
rebuilt beside the additions. A journal event has 20 keys; while the chain is rebuilt one is written in each turn of
the loop.

    python -m benchmarks.filters.compaction [--keys 20000000] [--dir .] [--out benchmarks/filters/compaction.txt]

The bits a key are arithmetic with the sizes that the slices are made with (the run checks them where it gets); the rest
is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

from benchmarks.filters.add_many import machine
from benchmarks.filters.bits_per_key import FROM, TO, chain, over_the_range
from crawler.base.kv import Family
from crawler.job.records import encode_admitted, sequence_key
from crawler.job.seen_compaction import Compaction, compact_beside
from crawler.job.store.rocks import RocksStore
from crawler.seen.filters import ScalableBloomFilter
from crawler.seen.filters.chain_compaction import successor_share
from crawler.seen.filters.planning import schedule

SIZE = 16
EVENT = 20  # keys
WAIT = 0.001  # seconds between two events while the chain is rebuilt: a busy crawl
FPP, FIRST = 0.001, 2**20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def sizes() -> tuple[list[int], list[int], list[int]]:
    """Of each slice that compaction makes: its capacity, its bytes, and those of the slice that follows it."""
    parameters = chain(2.0, 0.85, "paired")
    capacities, made, following = [FIRST], [next(schedule(parameters)).size], [0]
    while capacities[-1] < TO:
        capacity, _ = successor_share(capacities[-1] + 1, FPP, 0.85)
        one, next_one = islice(schedule(parameters, capacity), 2)
        capacities.append(capacity)
        made.append(one.size)
        following.append(next_one.size)
    return capacities, made, following


def bits() -> list[str]:
    capacities, made, following = sizes()
    keys = np.linspace(FROM, TO, 5001)
    at = np.searchsorted(capacities, keys)
    each = np.array(made)[at] * 8 / keys
    reached = [number for number in range(1, len(made)) if capacities[number] < TO]
    peaks = [(made[n] + following[n] + made[n + 1]) * 8 / capacities[n] for n in reached if capacities[n] >= FROM]
    mean, least, most, slices = over_the_range(chain(2.0, 0.85, "paired"))
    return [
        f"bits a key over {FROM:,} to {TO:,} keys, fpp {FPP}, first slice {FIRST:,}",
        f"{'':24}{'mean':>8}{'least':>8}{'most':>8}{'slices asked':>14}",
        f"{'chain':24}{mean:8.1f}{least:8.1f}{most:8.1f}{slices:14}",
        f"{'compacted':24}{each.mean():8.1f}{each.min():8.1f}{each.max():8.1f}{1:14}",
        f"while one is built, the old slice, the one that follows it and the new one: at most {max(peaks):.1f}",
    ]


@dataclass
class Run:
    """A seen-set that grows beside its compaction."""

    store: RocksStore
    keys: int
    seen: ScalableBloomFilter = field(default_factory=lambda: ScalableBloomFilter(FPP, FIRST))
    gaps: list[float] = field(default_factory=list)
    pieces: list[float] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    most_resident: int = 0

    async def grow(self) -> None:
        """Fill with the keys, a compaction beside it, and take the gaps between two turns of the loop while one is
        under way."""
        self.compaction = Compaction(self.seen, self.store, 2, print)
        beside = asyncio.create_task(compact_beside(self._advance))
        draw = np.random.default_rng(3)
        events = 0
        last = time.perf_counter()
        while len(self.seen) < self.keys or self.seen.slices > 1:
            rebuilding = self.seen.slices > 1
            digests = draw.bytes((1 if rebuilding else 64) * EVENT * SIZE)
            new = self.seen.add_digests(digests)
            kept = b"".join([digests[SIZE * i : SIZE * i + SIZE] for i in new])
            batch = self.store.batch()
            for start in range(0, len(kept), EVENT * SIZE):
                event = encode_admitted(kept[start : start + EVENT * SIZE])
                batch.put(Family.ADMITTED, sequence_key(events), event)
                events += 1
            self.store.write(batch)
            await asyncio.sleep(WAIT if rebuilding else 0)
            now = time.perf_counter()
            if rebuilding:
                self.gaps.append(now - last)
            last = now
        beside.cancel()

    def _advance(self) -> bool:
        slices = self.seen.slices
        cpu, began = time.thread_time(), time.perf_counter()
        worked = self.compaction.advance()
        if not worked:
            return False
        if not self.pieces:
            self.begun, self.quiet = began, resident()
        self.pieces.append(time.thread_time() - cpu)
        self.most_resident = max(self.most_resident, resident())
        if self.seen.slices < slices:
            count, bits_then = len(self.seen), self.seen.statistics()["bits_per_url"]
            self.built.append(
                f"{count:12,} keys: {time.perf_counter() - self.begun:6.1f} s beside the additions, "
                f"{1e9 * sum(self.pieces) / count:5.0f} ns of CPU a key, {len(self.pieces):,} pieces of "
                f"{1e3 * max(self.pieces):.1f} ms at most; resident {self.quiet / 2**20:.0f} MiB before, "
                f"{self.most_resident / 2**20:.0f} at most, {bits_then:.1f} bits a key then"
            )
            self.pieces, self.most_resident = [], 0
        return True


def asked(seen: ScalableBloomFilter, digests: bytes) -> float:
    """ns of CPU a key, in batches of 256."""
    rounds = []
    for _ in range(5):
        began = time.thread_time()
        for start in range(0, len(digests), 256 * SIZE):
            seen.contains_digests(digests[start : start + 256 * SIZE])
        rounds.append(1e9 * (time.thread_time() - began) * SIZE / len(digests))
    return float(np.median(rounds))


def measure(keys: int, directory: str) -> list[str]:
    store = RocksStore(Path(directory) / "store")
    run = Run(store, keys)
    asyncio.run(run.grow())
    p50, p99, most = (1e3 * float(np.quantile(run.gaps, share)) for share in (0.5, 0.99, 1.0))
    long = ScalableBloomFilter(FPP, FIRST)
    draw = np.random.default_rng(3)
    while len(long) < len(run.seen):
        long.restore(draw.bytes(4096 * SIZE))
    absent = np.random.default_rng(4).bytes(2**20 * SIZE)
    known = np.random.default_rng(3).bytes(2**20 * SIZE)
    found = sum(run.seen.contains_digests(absent)) / 2**20
    lines = [
        f"grown to {len(run.seen):,} keys, rebuilt when the chain has 2 slices:",
        *run.built,
        f"gap between two turns of the loop while it was rebuilt: median {p50:.2f}, p99 {p99:.2f}, max {most:.2f} ms; "
        f"{len(run.gaps):,} turns, each with an event of {EVENT} keys written and {1e3 * WAIT:.0f} ms waited",
        f"asked, batches of 256, ns of CPU a key: absent keys {asked(run.seen, absent):.0f} (chain of {long.slices} "
        f"slices: {asked(long, absent):.0f}), known ones {asked(run.seen, known):.0f} ({asked(long, known):.0f})",
        f"absent keys found {found:.1e}, bound {FPP}; present keys denied {known_denied(run.seen, store):,}",
    ]
    store.close()
    return lines


def known_denied(seen: ScalableBloomFilter, store: RocksStore) -> int:
    denied = 0
    for rows in store.pages(Family.ADMITTED):
        answers = seen.contains_digests(b"".join([value for _, value in rows]))
        denied += len(answers) - sum(answers)
    return denied


def main() -> None:
    asked_for = argparse.ArgumentParser(description="compaction of a long chain")
    asked_for.add_argument("--keys", type=int, default=20_000_000)
    asked_for.add_argument("--dir", default=None)
    asked_for.add_argument("--out", type=Path)
    options = asked_for.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        text = "\n".join([machine(), *bits(), "", *measure(options.keys, directory)])
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
