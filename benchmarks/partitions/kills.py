"""Kill what crawls a web of chains in partitions, again and again, and ask the servers what was lost.

    python benchmarks/partitions/kills.py [--kill worker|all|first|mixed] [--kills 50] [--partitions 4]
        [--seed N] [--chains N] [--steps N] [--hosts N] [--links N] [--delay S]
    python benchmarks/partitions/kills.py --serve DIR[=PATH] ... --truth FILE [...]

Serves the web itself (``chain_web.py``), crawls it with ``--partitions``, and kills with SIGKILL: one worker (the
first process starts another), all processes, or the first one alone (which ends the others). Whenever the command has
ended by a kill, the same command is given again. With ``--serve`` the web is directories, each a host of nginx; FILE
says what there is. Then the servers' log and the records of all partitions say:

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
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).resolve().parents[1] / "crawl"))
sys.path.append(str(Path(__file__).resolve().parents[2]))

import web
from chain_web import NETWORK, Chains

from benchmarks.kit.machine import describe_machine

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_SLACK = 0.002  # seconds: the server notes the time of an answer before it writes it
_MOST_RUNS = 400
_BY_CLOCK = 0.1  # of the kills: they may come before another page was asked for
_POLL = 0.02  # seconds between two looks at the servers' log


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
    parser.add_argument("--pages", type=int, default=300, help="that are asked for between two kills, at most")
    parser.add_argument("--between", type=float, default=4.0, help="seconds to a kill that waits for no page, at most")
    parser.add_argument("--partitions", type=int, default=4, help="processes; 0: a crawl without partitions")
    web_flags(parser, chains=81, steps=60, hosts=60, busy=0, leaves=500, delay=0.05)
    parser.add_argument("--serve", nargs="+", metavar="DIR[=PATH]", default=[], help="directories, not chains")
    parser.add_argument("--truth", type=Path, help="what there is in these: status, kind and URL of each")
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        ordeal(chosen, home)


def web_flags(parser: argparse.ArgumentParser, **usual: float) -> None:
    """The flags of all scripts that crawl such a web, with what is usual in this one."""
    for name in ("chains", "steps", "hosts"):
        parser.add_argument(f"--{name}", type=int, default=usual[name])
    parser.add_argument("--busy", type=int, default=usual["busy"], help="hosts with pages that wait for no other host")
    parser.add_argument("--leaves", type=int, default=usual["leaves"], help="of each of these")
    parser.add_argument("--links", type=int, default=0, help="of a page of a chain to any page, besides")
    parser.add_argument("--delay", type=float, default=usual["delay"])
    parser.add_argument("--concurrency", type=int, default=16, help="of each process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory for everything, which stays")


def ordeal(chosen: argparse.Namespace, home: Path) -> None:
    job, began = home / "job", time.monotonic()
    if chosen.serve:
        with web.served([web.given_root(word) for word in chosen.serve], home / "nginx") as files:
            seeds = home / "seeds.txt"
            seeds.write_text("".join(f"{url}\n" for url in files.seeds))
            runs, codes = drive(chosen, home, job, seeds, files.log)
            time.sleep(1.0)  # nginx writes its line a moment after the answer
        found = judge(truth(chosen.truth, files), of_files(files), partitions_of(job), chosen.delay)
    else:
        with served(chosen, home) as (chains, seeds, log):
            runs, codes = drive(chosen, home, job, seeds, log)
        found = judged(chains, log, partitions_of(job), chosen.delay)
    took = time.monotonic() - began
    print(f"crawl     {chosen.partitions} processes, {runs} runs, exit codes {dict(codes)}, {took:.0f} s\n")
    most = chosen.kills * max(1, chosen.partitions) * chosen.concurrency
    if not found.show(most) or codes[0] != 1:
        raise SystemExit(1)


def partitions_of(job: Path) -> list[Path]:
    """The directories of its partitions, or itself."""
    return sorted(job.glob("partitions/*")) or [job]


def truth(file: Path, files: web.Web) -> set[str]:
    """The URLs of the file, whose hosts are in the order of those that are served."""
    urls = [line.split("\t")[2] for line in file.read_text().splitlines()]
    there = sorted({url.split("/")[2] for url in urls})
    here = dict(zip(there, (url.split("/")[2] for url in files.seeds), strict=True))
    found = {url.replace(url.split("/")[2], here[url.split("/")[2]], 1) for url in urls}
    print(f"web       {len(found)} URLs of given directories, {len(here)} hosts")
    return found


def of_files(files: web.Web) -> list[Asked]:
    """What nginx was asked for."""
    asked = []
    for each in files.asked(0)[0]:
        host, path = each.url.removeprefix("http://").split("/", 1)
        asked.append(Asked(host, "/" + path, each.start, each.end, ""))
    return asked


@contextlib.contextmanager
def served(
    chosen: argparse.Namespace, home: Path, network: str = NETWORK, within: Sequence[str] = ()
) -> Iterator[tuple[Chains, Path, Path]]:
    """The web, its seeds and its log. ``within`` begins the command that serves it."""
    log, seeds = home / "log", home / "seeds.txt"
    process = subprocess.Popen(
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
            *("--busy", str(chosen.busy), "--leaves", str(chosen.leaves), "--links", str(chosen.links)),
        ],
        stdin=subprocess.PIPE,
    )
    try:
        while not seeds.exists():
            time.sleep(0.05)
            assert process.poll() is None
        port = int(seeds.read_text().split("/")[2].rpartition(":")[2])
        shape = (chosen.chains, chosen.steps, chosen.hosts, port, chosen.busy, chosen.leaves, network, chosen.links)
        yield Chains(*shape), seeds, log
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def command(chosen: argparse.Namespace, job: Path, seeds: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "crawler", str(seeds), "--job", str(job)),
        *(("--partitions", str(chosen.partitions)) if chosen.partitions else ()),
        *("--delay", str(chosen.delay), "--concurrency", str(chosen.concurrency)),
        *(("--allow-private",) if chosen.serve else ("--allow-network", "127.20.0.0/16", "--scope", "any")),
        *("--quiet", "--contact", "test@example.org"),
    ]


def drive(chosen: argparse.Namespace, home: Path, job: Path, seeds: Path, log: Path) -> tuple[int, Counter[int]]:
    """Run the command until it ends by itself. Returns how often it was given, and the exit codes. Most kills wait for
    pages after the one before: seconds say nothing of how far a crawl has come."""
    chance, left, codes, runs, asked = random.Random(chosen.seed), chosen.kills, Counter[int](), 0, 0
    between: list[int] = []  # pages from one kill to the next
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    while runs < _MOST_RUNS:
        runs += 1
        with open(home / "out", "ab") as out:
            process = subprocess.Popen(command(chosen, job, seeds), env=environment, stdout=out, stderr=out, cwd=home)
        try:
            while process.poll() is None:
                if left:
                    moment = asked + chance.randint(1, chosen.pages)
                    by_clock = chance.random() < _BY_CLOCK
                    if by_clock:
                        wait(process, chance.uniform(0.3, chosen.between))
                    while not by_clock and lines(log) < moment and process.poll() is None:
                        time.sleep(_POLL)
                    now = lines(log)
                    if process.poll() is None and kill(process.pid, chosen.kill, chance):
                        between.append(now - asked)
                        left, asked = left - 1, now
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
    if between:
        print(f"between   {spread(between)} requests from a kill to the next, {lines(log) - asked} after the last")
    return runs, codes


def spread(numbers: Sequence[int]) -> str:
    """The least, the greatest and the median."""
    return f"{min(numbers)} to {max(numbers)} (median {median(numbers):.0f})"


def lines(log: Path) -> int:
    """Requests that were answered."""
    return log.read_bytes().count(b"\n") if log.exists() else 0


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
    wanted = set(chains.all())
    beside = f", {chains.busy} busy hosts" if chains.busy else ""
    beside += f", {chains.links} links more on each page" if chains.links else ""
    print(f"web       {len(wanted)} pages, {chains.chains} chains on {chains.hosts} hosts{beside}, a gap of {delay} s")
    asked = [read_line(line) for line in log.read_text().splitlines()]
    with_ports = [replace(each, host=f"{each.host}:{chains.port}") for each in asked]
    return replace(judge(wanted, with_ports, jobs, delay), asked=asked)


def judge(wanted: Set[str], asked: list[Asked], jobs: Sequence[Path], delay: float) -> Found:
    """Compare what the servers were asked for, and the records, with what there is. Hosts have their ports."""
    pages = Counter(f"http://{each.host}{each.path}" for each in asked if each.path != "/robots.txt")
    records = Counter[str]()
    for file in (file for job in jobs for file in sorted(job.glob("pages*.jsonl"))):
        records.update(record["url"] for record in map(json.loads, file.read_text().splitlines()))
    if unknown := records.keys() - wanted:
        raise SystemExit(f"records of what is not there: {sorted(unknown)[:5]}")
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
