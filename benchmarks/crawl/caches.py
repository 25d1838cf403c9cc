"""Where a page's instructions, cache misses and mispredicted branches are, by function, beside the floor's.

    python benchmarks/crawl/caches.py [--pages N] [--top N]

callgrind simulates the two levels of caches of this machine and a predictor of branches, for this crawler and for the
floor, on two made webs; the difference of the two crawls over that of their pages is the cost of a page. Functions are
those of C: the interpreter's loop stands for all Python. A miss of the last level costs a hundred cycles or more, a
mispredicted branch about 15, so both are printed as instructions too, to say what bounds the time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.crawl.crawls import Crawler, floor, ours
from benchmarks.crawl.instructions import FEW, run_counted
from benchmarks.kit.machine import describe_machine

OPTIONS = ("--cache-sim=yes", "--branch-sim=yes")
# The columns, of callgrind's events: instructions; misses of the first level, of instructions and of data; of the
# last; branches, conditional and indirect ones, that were mispredicted.
COLUMNS = {
    "instructions": ("Ir",),
    "I1 misses": ("I1mr",),
    "D1 misses": ("D1mr", "D1mw"),
    "LL misses": ("ILmr", "DLmr", "DLmw"),
    "branches": ("Bcm", "Bim"),
}
CYCLES = {"LL misses": 100, "branches": 15}  # of one, about

Cost = Counter[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=200, help="pages of the larger web")
    parser.add_argument("--top", type=int, default=25, help="functions to print")
    chosen = parser.parse_args()
    crawlers = (floor(), ours())
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as threads:
        counted = {
            crawler.name: [
                threads.submit(_by_function, crawler, pages, Path(scratch) / f"{crawler.name}-{pages}")
                for pages in (chosen.pages, FEW)
            ]
            for crawler in crawlers
        }
        pages = chosen.pages - FEW
        floors, own = (_difference(*(each.result() for each in counted[crawler.name]), pages) for crawler in crawlers)
    print("\n".join(describe_machine()))
    print(f"pages     {chosen.pages} and {FEW}; figures are those of a page: ours, and after / the floor's\n")
    print(f"{'':44}" + "".join(f"{name:>22}" for name in COLUMNS))
    _print("all", _sum(own), _sum(floors))
    for name, cycles in CYCLES.items():
        print(f"  {name} of {cycles} cycles: {_sum(own)[name] * cycles:,.0f} / {_sum(floors)[name] * cycles:,.0f}")
    for function in sorted(own, key=lambda each: -own[each]["instructions"])[: chosen.top]:
        _print(function, own[function], floors.get(function, Counter()))
    return 0


def _by_function(crawler: Crawler, pages: int, home: Path) -> dict[str, Cost]:
    """The cost of each function in itself, by its name."""
    events, names, found = list[str](), dict[str, str](), dict[str, Cost]()
    cost, skips = Cost(), False
    for line in run_counted(crawler, pages, home, OPTIONS).read_text("utf-8", "replace").splitlines():
        key, equals, value = line.partition("=")
        if line.startswith("events:"):
            events = line.split()[1:]
        elif key == "fn" and equals:
            number, _, name = value.partition(" ")
            name = names[number] = name or names[number]
            cost = found.setdefault(name, Cost())
        elif key == "cfn" and equals:
            number, _, name = value.partition(" ")
            names[number] = name or names[number]
        elif key == "calls" and equals:
            skips = True  # the next line has what the function cost that was called
        elif line[:1].isdigit() or line[:1] in "+-*":
            if not skips:
                cost.update({event: int(number) for event, number in zip(events, line.split()[1:], strict=False)})
            skips = False
    return {
        name: Cost({column: sum(cost[event] for event in of) for column, of in COLUMNS.items()})
        for name, cost in found.items()
    }


def _difference(many: dict[str, Cost], few: dict[str, Cost], pages: int) -> dict[str, Cost]:
    return {
        name: Cost({column: (cost[column] - few.get(name, Cost())[column]) // pages for column in COLUMNS})
        for name, cost in many.items()
    }


def _sum(functions: dict[str, Cost]) -> Cost:
    whole = Cost()
    for cost in functions.values():
        whole.update(cost)
    return whole


def _print(name: str, own: Cost, floors: Cost) -> None:
    print(f"{name[:44]:44}" + "".join(f"{own[column]:>12,} /{floors[column]:>8,}" for column in COLUMNS), flush=True)


if __name__ == "__main__":
    sys.exit(main())
