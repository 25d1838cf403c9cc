"""How long a snapshot of a large filter blocks the event loop, and how long it takes to store.

Keys are added batch by batch in the loop while a thread writes the segments; the gaps between turns of the loop are
taken. Beside it, the same with nothing being written.

A filter that can forget is copied first, piece by piece between turns of the loop, as it was when the snapshot was
taken.

    python -m benchmarks.filters.snapshot [--kind bloom] [--megabytes 1024] [--dir .] [--out FILE]

``snapshot.txt`` is the run for ``bloom``, ``snapshot-counting.txt`` and ``snapshot-cuckoo.txt`` are those with 512 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

from benchmarks.filters.add_many import machine
from crawler.seen.filters import BloomFilter, CountingFilter, CuckooFilter, Filter, SeenSnapshot, write_segment

BATCH = 256  # keys


def store(shot: SeenSnapshot, directory: str) -> int:
    size = 0
    for part in shot.segments:
        with open(Path(directory) / part.name, "wb") as out:
            size += write_segment(out, part.header, part.buffer).size
            out.flush()
            os.fsync(out.fileno())
    return size


def made(kind: str, megabytes: int) -> Filter:
    """A filter of one slice, which has room for all that is added here."""
    size = megabytes * 2**20 * 8
    match kind:
        case "bloom":
            return BloomFilter(int(size / 15.1), 0.001)
        case "counting":
            return CountingFilter(0.001, int(size / 57.6), growth=None)
        case _:
            return CuckooFilter(0.001, int(size / 17.4), growth=None)


async def gaps_while(seen: Filter, going: Callable[[], bool]) -> list[float]:
    draw = np.random.default_rng(9)
    gaps = []
    last = time.perf_counter()
    while going():
        seen.add_digests(draw.bytes(BATCH * 16))
        await asyncio.sleep(0)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    return gaps


def line(name: str, gaps: list[float]) -> str:
    p50, p99, most = (1000 * float(np.quantile(gaps, share)) for share in (0.5, 0.99, 1.0))
    return f"{name:32}{p50:9.2f}{p99:9.2f}{most:9.2f}   ms; {len(gaps):,} turns of the loop"


async def measure(kind: str, megabytes: int, directory: str) -> str:
    seen = made(kind, megabytes)
    draw = np.random.default_rng(1)
    while len(seen) < 3_000_000:
        seen.restore(draw.bytes(2**16 * 16))
    end = time.perf_counter() + 3.0
    quiet = await gaps_while(seen, lambda: time.perf_counter() < end)
    begun = time.perf_counter()
    shot = seen.snapshot(whole=False)
    taken = time.perf_counter() - begun
    copying = await gaps_while(seen, shot.advance)
    copied = time.perf_counter() - begun
    writing = asyncio.get_running_loop().run_in_executor(None, store, shot, directory)
    busy = await gaps_while(seen, lambda: not writing.done())
    lasted = time.perf_counter() - begun
    copy = [line("while it is copied", copying)] if copying else []
    return "\n".join(
        [
            machine(),
            f"{kind} filter of {seen.statistics()['bytes']:,} bytes; batches of {BATCH} new keys between turns",
            f"snapshot taken in {1000 * taken:.1f} ms, copied in {copied:.1f} s; {writing.result():,} bytes stored and "
            f"synced in {lasted - copied:.1f} s",
            f"{'gap between turns':32}{'median':>9}{'p99':>9}{'max':>9}",
            line("nothing written", quiet),
            *copy,
            line("while it is written", busy),
        ]
    )


def main() -> None:
    asked = argparse.ArgumentParser(description="snapshot of a large filter")
    asked.add_argument("--kind", choices=("bloom", "counting", "cuckoo"), default="bloom")
    asked.add_argument("--megabytes", type=int, default=1024)
    asked.add_argument("--dir", default=None)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        text = asyncio.run(measure(options.kind, options.megabytes, directory))
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
