"""Simulate power losses: small crawls from start to end, each from a random seed, cut off again and again.

    python benchmarks/durability/power.py [--rounds 1000] [--first 0] [--output links]

The crawls are those of ``tests/durability/power.py``; CI runs 60 of them. Exits with 1 and names the seed when a page
is missing or recorded twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from tests.durability.power import KEEPING, SETTINGS, live


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1_000, help="lives (1000)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (0)")
    parser.add_argument("--output", choices=("links",), help="kept besides pages.jsonl, and compared too")
    parser.add_argument("--most-cuts", type=int, default=4, help="power losses in one life, at most (4)")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    began = time.monotonic()
    cuts: Counter[int] = Counter()
    finished = asked = missing = twice = 0
    for seed in range(chosen.first, chosen.first + chosen.rounds):
        life = live(seed, chosen.most_cuts, KEEPING if chosen.output else SETTINGS)
        cuts[life.cuts] += 1
        finished += life.finished
        asked += life.asked
        missing += len(life.missing)
        twice += len(life.twice)
        if life.missing or life.twice:
            print(f"seed {seed}: missing or unknown {sorted(life.missing)[:5]}, twice {life.twice[:5]}")
    losses = sum(number * lives for number, lives in cuts.items())
    print(f"\nlives         {chosen.rounds:>9,}   seeds {chosen.first} to {chosen.first + chosen.rounds - 1}")
    print(f"power losses  {losses:>9,}   in a life: " + ", ".join(f"{n}: {cuts[n]}" for n in sorted(cuts)))
    print(
        f"URLs finished {finished:>9,}   asked for {asked:,}, so {(asked - finished) / max(1, losses):.1f} again a loss"
    )
    print(f"missing       {missing:>9,}")
    print(f"twice         {twice:>9,}")
    print(f"seconds       {time.monotonic() - began:>9.0f}")
    if missing or twice:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
