"""Find the new lines of a stream: ``crawler dedup`` compared with ``sort -u`` and ``awk '!a[$0]++'``.

A list of URLs, half of its lines repeats, is made once and read by every program from the same file; what they print
is counted and thrown away. CPU time is that of the whole process, its start included; peak memory is the kernel's. The
report says how loaded the machine was: wall times depend on it. Programs take turns, round by round; medians.

    python -m benchmarks.dedup.run [--lines 10000000] [--rounds 3] [--out benchmarks/dedup/dedup.txt]

``sort`` gets the byte order (LC_ALL=C) and one thread; it sorts in half of the memory at most, then in files.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

# This process must stay small: the kernel takes what it holds for a child's peak memory.

DEDUP = [sys.executable, "-m", "crawler", "dedup"]
PROGRAMS: dict[str, list[str]] = {
    "dedup --raw": [*DEDUP, "--raw"],
    "dedup --raw --hash mmh3": [*DEDUP, "--raw", "--hash", "mmh3"],
    "dedup --raw --seen digest": [*DEDUP, "--raw", "--seen", "digest"],
    "dedup": DEDUP,
    "dedup --hash mmh3": [*DEDUP, "--hash", "mmh3"],
    "sort -u": ["sort", "-u", "--parallel=1"],
    "awk '!a[$0]++'": ["awk", "!a[$0]++"],
}
BUILD = "filter build"
ROOT = Path(__file__).resolve().parents[2]
DESCRIBE = "from benchmarks.kit.machine import *; print(*describe_machine(['numpy', 'mmh3', 'ada-url']), sep='\\n')"


class Run(NamedTuple):
    cpu: float  # seconds
    wall: float  # seconds
    peak: float  # MB
    printed: int  # lines


def make(path: Path, lines: int) -> None:
    """Half of the lines are repeats, near and far, in an order that only the number of lines decides."""
    distinct = lines // 2
    with open(path, "w", encoding="ascii") as out:
        for number in range(lines):
            url = number // 2 if number % 2 == 0 else number * 2654435761 % (number // 2 + 1)
            out.write(
                f"https://www.site{url * 7919 % 5000}.example/section/{url % 97}/articles/story-{url:09d}.html"
                f"?page={url % 7}\n"
            )
    print(f"{lines:,} lines, {distinct:,} distinct, {path.stat().st_size / lines:.0f} bytes each")


def run(words: list[str], path: Path) -> Run:
    began = time.perf_counter()
    with open(path, "rb") as lines:
        process = subprocess.Popen(
            words,
            stdin=lines,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        )
        assert process.stdout is not None
        printed = 0
        while piece := os.read(process.stdout.fileno(), 2**16):
            printed += piece.count(b"\n")
        process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words} ended with {process.returncode}")
    return Run(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1000, printed)


def median(runs: list[Run]) -> Run:
    return Run(*(statistics.median(values) for values in zip(*runs, strict=True)))


def build(path: Path, directory: Path, jobs: int, rounds: int) -> str:
    """Times of a build in so many processes; its peak memory is that of one process, not of all."""
    words = [sys.executable, "-m", "crawler", "filter", "build", str(directory / "seen"), "--from", str(path)]
    walls, cpus = [], []
    for _ in range(rounds):
        (directory / "seen").unlink(missing_ok=True)
        one = run([*words, "--raw", "--jobs", str(jobs)], path)
        walls.append(one.wall)
        cpus.append(one.cpu)
    return f"{BUILD} --raw --jobs {jobs}: {statistics.median(walls):.1f} s, {statistics.median(cpus):.1f} s of CPU"


def report(lines: int, rounds: int, directory: Path) -> list[str]:
    path = directory / "lines"
    make(path, lines)
    told = subprocess.run([sys.executable, "-c", DESCRIBE], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    runs: dict[str, list[Run]] = {name: [] for name in PROGRAMS}
    for _ in range(rounds):
        for name, words in PROGRAMS.items():
            runs[name].append(run(words, path))
            print(f"{name}: {runs[name][-1]}", file=sys.stderr)
    table = [
        *told.splitlines(),
        f"{lines:,} lines of {path.stat().st_size / lines:.0f} bytes, half of them repeats; medians of {rounds} rounds",
        "",
        f"{'':26} {'lines/s of CPU':>15} {'CPU s':>7} {'wall s':>7} {'peak MB':>8} {'printed':>11}",
    ]
    for name, several in runs.items():
        one = median(several)
        table.append(
            f"{name:26} {lines / one.cpu:15,.0f} {one.cpu:7.1f} {one.wall:7.1f} {one.peak:8,.0f} {one.printed:11,.0f}"
        )
    return [*table, "", *(build(path, directory, jobs, rounds) for jobs in (1, 2))]


def main() -> None:
    asked = argparse.ArgumentParser(description="new lines of a stream")
    asked.add_argument("--lines", type=int, default=10_000_000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        text = "\n".join(report(options.lines, options.rounds, Path(directory)))
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
