"""Kill what crawls a web of chains in partitions, again and again, and ask the servers what was lost.

    python benchmarks/partitions/kills.py [--kill worker|all|first|mixed] [--kills 50] [--partitions 4]
        [--seed N] [--chains N] [--steps N] [--hosts N] [--delay S]

Serves the web itself (``chain_web.py``), crawls it with ``--partitions``, and kills with SIGKILL: one worker (the
first process starts another), all processes, or the first one alone (which ends the others). Whenever the command has
ended by a kill, the same command is given again. Then the servers' log and the records of all partitions say:

    lost         pages that no server was asked for
    missing      pages without a record
    twice        records beyond the first of a page
    again        requests beyond the first of a page, and how many were in flight at the kills together, at most
    gaps         requests that came before the host's gap since its last answer was over

Exits with 1 if pages are lost, missing or twice, or a gap was not kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from chain_web import NETWORK, Chains

from crawler.bench.machine import describe_machine

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_SLACK = 0.002  # seconds: the server notes the time of an answer before it writes it
_MOST_RUNS = 400
_WITHOUT_PAGES = 0.1  # of the kills come before another page was asked for


@dataclass(frozen=True, slots=True)
class Asked:
    """A line of the servers' log."""

    host: str
    path: str
    came: float
    answered: float
    who: str


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kill", choices=("worker", "all", "first", "mixed"), default="mixed")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--between", type=float, default=4.0, help="seconds between two kills, at most")
    parser.add_argument("--partitions", type=int, default=4, help="processes; 0: a crawl without partitions")
    parser.add_argument("--chains", type=int, default=81)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--busy", type=int, default=0, help="hosts with pages that wait for no other host")
    parser.add_argument("--leaves", type=int, default=500, help="of each of these")
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--concurrency", type=int, default=16, help="of each process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory for everything, which stays")
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        ordeal(chosen, home)


def ordeal(chosen: argparse.Namespace, home: Path) -> None:
    job, began = home / "job", time.monotonic()
    with served(chosen, home) as (chains, seeds, log):
        runs, codes = drive(chosen, home, job, seeds, log)
    took = time.monotonic() - began
    found = judged(chains, log, sorted(job.glob("partitions/*")) or [job], chosen.delay)
    print(f"crawl     {chosen.partitions} processes, {runs} runs, exit codes {dict(codes)}, {took:.0f} s\n")
    most = chosen.kills * max(1, chosen.partitions) * chosen.concurrency
    if not found.show(most) or codes[0] != 1:
        raise SystemExit(1)


@contextlib.contextmanager
def served(
    chosen: argparse.Namespace, home: Path, network: str = NETWORK, within: Sequence[str] = ()
) -> Iterator[tuple[Chains, Path, Path]]:
    """The web, its seeds and its log. ``within`` begins the command that serves it."""
    log, seeds = home / "log", home / "seeds.txt"
    web = subprocess.Popen(
        [
            *(
                *within,
                sys.executable,
                str(HERE / "chain_web.py"),
                "--network",
                network,
                "--log",
                str(log),
                "--seeds",
                str(seeds),
            ),
            *("--chains", str(chosen.chains), "--steps", str(chosen.steps), "--hosts", str(chosen.hosts)),
            *("--busy", str(chosen.busy), "--leaves", str(chosen.leaves)),
        ],
        stdin=subprocess.PIPE,
    )
    try:
        while not seeds.exists():
            time.sleep(0.05)
            assert web.poll() is None
        port = int(seeds.read_text().split("/")[2].rpartition(":")[2])
        yield Chains(chosen.chains, chosen.steps, chosen.hosts, port, chosen.busy, chosen.leaves, network), seeds, log
    finally:
        assert web.stdin is not None
        web.stdin.close()
        web.wait()


def command(chosen: argparse.Namespace, job: Path, seeds: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "crawler", str(seeds), "--job", str(job)),
        *(("--partitions", str(chosen.partitions)) if chosen.partitions else ()),
        *("--allow-network", "127.20.0.0/16", "--delay", str(chosen.delay), "--concurrency", str(chosen.concurrency)),
        *("--scope", "any", "--quiet", "--contact", "test@example.org"),
    ]


