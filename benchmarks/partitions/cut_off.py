"""Cut one of two machines off from the web, not from the other one, and ask the servers what became of its hosts.

    python benchmarks/partitions/cut_off.py [--cut SECONDS] [--chains N] [--steps N] [--hosts N] [--busy HOSTS]
        [--leaves N] [--delay S] [--keep DIR]

Both are workers with directories of their own over one Redis. The second one asks through a SOCKS proxy of this script,
which at some time says of every host that the network is unreachable, closes all connections, and later serves again.
All is on loopback addresses. The servers' log and the records are judged as ``kills.py`` does. ``moved``: seconds from
the cut until nothing is at home at the second machine; ``back``: from the end of the cut until it asks a host again.

Exits with 1 if pages are lost, missing or twice, a gap was not kept, nothing moved, or the second machine does not come
back.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from kills import Asked, judged, served, web_flags
from troubles import CONTACT, CRAWL, PARTITIONS, Processes

from benchmarks.kit.machine import describe_machine
from crawler.job.crawl_file import partition_directories
from tests.base.carrier.redis_server import RedisServer
from tests.web.fetch.proxies import Relay, proxy

WHO = ("first", "second")
BEGUN = 90.0  # seconds until both are at work, at most
REST = 20.0  # seconds from then to the cut
UNREACHABLE = b"\x03"  # a reply of SOCKS 5: the network is


class Line:
    """The way of the second machine to the web."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with proxy("socks5") as self._relay:
            self.address = self._relay.address
            self._ready.set()
            await asyncio.Event().wait()

    def cut(self) -> None:
        """Nothing comes through from now on."""
        self._loop.call_soon_threadsafe(_shut, self._relay)

    def mend(self) -> None:
        """It works again."""
        self._relay.refuse = None


def _shut(relay: Relay) -> None:
    relay.refuse = UNREACHABLE
    for writer in relay.writers:
        writer.close()


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cut", type=float, default=90.0, help="seconds")
    web_flags(parser, chains=24, steps=40, hosts=32, busy=16, leaves=500, delay=0.5)
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "redis", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        ordeal(chosen, home)


def ordeal(chosen: argparse.Namespace, home: Path) -> None:
    """Crawl, cut, and judge."""
    line, redis = Line(), RedisServer(home / "redis", "appendonly no")
    redis.start()
    try:
        with served(chosen, home) as (chains, seeds, log):
            processes = Processes(commands(chosen, redis.url, home, seeds, line.address), home)
            try:
                processes.rest(
                    BEGUN, lambda: all(CONTACT.format(who) in log.read_text() for who in ("first", "second"))
                )
                processes.rest(REST)
                had = len(partition_directories(home / "second"))
                line.cut()
                cut = time.monotonic()
                processes.rest(chosen.cut, lambda: not partition_directories(home / "second"))
                moved = time.monotonic() - cut
                processes.rest(chosen.cut - moved)
                line.mend()
                mended = time.monotonic()
                processes.rest(1_800.0)
            finally:
                processes.end(60.0)
    finally:
        redis.kill()
    jobs = [job for who in WHO for job in partition_directories(home / who)]
    found = judged(chains, log, jobs, chosen.delay)
    print(f"crawl     exit codes of {', '.join(f'{name} {dict(each)}' for name, each in processes.codes.items())}\n")
    during = asked_in(found.asked, cut, mended)
    later = [each.came for each in found.asked if each.came > mended and is_of(each, "second")]
    back = f"{min(later) - mended:.1f}" if later else "-"
    print(f"{'cut':>6}{'partitions':>12}{'moved':>7}{'first':>7}{'second':>8}{'back':>6}{'then':>6}")
    print(f"{chosen.cut:>6.0f}{had:>12}{moved:>7.1f}{during[0]:>7}{during[1]:>8}{back:>6}{len(later):>6}\n")
    right = found.show(chosen.concurrency)
    if not right or moved >= chosen.cut or not later or not processes.is_over:
        raise SystemExit(1)


def commands(chosen: argparse.Namespace, engine: str, home: Path, seeds: Path, line: str) -> dict[str, list[str]]:
    reached = ("--engine", engine, "--crawl", CRAWL, "--workers", "2", "--quiet")
    begin = [
        *(sys.executable, "-m", "crawler", str(seeds), "--job", str(home / "first"), "--partitions", "1", *reached),
        *("--partition-count", str(PARTITIONS), "--scope", "any", "--allow-network", "127.20.0.0/16"),
        *("--delay", str(chosen.delay), "--concurrency", str(chosen.concurrency)),
        *("--contact", CONTACT.format("first")),
    ]
    work = [
        *(sys.executable, "-m", "crawler", "work", "--dir", str(home / "second"), *reached),
        *("--contact", CONTACT.format("second"), "--proxy", line),
    ]
    return {"first": begin, "second": work}


def is_of(asked: Asked, who: str) -> bool:
    return CONTACT.format(who) in asked.who


def asked_in(asked: Sequence[Asked], begin: float, end: float) -> tuple[int, int]:
    """How many requests of each machine came in that time."""
    each = [one for one in asked if begin < one.came < end]
    return sum(is_of(one, "first") for one in each), sum(is_of(one, "second") for one in each)


if __name__ == "__main__":
    main(sys.argv[1:])
