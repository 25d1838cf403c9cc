"""How long a snapshot of a large filter keeps the event loop from turning, and how long it takes to store.

Keys are added batch by batch in the loop while a thread writes the segments; the gaps between turns of the loop are
taken. Beside it, the same with nothing being written.

    python -m benchmarks.filters.snapshot [--megabytes 1024] [--dir .] [--out benchmarks/filters/snapshot.txt]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.filters.add_many import machine
from crawler.filters import BloomFilter, SeenSnapshot, write_segment


def store(shot: SeenSnapshot, directory: str) -> int:
    size = 0
    for part in shot.segments:
        with open(Path(directory) / part.name, "wb") as out:
            size += write_segment(out, part.header, part.buffer).size
            out.flush()
            os.fsync(out.fileno())
    return size


async def gaps_while(seen: BloomFilter, writing: asyncio.Future[int] | None, seconds: float) -> list[float]:
    draw = np.random.default_rng(9)
    gaps = []
    last = time.perf_counter()
    until = last + seconds
    while (not writing.done()) if writing else time.perf_counter() < until:
        seen.add_digests(draw.bytes(256 * 16))
        await asyncio.sleep(0)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    return gaps


def line(name: str, gaps: list[float]) -> str:
    p50, p99, most = (1000 * float(np.quantile(gaps, share)) for share in (0.5, 0.99, 1.0))
    return f"{name:32}{p50:9.2f}{p99:9.2f}{most:9.2f}   ms; {len(gaps):,} turns of the loop"


async def measure(megabytes: int, directory: str) -> str:
    keys = int(megabytes * 2**20 * 8 / 15.1)
    seen = BloomFilter(keys, 0.001)
    draw = np.random.default_rng(1)
    while len(seen) < min(keys // 2, 5_000_000):
        seen.restore(draw.bytes(2**16 * 16))
    quiet = await gaps_while(seen, None, 3.0)
    begun = time.perf_counter()
    shot = seen.snapshot()
    taken = time.perf_counter() - begun
    writing = asyncio.get_running_loop().run_in_executor(None, store, shot, directory)
    busy = await gaps_while(seen, writing, 0)
    lasted = time.perf_counter() - begun
    return "\n".join(
        [
            machine(),
            f"filter of {seen.statistics()['bytes']:,} bytes; batches of 256 new keys between turns",
            f"snapshot taken in {1000 * taken:.1f} ms; {writing.result():,} bytes stored and synced in {lasted:.1f} s",
            f"{'gap between turns':32}{'median':>9}{'p99':>9}{'max':>9}",
            line("nothing written", quiet),
            line("while it is written", busy),
        ]
    )


def main() -> None:
    asked = argparse.ArgumentParser(description="snapshot of a large filter")
    asked.add_argument("--megabytes", type=int, default=1024)
    asked.add_argument("--dir", default=None)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        text = asyncio.run(measure(options.megabytes, directory))
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
