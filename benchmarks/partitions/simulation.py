"""Simulate whole crawls of three workers in virtual time, each from a random seed, over a carrier that delays, repeats,
reorders, loses and forgets, and is cut off in one direction or both, while workers are killed, lose power, are stopped
and go on.

    python benchmarks/partitions/simulation.py [--seeds A-B] [--stored] [--processes N] [--long-delays]
                                               [--planted [NAME]]

The crawls are those of ``tests/cluster/ordeal_of_members.py``; CI runs some of them. Exits with 1 and
names the seed when a page is missing, recorded twice or asked for again without need, a host's gap is too short, a
request begins after half the life of a claim, or the crawl ends early or never. The last line is a digest of all that
happened: the same seeds have the same one. With ``--planted`` it says in which of the seeds each planted fault shows
first, and exits with 1 if one does not.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import logging
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from benchmarks.partitions import planted_in_members
from tests.cluster import ordeal_of_members
from tests.cluster.ordeal_of_members import Outcome, ordeal

_FAST = Path("/dev/shm")
_TOLD = 100  # seeds
KINDS = ("missing", "twice", "asked again", "gap", "fence", "early end", "end", "inlet", "handed over", "error")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=_seeds, default=range(1_000), metavar="A-B", help="(0-999)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="(1)")
    parser.add_argument("--planted", nargs="?", const="", metavar="NAME", help="plant each fault, or those so named")
    parser.add_argument("--stored", action="store_true", help="only crawls that live in a store, each third one")
    parser.add_argument("--long-delays", action="store_true", help="gaps of 12 seconds: longer than a takeover takes")
    chosen = parser.parse_args(words)
    seeds = [seed for seed in chosen.seeds if not chosen.stored or ordeal_of_members.is_stored(seed)]
    logging.disable(logging.ERROR)
    for line in describe_machine():
        print(line)
    print(f"\nseeds          {seeds[0]} to {seeds[-1]}{', each third' * chosen.stored}", flush=True)
    with ProcessPoolExecutor(chosen.processes) as pool:
        if chosen.planted is None:
            is_right = _right(pool.map(partial(live, long_delays=chosen.long_delays), seeds))
        else:
            names = [name for name in planted_in_members.FAULTS if chosen.planted in name]
            is_right = _planted(pool.map(partial(_first, seeds), names), names)
    if not is_right:
        raise SystemExit(1)


def _seeds(words: str) -> range:
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)


def live(seed: int, *, long_delays: bool = False) -> tuple[int, Outcome]:
    """One crawl, and its seed."""
    logging.disable(logging.ERROR)
    gc.set_threshold(50_000)  # a crawl makes many objects, and little garbage
    directory = Path(tempfile.mkdtemp(prefix="ordeal-", dir=_FAST if _FAST.is_dir() else None))
    try:
        with planted_in_members.long_delays() if long_delays else nullcontext():
            return seed, ordeal(seed, directory)
    except Exception as error:  # noqa: BLE001  # a bug is an outcome here
        where = traceback.format_exc().splitlines()[-3:]
        return seed, Outcome({"error": [repr(error), *where]}, {"wrong: error": 1}, 0, 0, 0.0, "")
    finally:
        shutil.rmtree(directory)


def _right(lives: Iterator[tuple[int, Outcome]]) -> bool:
    counts, traces, crawls = Counter[str](), hashlib.sha256(), 0
    for seed, outcome in lives:
        crawls += 1
        counts.update(outcome.counts)
        counts.update({"pages": outcome.pages, "requests": outcome.asked, "seconds": int(outcome.seconds)})
        traces.update(f"{seed} {outcome.trace}\n".encode())
        for kind, lines in outcome.wrong.items():
            print(f"seed {seed}: {kind}: {'; '.join(lines)}", flush=True)
        if crawls % _TOLD == 0:
            wrong = sum(count for name, count in counts.items() if name.startswith("wrong: "))
            print(f"{crawls:>9,} crawls, {wrong} wrong", flush=True)
    print(f"\n{crawls:>9,}  crawls")
    for name in (
        "pages",
        "requests",
        "asked again",
        "probes",
        "seconds",
        "slow calls",
        "batches lost",
        "finished again",
    ):
        print(f"{counts[name]:>9,}  {name}")
    _table("faults", {name[7:]: count for name, count in counts.items() if name.startswith("fault: ")})
    calls = Counter[str]()
    for name, count in counts.items():
        verb, is_call, fate = name.partition(": ")
        if is_call and verb not in ("fault", "wrong"):
            calls[fate] += count
    _table("calls to the carrier that were", calls)
    for verb in ("append", "read", "trim", "last", "claim", "renew", "put", "get"):
        fates = {name[len(verb) + 2 :]: count for name, count in counts.items() if name.startswith(f"{verb}: ")}
        print(f"{sum(fates.values()):>9,}  {verb}: {', '.join(f'{fates[fate]:,} {fate}' for fate in sorted(fates))}")
    _table("wrong", {kind: counts[f"wrong: {kind}"] for kind in KINDS})
    print(f"\ntrace     {traces.hexdigest()[:32]}")
    return not any(counts[f"wrong: {kind}"] for kind in KINDS)


def _table(title: str, counts: dict[str, int]) -> None:
    print(f"\n{title}")
    for name, count in counts.items() if title == "wrong" else sorted(counts.items()):
        print(f"{count:>9,}  {name}")


def _first(seeds: Sequence[int], fault: str) -> tuple[int, int, list[str]] | None:
    """How many seeds it took until a planted fault showed, which one that was, and as what."""
    with planted_in_members.FAULTS[fault]():
        for tried, seed in enumerate(seeds, 1):
            wrong = live(seed)[1].wrong
            if wrong:
                return tried, seed, sorted(wrong)
    return None


def _planted(found: Iterator[tuple[int, int, list[str]] | None], names: Sequence[str]) -> bool:
    print("\n    tried      seed  planted, and what shows")
    shown = True
    for name, first in zip(names, found, strict=True):
        shown = shown and first is not None
        words = "   never         -  " if first is None else f"{first[0]:>9,} {first[1]:>9,}  "
        print(f"{words}{name}: {', '.join(first[2]) if first else 'not found'}", flush=True)
    return shown


if __name__ == "__main__":
    main(sys.argv[1:])
