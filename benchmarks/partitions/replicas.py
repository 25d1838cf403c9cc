"""What a replica of each partition costs: CPU time, and bytes to the engine.

    python benchmarks/partitions/replicas.py [--rounds N] [--pages N]

The web of ``steady.py`` is crawled by two workers with a directory each, which meet at a Redis, in turns without
replicas and with one of each partition, so each round is a pair. This counts user and system time of both workers and
of Redis over the whole crawl, and all bytes that Redis was sent. At the end the records of each replica must be those
of its partition.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from steady import ENVIRONMENT, IN_FLIGHT, ROOT, records, served, used

from benchmarks.kit.machine import describe_machine
from tests.base.carrier.redis_server import RedisServer, redis_server


@dataclass(frozen=True, slots=True)
class Spent:
    """What a page took: microseconds of CPU time of the workers and of Redis, and bytes to Redis."""

    crawler: float
    engine: float
    sent: float
    pages: int


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=12_000)
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "rocksdict", "redis")):
        print(line)
    rounds: list[tuple[Spent, Spent]] = []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        with served(home / "web", chosen.pages) as (seeds, _):
            for number in range(chosen.rounds):
                without, with_one = (crawled(seeds, home / f"{number}-{replicas}", replicas) for replicas in (0, 1))
                rounds.append((without, with_one))
                for text, spent in (("without", without), ("with", with_one)):
                    print(
                        f"round {number + 1}  {text:<8}{spent.pages:>7} pages{spent.crawler:>7.0f} us a page"
                        f"{spent.engine:>7.1f} us of Redis{spent.sent:>7.0f} bytes to Redis",
                        flush=True,
                    )
    ratio = statistics.median(one.crawler / none.crawler for none, one in rounds)
    engine = statistics.median(one.engine - none.engine for none, one in rounds)
    sent = statistics.median(one.sent - none.sent for none, one in rounds)
    print(f"\na replica: {ratio:.2f} times the CPU time of the workers, {engine:.1f} us of Redis and {sent:.0f} bytes")


def crawled(seeds: Path, home: Path, replicas: int) -> Spent:
    """Crawl the web."""
    home.mkdir()
    with redis_server(home / "engine") as redis:
        meet = ["--engine", redis.url, "--crawl", "measured", "--quiet", "--concurrency", str(IN_FLIGHT // 2)]
        program, first, second = [sys.executable, "-m", "crawler"], home / "a", home / "b"
        words = [*program, str(seeds), "--job", str(first), "--allow-network", "127.0.0.0/8", "--delay", "0"]
        words += ["--per-host", "4", "--contact", "test@example.org", "--workers", "2", "--replicas", str(replicas)]
        processes = [begun([*words, *meet])]
        while redis.say("EXISTS", "crawler:{measured:crawl}:values") != 1:
            pass
        processes.append(begun([*program, "work", "--dir", str(second), *meet]))
        seconds = sum(map(ended, processes))
        pages = sum(records(directory, {}) for directory in (first, second))
        spent = Spent(seconds * 1e6 / pages, used(redis.pid) * 1e6 / pages, bytes_to(redis) / pages, pages)
    check(first, second, replicas)
    shutil.rmtree(home)
    return spent


def begun(words: Sequence[str]) -> int:
    """The process."""
    return subprocess.Popen(words, cwd=ROOT, env=ENVIRONMENT).pid


def ended(pid: int) -> float:
    """Seconds of CPU time of a process that has ended well."""
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise ChildProcessError(f"a worker ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime


def bytes_to(redis: RedisServer) -> int:
    """All that was sent to it."""
    return int(redis.say("INFO", "stats")["total_net_input_bytes"])


def check(first: Path, second: Path, replicas: int) -> None:
    """Raise ChildProcessError if a replica differs from its partition."""
    for here, there in ((first, second), (second, first)):
        for partition in (here / "partitions").glob("[0-9][0-9]"):
            replica = there / "replicas" / partition.name / "pages.jsonl"
            if replicas and replica.read_bytes() != (partition / "pages.jsonl").read_bytes():
                raise ChildProcessError(f"{replica} differs from its partition")


if __name__ == "__main__":
    main(sys.argv[1:])
