"""What a crawl in partitions takes of each process in its steady state, and what a second process adds.

    python benchmarks/partitions/steady.py [--rounds N] [--pages N] [--ways NAME,...]

The synthetic web of ``crawler bench web`` with 40 hosts is written to files and served by one nginx process, so that
serving costs little; its hosts are all plain, none is slow or stormy. It is crawled in these ways, in turns:

    alone    one process, without partitions
    one      one process with 16 partitions, and the first process, which serves the local carrier
    two      two such processes
    redis    two such processes over Redis, with the configuration of config/redis

Between the 25th and the 85th of a hundred pages (records of all partitions) this counts user and system time of each
process, and pages. ``carrier`` is the CPU time a page of the first process, and ``engine`` that of Redis.

What is said of ``two`` over ``alone``:

    by CPU time    2 x pages / CPU time of all crawler processes, over pages / CPU time of the one: the throughput on as
                   many cores as processes, if each is busy and no core is shared with a server. It does not depend on
                   what else the machine does, as far as CPU time does not.
    measured       pages a second, over pages a second, on this machine. With two cores the server, the carrier and two
                   processes share them, so it is less; it counts only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from kills import children

from benchmarks.kit.machine import describe_machine
from crawler.tools.bench.synthetic_web import Kind, Shape, SyntheticWeb, address_of
from tests.asked import free_port
from tests.base.carrier.redis_server import redis_server

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
HOSTS = 40
WINDOW = (0.25, 0.85)  # of the pages
IN_FLIGHT = 64  # of all processes
LOOK = 0.1  # seconds between two looks at the records
TICKS = os.sysconf("SC_CLK_TCK")
WAYS = {"alone": 0, "one": 1, "two": 2, "redis": 2}  # processes, without the first one
CONFIGURATION = """
{user}
worker_processes 1;
daemon off;
pid {home}/nginx.pid;
error_log {home}/error.log warn;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  default_type text/html;
  types {{ text/plain txt; }}
  log_not_found off;
  access_log off;
  sendfile on;
  map_hash_max_size 262144;
  map_hash_bucket_size 128;
  map $server_addr$uri $moved {{
    default "";
{moved}
  }}
{servers}
}}
"""
SERVER = """  server {{ listen {address}:{port} backlog=4096; root {root}; index index.html;
    if ($moved) {{ return 301 $moved; }} }}"""


@dataclass(frozen=True, slots=True)
class Mark:
    """What was so at one moment: when, records, and seconds of CPU time of each process."""

    at: float
    pages: int
    used: dict[int, float]


@dataclass(frozen=True, slots=True)
class Spent:
    """Microseconds of CPU time a page between two marks, and the pages a second."""

    crawler: float
    first: float
    engine: float
    server: float
    rate: float


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=12_000)
    parser.add_argument("--ways", default=",".join(WAYS), help="comma-separated (default: all)")
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "rocksdict", "redis")):
        print(line)
    ways = chosen.ways.split(",")
    found: dict[str, list[Spent]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        with served(home / "web", chosen.pages) as (seeds, server):
            for number in range(chosen.rounds):
                for way in ways:
                    spent = crawled(seeds, server, home / f"{way}-{number}", way)
                    found[way].append(spent)
                    print(f"round {number + 1}  {way:<8}{spent.crawler:>6.0f} us a page, {spent.rate:.0f} pages/s")
    report(found)


def report(found: dict[str, list[Spent]]) -> None:
    """Print the medians, and what is said of a second process. Ratios are of the same round."""
    print(f"\n{'CPU, us a page':<16}{'crawler':>9}{'ratio':>7}{'carrier':>9}{'engine':>8}{'nginx':>7}{'pages/s':>9}")
    for way, rounds in found.items():
        parts = {part: statistics.median(getattr(each, part) for each in rounds) for part in Spent.__slots__}
        ratio = _middle(
            each.crawler / alone.crawler for each, alone in zip(rounds, found.get("alone", ()), strict=False)
        )
        print(
            f"{way:<16}{parts['crawler']:>9.0f}{ratio:>7}{parts['first']:>9.1f}{parts['engine']:>8.1f}"
            f"{parts['server']:>7.0f}{parts['rate']:>9.0f}"
        )
    for way in ("two", "redis"):
        pairs = list(zip(found.get(way, ()), found.get("alone", ()), strict=False))
        by_cpu = _middle(2 * alone.crawler / each.crawler for each, alone in pairs)
        measured = _middle(each.rate / alone.rate for each, alone in pairs)
        if pairs:
            print(f"\n{way} over alone: {by_cpu} by CPU time, {measured} measured on {os.cpu_count()} cores")


def _middle(values: Iterator[float]) -> str:
    kept = sorted(values)
    return f"{statistics.median(kept):.2f}" if kept else ""


# -- the web -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(home: Path, pages: int) -> Iterator[tuple[Path, int]]:
    """Serve the web. Gives its seeds, and the process of nginx."""
    program = shutil.which("nginx")
    if program is None:
        raise FileNotFoundError("nginx is missing: apt-get install nginx-light")
    home.mkdir()
    web = SyntheticWeb(Shape(pages, HOSTS, port=free_port()))
    hosts = {address_of(host): host for host in range(HOSTS)}
    moved = []
    for address, host in hosts.items():
        write(home / address / "robots.txt", web.answer(host, "/robots.txt").body)
    for url, kind in web.urls():
        address, _, path = url.removeprefix("http://").partition(":")
        path = path[path.index("/") :]
        answer = web.answer(hosts[address], path)
        if kind is Kind.MOVED:
            moved.append(f'    "{address}{path}" "{answer.location}";')
        elif answer.status == 200:
            write(home / address / (path[1:] or "index.html"), answer.body)
    servers = [SERVER.format(address=each, port=web.shape.port, root=home / each) for each in hosts]
    # Workers of a root's nginx would be nobody, who may not look into a temporary directory.
    user = "user root;" if os.geteuid() == 0 else ""
    text = CONFIGURATION.format(user=user, home=home, moved="\n".join(moved), servers="\n".join(servers))
    (home / "nginx.conf").write_text(text)
    seeds = home / "seeds"
    seeds.write_text("".join(f"{url}\n" for url in web.seeds))
    words = [program, "-c", str(home / "nginx.conf"), "-p", str(home), "-e", str(home / "error.log")]
    process = subprocess.Popen(words)
    try:
        while not (home / "nginx.pid").exists() or not any(children(process.pid)):
            if process.poll() is not None:
                raise ChildProcessError(f"nginx ended with {process.returncode}")
            time.sleep(0.05)
        yield seeds, process.pid
    finally:
        process.terminate()
        process.wait(10)


def write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


# -- one crawl ---------------------------------------------------------------------------------------------------------


def crawled(seeds: Path, server: int, job: Path, way: str) -> Spent:
    """Crawl the web in that way."""
    processes = WAYS[way]
    words = [sys.executable, "-m", "crawler", str(seeds), "--job", str(job), "--allow-network", "127.0.0.0/8"]
    words += ["--delay", "0", "--per-host", "4", "--quiet", "--contact", "test@example.org"]
    words += ["--concurrency", str(IN_FLIGHT // max(1, processes))]
    words += ["--partitions", str(processes)] if processes else []
    with contextlib.ExitStack() as stack:
        engine: int | None = None
        if way == "redis":
            redis = stack.enter_context(redis_server(job.with_name(f"{job.name}-engine")))
            words += ["--engine", redis.url, "--crawl", "measured"]
            engine = redis.pid
        process = subprocess.Popen(words, cwd=ROOT, env=ENVIRONMENT)
        try:
            begin, end = watched(process, job, [*children(server), *([] if engine is None else [engine])])
        finally:
            process.kill()
            process.wait()
    shutil.rmtree(job)
    servers = set(children(server))
    each = {pid: (end.used[pid] - used) * 1e6 / (end.pages - begin.pages) for pid, used in begin.used.items()}
    ours = sum(used for pid, used in each.items() if pid not in servers and pid != engine)
    first = each[process.pid] if processes else 0.0
    of_servers = sum(used for pid, used in each.items() if pid in servers)
    rate = (end.pages - begin.pages) / (end.at - begin.at)
    return Spent(ours, first, 0.0 if engine is None else each[engine], of_servers, rate)


def watched(process: subprocess.Popen[bytes], job: Path, others: Sequence[int]) -> tuple[Mark, Mark]:
    """The marks at begin and end of the window. Waits for the end of the crawl."""
    total = sum(1 for _ in job.parent.joinpath("web").rglob("*.html"))
    counted: dict[Path, tuple[int, int]] = {}
    marks: list[Mark] = []
    while process.poll() is None:
        time.sleep(LOOK)
        pages = records(job, counted)
        if len(marks) < len(WINDOW) and pages >= WINDOW[len(marks)] * total:
            pids = [process.pid, *children(process.pid), *others]
            marks.append(Mark(time.monotonic(), pages, {pid: used(pid) for pid in pids}))
    if process.returncode or len(marks) < len(WINDOW):
        raise ChildProcessError(f"the crawl ended with {process.returncode} after {records(job, counted)} pages")
    return marks[0], marks[1]


def records(job: Path, counted: dict[Path, tuple[int, int]]) -> int:
    """The records so far. ``counted``: of each file, how much of it was read, and its records."""
    for file in (*job.glob("pages.jsonl"), *job.glob("partitions/*/pages.jsonl")):
        size, lines = counted.get(file, (0, 0))
        with file.open("rb") as stream:
            stream.seek(size)
            data = stream.read()
        counted[file] = (size + len(data), lines + data.count(b"\n"))
    return sum(lines for _, lines in counted.values())


def used(pid: int) -> float:
    """Seconds of user and system time of a process so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it is no more
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    main(sys.argv[1:])
