"""A billion distinct keys in one scalable seen-set: memory, time and correctness.

The digests are made from a counter (splitmix64, twice), so those that are in can be asked again without being kept.
Afterwards 10 million of them are asked (none may be denied) and 10 million that are not in.

    python -m benchmarks.filters.billion [--keys 1000000000] [--out benchmarks/filters/billion.txt]
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
import numpy.typing as npt

from benchmarks.filters.add_many import machine
from crawler.seen.filters import ScalableBloomFilter

BATCH = 4096
ASKED = 10_000_000


def digests(numbers: npt.NDArray[np.uint64]) -> bytes:
    made = np.empty((len(numbers), 2), np.uint64)
    for column, salt in enumerate((0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)):
        z = (numbers + np.uint64(1)) * np.uint64(salt)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        made[:, column] = z ^ (z >> np.uint64(31))
    return made.tobytes()


def main() -> None:
    asked = argparse.ArgumentParser(description="a thousand million keys")
    asked.add_argument("--keys", type=int, default=1_000_000_000)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    seen = ScalableBloomFilter(0.001)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, cpu = time.perf_counter(), 0
    for start in range(0, options.keys, BATCH):
        batch = digests(np.arange(start, min(start + BATCH, options.keys), dtype=np.uint64))
        before = time.thread_time_ns()
        seen.add_digests(batch)
        cpu += time.thread_time_ns() - before
    lasted = time.perf_counter() - begun
    denied = wrong = 0
    step = max(1, options.keys // ASKED)
    for start in range(0, ASKED, BATCH):
        numbers = np.arange(start, min(start + BATCH, ASKED), dtype=np.uint64)
        denied += seen.contains_digests(digests(numbers * np.uint64(step) % np.uint64(options.keys))).count(False)
        wrong += seen.contains_digests(digests(numbers + np.uint64(10**15))).count(True)
    figures = seen.statistics()
    measured = figures["fpp_measured"]
    sigma = math.sqrt(wrong) / ASKED
    skipped = options.keys - len(seen)
    text = "\n".join(
        [
            machine(),
            f"{options.keys:,} distinct keys in batches of {BATCH}: {lasted:,.0f} s, "
            f"{cpu / options.keys:.0f} ns of CPU a key in add_digests",
            f"slices {len(figures['slices'])}, {figures['bytes']:,} bytes, "
            f"{figures['bytes'] * 8 / options.keys:.2f} bits a key",
            f"resident at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024:,} bytes "
            f"({base * 1024:,} before the first key)",
            f"of {ASKED:,} present keys denied: {denied}",
            f"of {ASKED:,} absent keys found: {wrong:,}, fpp {wrong / ASKED:.3e} +- {sigma:.1e}; "
            f"estimated {figures['fpp_estimated']:.3e}, bound {figures['fpp_bound']:.3e}",
            f"skipped while filling: {skipped:,}; expected {figures['expected_urls_skipped']:,.0f}; "
            f"measured on watched keys {measured}",
        ]
    )
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