def drive(chosen: argparse.Namespace, home: Path, job: Path, seeds: Path, log: Path) -> tuple[int, Counter[int]]:
    """Run the command until it ends by itself. Returns how often it was given, and the exit codes. Most kills wait for
    a page after the one before: the command gives up if its workers only die."""
    chance, left, codes, runs, asked = random.Random(chosen.seed), chosen.kills, Counter[int](), 0, 0
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    while runs < _MOST_RUNS:
        runs += 1
        with open(home / "out", "ab") as out:
            process = subprocess.Popen(command(chosen, job, seeds), env=environment, stdout=out, stderr=out, cwd=home)
        try:
            while process.poll() is None:
                if left:
                    wait(process, chance.uniform(0.3, chosen.between))
                    is_time = log.stat().st_size > asked or chance.random() < _WITHOUT_PAGES
                    if is_time and process.poll() is None and kill(process.pid, chosen.kill, chance):
                        left, asked = left - 1, log.stat().st_size
                else:
                    process.wait(timeout=900)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        codes[process.returncode] += 1
        if process.returncode not in (0, -signal.SIGKILL):
            print((home / "out").read_text()[-3000:])
            break
        if process.returncode == 0:
            break
    print(f"kills     {chosen.kills - left} of {chosen.kills} ({chosen.kill})")
    return runs, codes


def wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)


def kill(first: int, what: str, chance: random.Random) -> bool:
    """Kill one or several of the processes that this script has started. Returns whether there was one to kill."""
    workers = list(children(first))
    what = chance.choice(("worker", "worker", "all", "first")) if what == "mixed" else what
    victims = {"all": [*workers, first], "first": [first]}.get(what)
    if victims is None:
        if not workers:
            return False
        victims = [chance.choice(workers)]
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return True


def children(pid: int) -> Iterator[int]:
    """The processes that the process has started, and those that they have."""
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for word in words:
        yield int(word)
        yield from children(int(word))


@dataclass(frozen=True, slots=True)
class Found:
    """What the servers' log and the records say."""

    asked: list[Asked]
    lost: int
    missing: int
    twice: int
    again: int
    short: list[tuple[str, float]]

    def show(self, most: int) -> bool:
        """Print it. ``most`` requests may have been in flight at the kills. Returns whether nothing is wrong."""
        print(f"{'lost':>8}{'missing':>9}{'twice':>7}{'again':>7}{'at most':>9}{'gaps':>6}")
        print(f"{self.lost:>8}{self.missing:>9}{self.twice:>7}{self.again:>7}{most:>9}{len(self.short):>6}")
        for host, gap in self.short[:5]:
            print(f"short gap at {host}: {gap:.4f} s")
        return not (self.lost or self.missing or self.twice or self.short) and self.again <= most


def judged(chains: Chains, log: Path, jobs: Sequence[Path], delay: float) -> Found:
    """Compare the log of the servers, and the records of all jobs, with the web."""
    asked = [read_line(line) for line in log.read_text().splitlines()]
    pages = Counter(f"http://{each.host}:{chains.port}{each.path}" for each in asked if each.path != "/robots.txt")
    wanted = set(chains.all())
    records = Counter[str]()
    for file in (file for job in jobs for file in sorted(job.glob("pages*.jsonl"))):
        records.update(record["url"] for record in map(json.loads, file.read_text().splitlines()))
    beside = f", {chains.busy} busy hosts" if chains.busy else ""
    print(f"web       {len(wanted)} pages, {chains.chains} chains on {chains.hosts} hosts{beside}, a gap of {delay} s")
    lost, missing = len(wanted - pages.keys()), len(wanted - records.keys())
    twice, again = records.total() - len(records), pages.total() - len(pages)
    return Found(asked, lost, missing, twice, again, short_gaps(asked, delay))


def read_line(line: str) -> Asked:
    host, path, came, answered, who = line.split(" ", 4)
    return Asked(host, path, float(came), float(answered), who)


def short_gaps(asked: list[Asked], delay: float) -> list[tuple[str, float]]:
    """The gaps between an answer of a host and its next request that are too short."""
    of_host: dict[str, list[Asked]] = defaultdict(list)
    for each in asked:
        of_host[each.host].append(each)
    short = []
    for host, requests in of_host.items():
        requests.sort(key=lambda each: each.came)
        for before, after in pairwise(requests):
            gap = after.came - before.answered
            if gap < delay - _SLACK:
                short.append((host, gap))
    return short


if __name__ == "__main__":
    main(sys.argv[1:])
