"""Simulate what may happen between partitions: small crawls of three, each from a random seed, over streams that delay,
repeat, reorder and lose what they carry, with losses of power of senders and receivers at any moment.

    python benchmarks/durability/partitions.py [--rounds 1000] [--first 0] [--faults]

The crawls are those of ``benchmarks/durability/chain_simulation.py``. Exits with 1 and names the seed when a page is
missing, admitted twice or where it does not belong. With ``--faults`` it says in how many lives each planted fault
shows, and exits with 1 if one does not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.durability.chain_simulation import FAULTS, live
from benchmarks.kit.machine import describe_machine


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1_000, help="lives (1000)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (0)")
    parser.add_argument("--faults", action="store_true", help="plant each fault in so many lives")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    seeds = range(chosen.first, chosen.first + chosen.rounds)
    print(f"\nlives          {chosen.rounds:>9,}   seeds {seeds[0]} to {seeds[-1]}")
    if not (_faults if chosen.faults else _right)(seeds):
        raise SystemExit(1)


def _right(seeds: range) -> bool:
    pages = cuts = kills = repeated = missing = twice = astray = stuck = 0
    for seed in seeds:
        life = live(seed)
        pages, cuts, kills, repeated = (
            pages + life.pages,
            cuts + life.cuts,
            kills + life.kills,
            repeated + life.repeated,
        )
        missing, twice = missing + len(life.missing), twice + len(life.twice)
        astray, stuck = astray + len(life.astray), stuck + life.stuck
        if not life.is_right:
            print(f"seed {seed}: {life}")
    print(f"URLs           {pages:>9,}   each has one link that leads to it")
    print(f"power losses   {cuts:>9,}")
    print(f"kills          {kills:>9,}")
    print(f"repeated       {repeated:>9,}   batches")
    print(f"missing        {missing:>9,}")
    print(f"twice          {twice:>9,}")
    print(f"astray         {astray:>9,}")
    print(f"never at rest  {stuck:>9,}")
    return not (missing or twice or astray or stuck)


def _faults(seeds: range) -> bool:
    found = {name: sum(not live(seed, make()).is_right for seed in seeds) for name, make in FAULTS.items()}
    for name, lives in found.items():
        print(f"{lives:>14,}   lives go wrong: {name}")
    return all(found.values())


if __name__ == "__main__":
    main(sys.argv[1:])
