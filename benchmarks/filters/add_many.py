"""Which of these keys are new? The seen-set compared with its peers, in one run.

Every filter is filled with the same keys and then asked the same batches, of which nine keys in ten are known; new
ones are added. The filters take turns batch size by batch size, so that a busy machine disturbs all alike. Figures are
nanoseconds of thread CPU time for a key, hashing of the string included, medians of the rounds. The seen-set is there
with the compiled kernel and as its reference in Python, with both hashes, with one slice and with four.

Peers are called in their best deterministic way (one that gives the same answers in another process):

    rbloom         hash_func=mmh3.hash128, ``key not in b`` and ``b.add``: its default, hash(), cannot be saved
    abloom         serializable=True, whose ``add`` says whether the key was new
    fastbloom_rs   contains_str_batch, then add_str_batch of the new ones
    pybloom_live   ``add``, which says whether the key was known
    set            of the strings; of their 16-byte mmh3 digests

    pip install rbloom abloom fastbloom-rs pybloom-live
    python -m benchmarks.filters.add_many [--keys 1000000] [--rounds 7] [--out benchmarks/filters/add_many.txt]

Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import mmh3
import numpy as np

from crawler.seen.filters import KeyHash, ScalableBloomFilter
from crawler.seen.slices.compiled import available, reference

AddMany = Callable[[list[str]], list[int]]

FPP = 0.001
SIZES = {1: 4000, 4: 2000, 16: 800, 64: 300, 256: 100, 1024: 40}  # batch size: batches a round


def url(number: int) -> str:
    return (
        f"https://www.example{number % 9973}.org/section/{number % 97}/articles/page-{number:010d}.html?ref=list&x=77"
    )


def chain(keys: int, slices: int, algorithm: str) -> AddMany:
    """A chain that holds ``keys`` keys in that many slices, the last of them a third full; or in one, nearly full."""
    first = keys * 1.1 if slices == 1 else keys / (2 ** (slices - 1) - 1 + 2 ** (slices - 1) / 3)
    return ScalableBloomFilter(FPP, int(first), hash=KeyHash.new(algorithm)).add_many


def in_python(keys: int, slices: int, algorithm: str) -> AddMany:
    with reference():
        return chain(keys, slices, algorithm)


def rbloom(keys: int) -> AddMany:
    made = importlib.import_module("rbloom").Bloom(keys, FPP, lambda key: mmh3.hash128(key, signed=True))

    def add_many(batch: list[str]) -> list[int]:
        new = []
        for position, key in enumerate(batch):
            if key not in made:
                made.add(key)
                new.append(position)
        return new

    return add_many


def abloom(keys: int) -> AddMany:
    add = importlib.import_module("abloom").BloomFilter(keys, FPP, serializable=True).add
    return lambda batch: [position for position, key in enumerate(batch) if add(key)]


def fastbloom(keys: int) -> AddMany:
    made = importlib.import_module("fastbloom_rs").FilterBuilder(keys, FPP).build_bloom_filter()

    def add_many(batch: list[str]) -> list[int]:
        new = [position for position, known in enumerate(made.contains_str_batch(batch)) if not known]
        if new:
            made.add_str_batch([batch[position] for position in new])
        return new

    return add_many


def pybloom(keys: int) -> AddMany:
    add = importlib.import_module("pybloom_live").BloomFilter(int(keys * 1.5), FPP).add
    return lambda batch: [position for position, key in enumerate(batch) if not add(key)]


def set_of_strings(_: int) -> AddMany:
    known: set[str] = set()

    def add_many(batch: list[str]) -> list[int]:
        new = []
        for position, key in enumerate(batch):
            if key not in known:
                known.add(key)
                new.append(position)
        return new

    return add_many


def set_of_digests(_: int) -> AddMany:
    known: set[bytes] = set()

    def add_many(batch: list[str]) -> list[int]:
        new = []
        for position, digest in enumerate(map(mmh3.hash_bytes, batch)):
            if digest not in known:
                known.add(digest)
                new.append(position)
        return new

    return add_many


RIVALS: dict[str, Callable[[int], AddMany]] = {
    f"{algorithm}, {slices} slice{'s' * (slices > 1)}{name}": partial(make, slices=slices, algorithm=algorithm)
    for make, name in ((chain, ""), (in_python, ", in Python"))
    for algorithm in ("mmh3", "blake2b")
    for slices in (1, 4)
} | {
    "abloom": abloom,
    "rbloom with mmh3": rbloom,
    "fastbloom_rs": fastbloom,
    "pybloom_live": pybloom,
    "set of 16-byte digests": set_of_digests,
    "set of str": set_of_strings,
}


def made(keys: int) -> dict[str, AddMany]:
    filled = {}
    for name, make in RIVALS.items():
        if not available() and name.endswith(("slice", "slices")):
            print(f"without {name}: crawler._native was not built", file=sys.stderr)
            continue
        try:
            add_many = make(keys)
        except ImportError as missing:
            print(f"without {name}: {missing}", file=sys.stderr)
            continue
        for start in range(0, keys, 4096):
            add_many([url(number) for number in range(start, min(keys, start + 4096))])
        filled[name] = add_many
    return filled


def main() -> None:
    asked = argparse.ArgumentParser(description="add_many beside its peers")
    asked.add_argument("--keys", type=int, default=1_000_000)
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    filters = made(options.keys)
    draw = np.random.default_rng(20)
    times: dict[tuple[str, int], list[float]] = {(name, size): [] for name in filters for size in SIZES}
    fresh = options.keys
    gc.disable()
    for _ in range(options.rounds):
        for size, count in SIZES.items():
            old = draw.integers(0, options.keys, (count, size))
            is_new = draw.random((count, size)) < 0.1
            numbers = np.where(is_new, fresh + np.cumsum(is_new.ravel()).reshape(is_new.shape), old)
            fresh += int(is_new.sum())
            batches = [[url(number) for number in row] for row in numbers.tolist()]
            for name, add_many in filters.items():
                begun = time.thread_time_ns()
                for batch in batches:
                    add_many(batch)
                times[name, size].append((time.thread_time_ns() - begun) / (count * size))
    lines = [
        f"{options.keys:,} keys in, 90% of those asked seen, fpp {FPP}; ns of thread CPU a key, medians of "
        f"{options.rounds} rounds",
        f"{machine()}",
        "",
        f"{'batch':28}" + "".join(f"{size:>8}" for size in SIZES),
    ]
    for name in filters:
        figures = (statistics.median(times[name, size]) for size in SIZES)
        lines.append(f"{name:28}" + "".join(f"{figure:8.0f}" for figure in figures))
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return (
        f"{names[0] if names else platform.processor()}, {len(names)} cores; "
        f"Python {platform.python_version()}, numpy {np.__version__}"
    )


if __name__ == "__main__":
    main()
