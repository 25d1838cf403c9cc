"""Simulate lost disks: small crawls with two replicas, each from a random seed, whose disks burn again and again.

    TMPDIR=/dev/shm python benchmarks/durability/disks.py [--rounds 300] [--first 0] [--replicas 2]

The crawls are those of ``tests/job/replica/lives.py``; CI runs 12 of them. Half of the deaths take the disk, and a
replica goes on; the other half are kills and power losses, after which the same directory does. Exits with 1 and names
the seed when a page is missing or recorded twice, or a replica lacks what others were told or does not know an admitted
key.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from tests.chance import CHANCE
from tests.job.replica.lives import live


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300, help="lives (300)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (0)")
    parser.add_argument("--replicas", type=int, default=2, help="of each job (2)")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    began = time.monotonic()
    total: Counter[str] = Counter()
    for seed in range(chosen.first, chosen.first + chosen.rounds):
        CHANCE.seed(seed)
        with tempfile.TemporaryDirectory() as top:
            life = live(seed, Path(top), readers=chosen.replicas)
        total += Counter(
            burnt=life.burnt,
            restarted=life.restarted,
            copies=life.copies,
            resent=life.resent,
            asked=life.asked,
            finished=life.finished,
            missing=len(life.missing),
            twice=len(life.twice),
            broken=len(life.broken),
            unseen=life.unseen,
        )
        if life.missing or life.twice or life.broken or life.unseen:
            print(f"seed {seed}: missing or unknown {sorted(life.missing)[:5]}, twice {life.twice[:5]}, {life.broken}")
            print(f"seed {seed}: {life.unseen} keys are not in the seen-set")
    deaths = total["burnt"] + total["restarted"]
    again = (total["asked"] - total["finished"]) / max(1, deaths)
    print(f"\nlives            {chosen.rounds:>9,}   seeds {chosen.first} to {chosen.first + chosen.rounds - 1}")
    print(f"disks lost       {total['burnt']:>9,}")
    print(f"other deaths     {total['restarted']:>9,}   kills and power losses")
    print(
        f"replicas         {chosen.replicas:>9,}   of each; {total['copies']:,} made by a copy,"
        f" steps sent again {total['resent']:,} times"
    )
    print(f"URLs finished    {total['finished']:>9,}   asked for {total['asked']:,}, so {again:.1f} again a death")
    print(f"missing          {total['missing']:>9,}")
    print(f"twice            {total['twice']:>9,}")
    print(f"promises broken  {total['broken']:>9,}")
    print(f"keys not known   {total['unseen']:>9,}   of those admitted, by the seen-set of what takes its place")
    print(f"seconds          {time.monotonic() - began:>9.0f}")
    if total["missing"] or total["twice"] or total["broken"] or total["unseen"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
