"""How much a generation writes after 1% new keys when one slice holds nearly all keys, and what a restart then costs.

    python benchmarks/durability/renewal.py [--megabytes 256] [--dir DIR] [--out FILE]

Two jobs: a fixed Bloom filter of the given size, half full, and a chain that was just compacted into a slice of that
size. Their keys are random digests; those that come after the first generation are journalled as by a crawl, ten at a
time. "Each time" is the rule switched off: each generation stores the slice again. Then
the job is opened again, as after SIGKILL: with nothing to be replayed, after the 1%, and with the most keys that the
rule lets come before it stores the slice again. Times are wall-clock times unless stated otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.kv import Family
from crawler.base.settings.parts import SeenSettings, Settings
from crawler.job.checkpoint.generations import BYTES_PER_KEY, MOST_KEYS, Manifest, Renewal
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import encode_admitted, encode_counters, sequence_key
from crawler.seen.filters import ScalableBloomFilter

# As a crawl has it, but for the rule that a small seen-set is stored each time: so that a small one shows the same.
_PLATFORM = Platform(renewal=Renewal(few_bytes=0))
_STEP = 10  # keys journalled together
_PIECE = 2**16  # keys
_BITS_PER_KEY = 15.4  # of a slice for an fpp of 0.001, and of a successor's share of it


def pieces(keys: int) -> Iterator[bytes]:
    draw = np.random.default_rng(1)
    for start in range(0, keys, _PIECE):
        yield draw.bytes(min(_PIECE, keys - start) * 16)


def bloom(megabytes: int) -> tuple[SeenSettings, int]:
    capacity = int(megabytes * 2**23 / _BITS_PER_KEY)
    return SeenSettings(kind="bloom", capacity=capacity), capacity // 2


def chain(megabytes: int) -> tuple[SeenSettings, int]:
    return SeenSettings(compact_slices=0), int(megabytes * 2**23 / _BITS_PER_KEY / 1.5)


def fill(job: Job, keys: int) -> None:
    for piece in pieces(keys):
        job.seen.restore(piece)
    if isinstance(job.seen, ScalableBloomFilter):
        successor = job.seen.successor()
        while not successor.touch():
            pass
        for piece in pieces(keys):
            successor.put(piece)
        job.seen.succeed(successor)


def journal(job: Job, keys: int, draw: np.random.Generator) -> None:
    """As admission does, without URLs and queue."""
    counters = job.counters
    for start in range(0, keys, _PIECE):
        batch = job.store.batch()
        for _ in range(0, min(_PIECE, keys - start), _STEP):
            digests = draw.bytes(16 * _STEP)
            job.seen.restore(digests)
            batch.put(Family.ADMITTED, sequence_key(counters.sequence), encode_admitted(digests))
            counters.sequence += 1
            counters.urls_admitted += _STEP
            counters.urls_excluded += _STEP  # none of them is pending
            job._admission.journalled += _STEP
        batch.put(Family.META, b"counters", encode_counters(counters))
        job.store.write(batch)


def line(what: str, manifest: Manifest | None) -> str:
    assert manifest is not None
    return f"  {what:<58}{manifest.bytes:>14,} bytes{manifest.seconds:>8.2f} s"


def reopened(directory: Path, settings: Settings, what: str) -> tuple[Job, str]:
    began, used = time.perf_counter(), time.process_time()
    job = Job(directory, settings, time.time(), _PLATFORM)
    lasted, cpu = time.perf_counter() - began, time.process_time() - used
    return job, f"  {what:<58}{lasted:>28.2f} s, of the CPU{cpu:>6.2f} s"


async def measure(name: str, seen: SeenSettings, keys: int, directory: Path) -> list[str]:
    settings = Settings(seen=seen)
    draw = np.random.default_rng(2)
    job = Job(directory, settings, time.time(), _PLATFORM)
    lines = []
    try:
        fill(job, keys)
        job.counters.sequence += 1
        first = (await job.checkpoint(time.time())).manifest
        lines.append(f"\n{name}, {keys:,} keys; 1% are {keys // 100:,}")
        lines.append(line("the first generation wrote", first))
        for times in (1, 2, 3):
            journal(job, keys // 100, draw)
            lines.append(line(f"after 1% new keys, {times} times", (await job.checkpoint(time.time())).manifest))
        job.checkpointer.renewal = Renewal(most_keys=0)
        journal(job, keys // 100, draw)
        lines.append(line("after 1% new keys, stored each time", (await job.checkpoint(time.time())).manifest))
        job.close()
        job, said = reopened(directory, settings, "opened again, nothing to be replayed")
        lines.append(said)
        journal(job, keys // 100, draw)
        await job.checkpoint(time.time())
        job.close()
        job, said = reopened(directory, settings, "opened again, 1% to be replayed")
        lines.append(said)
        size = sum(part.size for part in job.seen.parts() if part.journaled and not part.sealed)
        longest = min(MOST_KEYS, size // BYTES_PER_KEY) - keys // 100 - _PIECE  # the last step of a piece is whole
        journal(job, longest, draw)
        manifest = (await job.checkpoint(time.time())).manifest
        assert manifest is not None
        assert manifest.seen_sequence < manifest.sequence
        job.close()
        job, said = reopened(directory, settings, f"opened again, {keys // 100 + longest:,} keys to be replayed")
        lines.append(said)
    finally:
        job.close()
    return lines


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=256, help="of the slice (256)")
    parser.add_argument("--dir", type=Path, help="where the jobs are made; both fsync and space matter")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    lines = list(describe_machine(("numpy", "bitarray", "mmh3", "rocksdict")))
    kinds = {"a fixed Bloom filter": bloom, "a chain just compacted": chain}
    with tempfile.TemporaryDirectory(dir=chosen.dir) as name:
        for what, made in kinds.items():
            seen, keys = made(chosen.megabytes)
            print(what, flush=True)
            lines += asyncio.run(measure(what, seen, keys, Path(name) / seen.kind))
    text = "\n".join(lines)
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
