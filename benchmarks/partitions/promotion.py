"""How long do the hosts of a large partition wait when its machine burns, or when it moves to another one?

    python benchmarks/partitions/promotion.py [--pending 1000000] [--hosts 250] [--delay 2] [--events NAME,...]
        [--flags WORDS] [--without-replicas] [--keep DIR]

Two machines, each a worker with a directory of its own, a Redis between them, and a crawl of one partition. Its hosts
have one page each with thousands of links. As soon as all these are read, and the other machine has a replica, one of
these happens, with a crawl of its own:

    burn      all processes of the machine that has the partition die, and its directory is removed
    kill      they die, and begin again at once, with the same directory: what an ordinary start takes
    leave     the machine gets SIGTERM: the partition moves to the other one

By the servers' log: ``first`` is how many seconds after it the first request came, and from whom (if a machine leaves,
from another one); ``all`` is when half of the hosts had been asked again, and ``idle`` the longest that a host was not
asked, up to its last request. All have a gap of ``--delay`` in them: a new owner waits it for each host. ``cpu`` is
what the machine that asked has spent from the event to the first request, in seconds. A claim holds for 10.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from burning import Machines, beginning, working
from kills import Asked, read_line, served
from losses import NAMES
from troubles import CONTACT

from benchmarks.kit.machine import describe_machine
from tests.base.carrier.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[2]
EVENTS = ("kill", "burn", "leave")
READ = 900.0  # seconds until all links are read, at most
COPIED = 300.0  # ... until there is a replica
SETTLED = 5.0
WATCHED = 120.0  # seconds after the event, at most
TICKS = os.sysconf("SC_CLK_TCK")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=250, dest="busy")
    parser.add_argument("--delay", type=float, default=2.0)
    parser.add_argument("--events", default=",".join(EVENTS))
    parser.add_argument("--flags", default="", help="more flags of the command that begins the crawl")
    parser.add_argument("--without-replicas", action="store_true", help="wait for none")
    parser.add_argument("--keep", type=Path, help="a directory for everything, which stays")
    parser.set_defaults(chains=1, steps=1, hosts=1, links=0, concurrency=16, machines=2, replicas=1)
    chosen = parser.parse_args(words)
    chosen.leaves = chosen.pending // chosen.busy
    chosen.flags += " --partition-count 1"
    for line in describe_machine(("aiohttp", "redis", "rocksdict")):
        print(line)
    print(
        f"\n{'event':<8}{'pending':>10}{'read':>8}{'copied':>8}{'first':>8}{'by':>8}{'cpu':>7}{'all':>7}{'idle':>7}",
        flush=True,
    )
    for event in chosen.events.split(","):
        with tempfile.TemporaryDirectory() as name:
            home = (chosen.keep or Path(name)) / event
            home.mkdir(parents=True)
            measure(chosen, home, event)


def measure(chosen: argparse.Namespace, home: Path, event: str) -> None:
    """One crawl, up to some time after the event."""
    redis = RedisServer(home / "redis", "appendonly no")
    redis.start()
    try:
        with served(chosen, home) as (chains, seeds, log):
            work = working(chosen, redis.url, home)
            commands = {"first": beginning(chosen, redis.url, home, seeds)} | {NAMES[1]: work[NAMES[1]]}
            machines = Machines(commands, home, work)
            machines.count = 1
            try:
                began = time.monotonic()
                wanted = {f" /l/{host}/0 " for host in range(chains.busy)}
                machines.rest(READ, lambda: all(each in log.read_text() for each in wanted))
                read, copying = time.monotonic() - began, time.monotonic()
                if not chosen.without_replicas:
                    machines.rest(COPIED, lambda: machines.are_covered(redis))
                copied = time.monotonic() - copying
                machines.rest(SETTLED)
                who = next(name for name in machines.directories if machines.partitions(name))
                pending = pending_in(home / who)
                at = give(machines, event, who)
                before = {name: time_of(machines, name) for name in machines.directories}
                gone = who if event == "leave" else ""
                machines.rest(WATCHED, lambda: any(asked_after(log, at, gone)))
                after = {name: time_of(machines, name) for name in machines.directories}
                machines.rest(
                    WATCHED, lambda: 2 * len({each.host for each in asked_after(log, at, gone)}) > chosen.busy
                )
                machines.rest(3 * chosen.delay)
            finally:
                machines.end(0.0)
    finally:
        redis.kill()
    asked = asked_after(log, at, gone)
    if not asked:
        print(f"{event:<8}{pending:>10}{read:>8.1f}{copied:>8.1f} nothing was asked for")
        return
    by = next((name for name in NAMES if CONTACT.format(name) in asked[0].who), "?")
    spent = after[by] - before[by]
    hosts = dict[str, float]()
    for each in asked:
        hosts.setdefault(each.host, each.came - at)
    half = statistics.median(hosts.values()) if 2 * len(hosts) > chosen.busy else math.nan
    print(
        f"{event:<8}{pending:>10}{read:>8.1f}{copied:>8.1f}{asked[0].came - at:>8.2f}{by:>8}{spent:>7.1f}{half:>7.1f}"
        f"{longest_idle(log, at):>7.1f}",
        flush=True,
    )


def give(machines: Machines, event: str, who: str) -> float:
    """Let it happen. Returns the time at which it did."""
    at = time.monotonic()
    machines.note(f"event: {event} {who}")
    if event == "burn":
        machines.burn(who)
        at = time.monotonic()
        machines.leave_down(who, 2 * WATCHED)
    elif event == "kill":
        machines.kill(who)
        at = time.monotonic()
    else:
        machines.terminate(who)
        machines.leave_down(who, 2 * WATCHED)
    return at


def pending_in(directory: Path) -> int:
    """What waits there."""
    words = [sys.executable, "-m", "crawler", "stats", str(directory), "--json"]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(json.loads(ran.stdout)["urls_pending"])


def time_of(machines: Machines, name: str) -> float:
    """CPU seconds of the processes of a machine."""
    ticks = 0
    for pid in machines.all(name):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / TICKS


def asked_after(log: Path, at: float, but: str = "") -> list[Asked]:
    """What was asked for after a time, in order, ``but`` for the requests of a machine."""
    asked = [read_line(line) for line in log.read_text().split("\n")[:-1]]
    others = [each for each in asked if each.came > at and not (but and CONTACT.format(but) in each.who)]
    return sorted(others, key=lambda each: each.came)


def longest_idle(log: Path, at: float) -> float:
    """The longest that a host was not asked, up to its last request."""
    last, idle = dict[str, float](), 0.0
    for each in sorted(map(read_line, log.read_text().split("\n")[:-1]), key=lambda each: each.came):
        if each.host in last and each.came > at:
            idle = max(idle, each.came - last[each.host])
        last[each.host] = each.came
    return idle


if __name__ == "__main__":
    main(sys.argv[1:])
