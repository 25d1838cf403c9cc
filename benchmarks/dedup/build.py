"""Build a seen-set from a long list of URLs: ``crawler filter build`` in one process and in several.

The list is made first, all of its lines distinct. Each build is a process of its own that starts the others; its CPU
time is that of all of them. Afterwards ``filter check`` asks for every hundredth line, which must be there, and for as
many that were never in the list.

    python -m benchmarks.dedup.build [--lines 100000000] [--canonical] [--dir DIR] [--out benchmarks/dedup/build.txt]

DIR needs 90 bytes a line, and a filter's 2 for each build.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.service.progress.text_table import text_table

FILTER = [sys.executable, "-m", "crawler", "filter"]
JOBS = (1, 2)
EVERY = 100  # lines, of which one is asked for
_TOGETHER = 100_000


def url(number: int) -> str:
    return (
        f"https://www.site{number * 7919 % 5000}.example/section/{number % 97}/articles/story-{number:09d}.html"
        f"?page={number % 7}\n"
    )


def make(path: Path, start: int, stop: int, step: int = 1) -> None:
    with open(path, "w", encoding="ascii") as out:
        for first in range(start, stop, _TOGETHER * step):
            out.write("".join(map(url, range(first, min(first + _TOGETHER * step, stop), step))))


def build(words: list[str]) -> tuple[float, float]:
    """Seconds of wall and of CPU."""
    began = time.perf_counter()
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    assert process.stderr is not None
    told = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words} ended with {process.returncode}: {told}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def held(file: Path, lines: Path) -> int:
    with open(lines, "rb") as asked:
        found = subprocess.run([*FILTER, "check", str(file)], stdin=asked, capture_output=True, check=True).stdout
    return found.count(b"\n")


def main() -> None:
    asked = argparse.ArgumentParser(description="a seen-set of a long list")
    asked.add_argument("--lines", type=int, default=100_000_000)
    asked.add_argument("--canonical", action="store_true")
    asked.add_argument("--dir", default=None)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    lines: int = options.lines
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        directory = Path(name)
        source, present, absent = (directory / part for part in ("lines", "present", "absent"))
        make(source, 0, lines)
        make(present, 0, lines, EVERY)
        make(absent, lines, 2 * lines, EVERY)
        told = [
            *describe_machine(["numpy", "mmh3", "ada-url"]),
            f"{lines:,} lines, {source.stat().st_size:,} bytes",
            "",
        ]
        print(*told, sep="\n", flush=True)
        rows = []
        for raw, jobs in itertools.product([["--raw"], []] if options.canonical else [["--raw"]], JOBS):
            file = directory / "filter"
            words = [*FILTER, "build", str(file), "--from", str(source), "--jobs", str(jobs), *raw]
            wall, cpu = build(words)
            size = file.stat().st_size
            found = held(file, present), held(file, absent)
            count = -(-lines // EVERY)
            rows.append(
                (
                    " ".join(["build", *raw]), str(jobs), f"{wall:.1f}", f"{cpu:.1f}", f"{lines / wall:,.0f}",
                    f"{size:,}", f"{found[0]:,} of {count:,}", f"{found[1] / count:.2e}",
                )
            )  # fmt: skip
            print(rows[-1], file=sys.stderr, flush=True)
            file.unlink()
        heads = ("", "processes", "wall s", "CPU s", "lines/s", "bytes", "present found", "absent found")
        text = "\n".join([*told, *text_table(heads, rows)])
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
