"""Simulate the protocol between partitions alone, hundreds of lives a second, each from a random seed: processes that
are killed, lose power, are stopped and cut off, over a carrier that loses, repeats, delays and forgets.

    python benchmarks/partitions/protocol.py [--seeds A-B] [--state FILE] [--planted [NAME]]

The lives are those of ``tests/job/partition/protocol_simulation.py``; CI runs some of them. Exits with 1 and names the
seed when the crawl ends while anything is left, or never; when a page is visited again without need, or by two; and
when the row of an inlet goes back. The last line is a digest of all that happened: the same seeds have the same one.
With ``--state`` a run that was ended goes on where it was. With ``--planted`` it says in which of the seeds each
planted fault shows first, and exits with 1 if one does not.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from tests.job.partition.planted_in_protocol import FAULTS
from tests.job.partition.protocol_simulation import KINDS, live

_TOLD = 5_000  # lives


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=_seeds, default=range(100_000), metavar="A-B", help="(0-99999)")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep there how far it is")
    parser.add_argument("--planted", nargs="?", const="", metavar="NAME", help="plant each fault, or those so named")
    chosen = parser.parse_args(words)
    gc.set_threshold(50_000)
    for line in describe_machine():
        print(line)
    print(f"\nseeds          {chosen.seeds[0]} to {chosen.seeds[-1]}", flush=True)
    if chosen.planted is None:
        is_right = _right(chosen.seeds, chosen.state)
    else:
        found = [_shows(name, chosen.seeds) for name in FAULTS if chosen.planted in name]
        is_right = all(found)
    if not is_right:
        raise SystemExit(1)


def _seeds(words: str) -> range:
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)


def _right(seeds: range, state: Path | None) -> bool:
    counts, trace, done = Counter[str](), "", 0
    if state is not None and state.exists():
        kept = json.loads(state.read_text("utf-8"))
        counts, trace, done = Counter(kept["counts"]), kept["trace"], kept["lives"]
    for seed in seeds[done:]:
        life = live(seed)
        counts.update(life.counts)
        counts.update({f"wrong: {kind}": 1 for kind in life.wrong}, pages=life.pages)
        told = f"{trace} {seed} {life.pages} {sorted(life.counts.items())} {sorted(life.wrong.items())}"
        trace, done = hashlib.sha256(told.encode()).hexdigest()[:32], done + 1
        for kind, lines in life.wrong.items():
            print(f"seed {seed}: {kind}: {'; '.join(lines)}", flush=True)
        if done % _TOLD == 0:
            wrong = sum(count for name, count in counts.items() if name.startswith("wrong: "))
            print(f"{done:>11,} lives, {wrong} wrong", flush=True)
            if state is not None:
                _keep(state, {"counts": counts, "trace": trace, "lives": done})
    print(f"\n{done:>11,}  lives")
    for name in sorted(counts):
        if not name.startswith("wrong: "):
            print(f"{counts[name]:>11,}  {name}")
    print("\nwrong")
    for kind in KINDS:
        print(f"{counts[f'wrong: {kind}']:>11,}  {kind}")
    print(f"\ntrace     {trace}")
    return not any(counts[f"wrong: {kind}"] for kind in KINDS)


def _keep(state: Path, kept: object) -> None:
    new = state.with_suffix(".new")
    new.write_text(json.dumps(kept), "utf-8")
    os.replace(new, state)


def _shows(name: str, seeds: range) -> bool:
    """Say in which of the seeds a planted fault shows first."""
    plant, life_of = FAULTS[name]
    with plant():
        for tried, seed in enumerate(seeds, 1):
            wrong = life_of(seed)
            if wrong:
                print(f"{tried:>9,} {seed:>9,}  {name}: {', '.join(sorted(wrong))}", flush=True)
                return True
    print(f"    never         -  {name}: not found", flush=True)
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
