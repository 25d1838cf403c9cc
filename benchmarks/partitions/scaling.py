"""What partitions cost, and how they scale.

    python benchmarks/partitions/scaling.py [--rounds N] [--only cost|scale]

cost    CPU time of all processes for a page of the synthetic web (``crawler bench web``), the servers left out:
        one process without partitions, and one and two with 16. Two webs of different size are crawled, and the
        difference counts, so that starts do not.
scale   pages a second of 1, 2, 4 and 8 processes with 8 requests in flight each, on hosts that take 100 ms for an
        answer (``chain_web.py``), by the servers' log, some seconds after the first request. A process cannot have more
        than 80.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SIZES = (1_000, 5_000)  # pages of the two webs
WAYS = {"one process": (), "1 process, 16 partitions": (1,), "2 processes, 16 partitions": (2,)}
PROCESSES = (1, 2, 4, 8)
IN_FLIGHT = 8
SLOW = 100  # milliseconds of an answer
WINDOW = (8.0, 16.0)  # seconds after the first request
BUSY, LEAVES = 64, 300
# Workers do not look into the directory in which they start.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("cost", "scale"))
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        if chosen.only != "scale":
            cost(Path(name), chosen.rounds)
        if chosen.only != "cost":
            scale(Path(name))


# -- what a page costs -------------------------------------------------------------------------------------------------


def cost(home: Path, rounds: int) -> None:
    """Print the CPU time of a page in each way, in turns."""
    used: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(rounds):
        spent: dict[str, list[tuple[float, int]]] = {name: [] for name in WAYS}
        for size in SIZES:
            with served_synthetic(home / f"seeds-{size}-{number}", size) as seeds:
                for name, processes in WAYS.items():
                    spent[name].append(crawled(seeds, home / f"{name}-{size}-{number}".replace(" ", "-"), processes))
        for name, ((few, small), (many, large)) in spent.items():
            used[name].append((many - few) / (large - small) * 1e6)
    print(f"\n{'CPU, all processes':<28}{'us a page':>11}{'ratio':>8}  each round")
    base = statistics.median(used["one process"])
    for name, each in used.items():
        middle = statistics.median(each)
        print(f"{name:<28}{middle:>11.0f}{middle / base:>8.2f}  {', '.join(f'{one:.0f}' for one in each)}")


@contextmanager
def served_synthetic(seeds: Path, pages: int) -> Iterator[Path]:
    words = [sys.executable, "-m", "crawler", "bench", "web", "--pages", str(pages), "--hosts", "40"]
    web = subprocess.Popen([*words, "--seeds", str(seeds)], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        while not seeds.exists() or not seeds.read_text():
            time.sleep(0.1)
        yield seeds
    finally:
        web.terminate()
        web.wait()


def crawled(seeds: Path, job: Path, processes: tuple[int, ...]) -> tuple[float, int]:
    """Seconds of CPU time, and records."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "crawler", str(seeds), "--job", str(job), "--allow-network", "127.0.0.0/8"]
    words += ["--delay", "0", "--per-host", "4", "--quiet", "--contact", "test@example.org"]
    words += ["--concurrency", str(64 // (processes[0] if processes else 1))]
    words += ["--partitions", str(processes[0])] if processes else []
    # The servers of the web are children that still run: they are not counted.
    subprocess.run(words, cwd=ROOT, env=ENVIRONMENT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = [*job.glob("pages.jsonl"), *job.glob("partitions/*/pages.jsonl")]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, sum(len(file.read_bytes().splitlines()) for file in files)


# -- how they scale ----------------------------------------------------------------------------------------------------


def scale(home: Path) -> None:
    """Print the pages a second of so many processes."""
    print(f"\n{'processes':<12}{'pages/s':>9}{'of linear':>11}")
    first = 0.0
    for processes in PROCESSES:
        rate = paced(home / f"scale-{processes}", processes)
        first = first or rate
        print(f"{processes:<12}{rate:>9.1f}{rate / first / processes:>11.2f}")


def paced(home: Path, processes: int) -> float:
    home.mkdir()
    log, seeds = home / "log", home / "seeds"
    words = [sys.executable, str(HERE / "chain_web.py"), "--log", str(log), "--seeds", str(seeds), "--chains", "1"]
    words += ["--steps", "1", "--hosts", "1", "--busy", str(BUSY), "--leaves", str(LEAVES), "--slow", str(SLOW)]
    web = subprocess.Popen(words, stdin=subprocess.PIPE)
    try:
        while not seeds.exists():
            time.sleep(0.05)
        words = [sys.executable, "-m", "crawler", str(seeds), "--job", str(home / "job"), "--ignore-robots"]
        words += ["--partitions", str(processes), "--concurrency", str(IN_FLIGHT), "--per-host", str(IN_FLIGHT)]
        words += ["--allow-network", "127.20.0.0/16", "--scope", "any", "--delay", "0", "--quiet"]
        words += ["--max-time", str(WINDOW[1] + 8), "--contact", "test@example.org"]
        subprocess.run(words, cwd=ROOT, env=ENVIRONMENT, check=False, stderr=subprocess.DEVNULL)
    finally:
        assert web.stdin is not None
        web.stdin.close()
        web.wait()
    came = sorted(float(line.split()[2]) for line in log.read_text().splitlines())
    begin, end = (came[0] + second for second in WINDOW)
    return sum(begin <= at < end for at in came) / (end - begin)


if __name__ == "__main__":
    main(sys.argv[1:])
