"""What a secret costs: nanoseconds a key for keyed BLAKE2b, seeded MurmurHash3 and MurmurHash3 as it was, in one run.

Two things are timed, at several batch sizes: only the digests, and the whole question of a seen-set, which is asked
nine known keys and a new one in turn. "before" is the way of the version before: ``mmh3.hash_bytes`` mapped over the
keys. The candidates take turns round by round. Figures are thread CPU time of the fastest round: what else a busy
machine does only ever adds to it.

    python -m benchmarks.filters.key_hash [--rounds 25] [--out benchmarks/filters/key_hash.txt]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import mmh3

from benchmarks.kit.machine import describe_machine
from crawler.seen.filters import SEED_ZERO, KeyHash, ScalableBloomFilter

SIZES = {1: 4_000, 16: 800, 64: 300, 1024: 40}  # batch size: batches a round
HELD = 1_000_000
KNOWN_OF = 10  # of so many keys one is new

Ask = Callable[[list[str]], object]


def url(number: int) -> str:
    return f"https://www.example{number % 9973}.org/section/{number % 97}/articles/page-{number:010d}.html"


def plain(keys: list[str]) -> bytes:
    if "".join(keys).isascii():
        return b"".join(map(mmh3.hash_bytes, keys))
    raise ValueError("these keys are ASCII")


def constructed(keys: list[str]) -> bytes:
    return b"".join([blake2b(key.encode(), digest_size=16, key=b"sixteen letters!").digest() for key in keys])


def candidates() -> dict[str, Ask]:
    return {
        "before: mmh3, seed 0": plain,
        "mmh3, seeded": KeyHash.new("mmh3").digest_keys,
        "blake2b, keyed": KeyHash.new().digest_keys,
        "blake2b, constructed for each key": constructed,
    }


def filled(hash: KeyHash) -> ScalableBloomFilter:
    made = ScalableBloomFilter(0.001, 2**21, hash=hash)
    made.update(url(number) for number in range(HELD))
    return made


def batches(size: int, count: int, fresh: int) -> list[list[str]]:
    """Nine keys in ten are held; the others begin at ``fresh``."""
    keys = [url(HELD + fresh + at if at % KNOWN_OF == 0 else (at * 7_919 + fresh) % HELD) for at in range(size * count)]
    return [keys[start : start + size] for start in range(0, len(keys), size)]


def timed(ask: Ask, work: Sequence[list[str]]) -> float:
    began = time.thread_time_ns()
    for keys in work:
        ask(keys)
    return (time.thread_time_ns() - began) / sum(map(len, work))


def table(title: str, asked: dict[str, Ask], rounds: int) -> list[str]:
    found: dict[tuple[str, int], list[float]] = {}
    for number in range(rounds):
        for size, count in SIZES.items():
            for place, (name, ask) in enumerate(asked.items()):
                work = batches(size, count, (number * len(asked) + place) * 100_000 + size * 1_000)
                found.setdefault((name, size), []).append(timed(ask, work))
    lines = [title, " " * 36 + "".join(f"{size:>9}" for size in SIZES)]
    for name in asked:
        lines.append(f"{name:<36}" + "".join(f"{min(found[name, size]):>9.0f}" for size in SIZES))
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    lines = [*describe_machine(), f"figures   thread CPU time of the fastest of {arguments.rounds} rounds", ""]
    lines += table("digests, ns a key, by batch size", candidates(), arguments.rounds)
    seen = {str(hash) + (" seed 0" if not hash.keyed else ""): hash for hash in (SEED_ZERO, KeyHash.new())}
    asked: dict[str, Ask] = {f"scalable, {name}": filled(hash).add_many for name, hash in seen.items()}
    lines += table(f"add_many of a seen-set with {HELD:,} URLs, ns a key, by batch size", asked, arguments.rounds)
    text = "\n".join(lines).rstrip() + "\n"
    print(text, end="")
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
