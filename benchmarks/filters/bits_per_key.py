"""Bits per key: of one slice in each layout, and of a chain for each growth and tightening.

Arithmetic only, with the sizes that the slices are made with; a second or two.

    python -m benchmarks.filters.bits_per_key [--out benchmarks/filters/bits_per_key.txt]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from crawler.seen.filters.planning import schedule

FROM, TO = 10_000_000, 80_000_000


def one_slice(layout: str, fpp: float, keys: int = 10_000_000) -> float:
    made = next(schedule({"kind": "bloom", "capacity": keys, "fpp": fpp, "layout": layout}))
    return made.size * 8 / keys


def over_the_range(parameters: dict[str, Any]) -> tuple[float, float, float, int]:
    """Mean, least and most bits a key while the chain grows from FROM to TO keys, and its slices then."""
    capacities, sizes = [0], [0]
    for part in schedule(parameters):
        capacities.append(capacities[-1] + part.capacity)
        sizes.append(sizes[-1] + part.size)
        if capacities[-1] >= TO:
            break
    keys = np.linspace(FROM, TO, 5001)
    bits = np.array(sizes)[np.searchsorted(capacities, keys)] * 8 / keys
    return float(bits.mean()), float(bits.min()), float(bits.max()), len(sizes) - 1


def chain(growth: float, tightening: float, layout: str) -> dict[str, Any]:
    return {
        "kind": "scalable",
        "fpp": 0.001,
        "capacity": 2**20,
        "growth": growth,
        "tightening": tightening,
        "layout": layout,
    }


def report() -> str:
    fpps = (1e-2, 1e-3, 1e-4, 1e-5)
    lines = ["bits a key, one slice      " + "".join(f"{fpp:>9.0e}" for fpp in fpps)]
    for layout in ("classic", "paired", "blocked"):
        lines.append(f"{layout:27}" + "".join(f"{one_slice(layout, fpp):9.1f}" for fpp in fpps))
    lines += [
        "",
        f"bits a key of a chain, fpp 1e-3, first slice 2**20, over {FROM:,} to {TO:,} keys",
        f"{'layout':10}{'growth':>8}{'tightening':>12}{'mean':>8}{'least':>8}{'most':>8}{'slices':>8}",
    ]
    for layout in ("paired", "blocked", "classic"):
        for growth in (1.5, 2.0, 4.0):
            for tightening in (0.5, 0.7, 0.8, 0.85, 0.9):
                mean, least, most, slices = over_the_range(chain(growth, tightening, layout))
                lines.append(f"{layout:10}{growth:8.1f}{tightening:12.2f}{mean:8.1f}{least:8.1f}{most:8.1f}{slices:8}")
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser(description="bits a key")
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    text = report()
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
