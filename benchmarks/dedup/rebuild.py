"""What the digests beside FILE buy ``crawler dedup``: bits a key, memory, CPU and disk, with them and without.

Lines that are all new are piped into ``crawler dedup --raw --filter FILE``, as many as asked, and half as many more in
a second run. ``chain`` has ``seen.compact_slices = 0``, so that no digests are kept. Peak memory is the kernel's, less
that of a run of one line; CPU time is that of the whole process.

    python -m benchmarks.dedup.rebuild [--keys 20000000] [--dir .] [--out benchmarks/dedup/rebuild.txt]

The figures for 10**10 keys are arithmetic with the sizes that the slices are made with, as ``crawler plan`` prints.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.seen.filters.planning import plan, plan_compacted

DEDUP = [sys.executable, "-m", "crawler", "dedup", "--raw"]


class Run(NamedTuple):
    cpu: float  # seconds
    wall: float
    peak: int  # bytes


def run(words: list[str], first: int, last: int) -> Run:
    """Feed it the lines ``first`` to ``last``, and throw away what it prints."""
    began = os.times()
    lines = subprocess.Popen(
        ["seq", "-f", "https://www.example.org/articles/%.0f.html", str(first), str(last)], stdout=-1
    )
    with lines, open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(words, stdin=lines.stdout, stdout=nowhere, stderr=subprocess.PIPE)
        assert lines.stdout is not None
        assert process.stderr is not None
        lines.stdout.close()
        told = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(told)
    return Run(used.ru_utime + used.ru_stime, os.times().elapsed - began.elapsed, used.ru_maxrss * 1024)


def figures(file: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "crawler", "filter", "info", str(file), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    return found


def rows(directory: Path, keys: int) -> list[str]:
    chain = directory / "chain.toml"
    chain.write_text("[seen]\ncompact_slices = 0\n")
    nothing = run(DEDUP, 1, 1).peak
    lines = []
    for name, more in (("one slice", []), ("chain", ["--config", str(chain)])):
        file = directory / name.replace(" ", "-")
        words = [*DEDUP, "--filter", str(file), *more]
        for first, last in ((1, keys), (keys + 1, keys + keys // 2)):
            ran = run(words, first, last)
            now, beside = figures(file), file.with_name(file.name + ".digests")
            kept = beside.stat().st_size if beside.exists() else 0
            peak = (ran.peak - nothing) * 8 / now["count"]
            lines.append(
                f"{name:10}{now['count']:14,}{len(now['slices']):8}{now['bits_per_url']:10.1f}{peak:12.1f}"
                f"{ran.cpu * 1e9 / (last - first + 1):12.0f}{kept / now['count']:12.1f}"
                f"{now['fpp_estimated']:12.1e}"
            )
    return lines


def large(keys: int) -> list[str]:
    """What a filter of ``keys`` keys takes, by arithmetic."""
    asked = {"fpp": 0.001, "capacity": 2**20}
    (whole,) = (one for one in plan(keys, **asked) if one.kind == "scalable")
    compacted = plan_compacted(keys, **asked, slices=2)
    return [
        f"{name:10}{keys:14,}{one.size / 1e9:8.1f} GB, at most {one.peak / 1e9:.1f} GB until then"
        for name, one in (("one slice", compacted), ("chain", whole))
    ]


def main() -> None:
    asked = argparse.ArgumentParser(description="dedup with and without digests")
    asked.add_argument("--keys", type=int, default=20_000_000)
    asked.add_argument("--dir", type=Path, default=Path())
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as made:
        found = rows(Path(made), options.keys)
    heads = ("keys", "slices", "bits/key", "peak bits", "ns CPU/line", "disk B/key", "fpp")
    widths = (14, 8, 10, 12, 12, 12, 12)
    text = "\n".join(
        [
            *describe_machine(["numpy"]),
            "",
            " " * 10 + "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)),
            *found,
            "",
            *large(10**10),
        ]
    )
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
