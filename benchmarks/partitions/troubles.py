"""Crawl a web of chains in partitions over Redis, with troubles of all kinds, and ask the servers what was lost.

    python benchmarks/partitions/troubles.py [--rounds N] [--troubles NAME,...] [--seed N] [--chains N] [--steps N]
        [--hosts N] [--busy HOSTS] [--leaves N] [--delay S] [--cluster] [--pause S]

One command begins the crawl, with one worker; two workers are added by ``crawler work``. Whatever dies is started
again by the same command. The troubles, each once in a round, in random order:

    worker       one worker dies by SIGKILL
    first        the first process dies, and its worker with it
    all          all processes die
    flushall     Redis forgets all; scripts, the scripts
    pause        Redis answers nobody for 20 seconds, or ``--pause``
    kept         Redis dies by SIGKILL, and starts with its log
    empty        Redis dies by SIGKILL, and starts without anything
    stop         a worker is stopped (SIGSTOP) for 12 to 30 seconds
    cut          a worker is stopped for 12 seconds; when it goes on, Redis is stopped for 3 seconds
    full         Redis has no memory left for some seconds

With ``--cluster`` Redis is a cluster of three masters, and a trouble is that of one of them. One more is:

    reshard      a third of a master's slots moves to another one, with ``redis-cli --cluster reshard``

The servers' log and the records of all partitions are judged as ``kills.py`` does. Besides, in each time in which no
claim can hold, because Redis has not answered for half the time of a claim, no request may come, although the busy
hosts of the web have work; of a cluster, none of the partitions that the master has. ``late`` says how long after the
begin of such a time the last one came: a turn of the event loop may be under way. For ``cut`` only requests of that
worker count, from the moment when it goes on.

Exits with 1 if pages are lost, missing or twice, a gap was not kept, or a request came more than a turn late.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from kills import Asked, children, judged, served, web_flags

from benchmarks.kit.machine import describe_machine
from crawler.base.carrier.redis_servers import slot_of
from crawler.cluster.claims import ASKED, name_of
from crawler.job.crawl_file import read_crawl_file
from crawler.job.partition.placement import Placement
from tests.base.carrier.redis_server import SLOTS, RedisServer, redis_cluster, redis_server

ROOT = Path(__file__).resolve().parents[2]
TURN = 0.5  # seconds that a turn of the event loop may take on a busy machine
KILLS = ("worker", "first", "all")
REST = 2.0  # seconds between two troubles, at least
BETWEEN = 10_000  # bytes of the servers' log, so that the crawl is at work at each trouble; that is about 150 requests
MOST_REST = 30.0  # seconds to wait for these
AGAIN = 0.5  # seconds before what died is started again
CONTACT = "{}@example.org"  # says in the servers' log who asked
CRAWL = "chains"
PARTITIONS = 16
MOVED = SLOTS // 9  # slots that a reshard moves


@dataclass(frozen=True, slots=True)
class Shut:
    """A time in which no request may come, or none of ``who``, or none to hosts of other ``partitions``."""

    trouble: str
    begin: float
    end: float
    who: str
    partitions: frozenset[int] | None


class Processes:
    """The commands of the crawl; whatever ends before the crawl is started again. ``around``: what a command has in its
    environment besides."""

    def __init__(
        self, commands: dict[str, list[str]], home: Path, around: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self._commands = commands
        self._home = home
        self._around = around or {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._due: dict[str, float] = {}
        self.codes: dict[str, Counter[int]] = {name: Counter() for name in commands}

    @property
    def is_over(self) -> bool:
        """Whether the crawl has ended."""
        return self.codes["first"][0] > 0

    def look(self) -> None:
        """Start what is not running."""
        for name, words in self._commands.items():
            process = self._running.get(name)
            if process is not None and process.poll() is not None:
                self.note(f"{name} ended: {process.returncode}")
                self.codes[name][process.returncode] += 1
                del self._running[name]
                self._due[name] = max(self._due.get(name, 0.0), time.monotonic() + AGAIN)
            due = time.monotonic() >= self._due.get(name, 0.0)
            if name not in self._running and due and not self.codes[name][0]:
                self.note(f"{name} starts")
                with open(self._home / f"{name}.out", "ab") as out:
                    environment = {**os.environ, "PYTHONPATH": str(ROOT), **self._around.get(name, {})}
                    self._running[name] = subprocess.Popen(
                        words, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=self._home
                    )

    def note(self, what: str) -> None:
        """Write it down, with the time that the servers' log has too."""
        with open(self._home / "events", "a", encoding="ascii") as file:
            file.write(f"{time.monotonic():.3f} {what}\n")

    def workers(self) -> dict[str, int]:
        """The process that crawls, of each command."""
        found = {}
        for name, process in self._running.items():
            pids = [process.pid] if name != "first" else list(children(process.pid))
            if pids and process.poll() is None:
                found[name] = pids[0]
        return found

    def all(self, name: str) -> Iterator[int]:
        """All processes of a command."""
        process = self._running.get(name)
        if process is not None and process.poll() is None:
            yield from children(process.pid)
            yield process.pid

    def kill(self, name: str) -> None:
        """All processes of a command, which are gone then."""
        process = self._running.pop(name, None)
        if process is None:
            return
        pids = [*children(process.pid), process.pid]
        for pid in pids:
            send(pid, signal.SIGKILL)
        self.codes[name][process.wait()] += 1
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.005)

    def is_up(self, name: str) -> bool:
        """Whether a command runs."""
        process = self._running.get(name)
        return process is not None and process.poll() is None

    def leave_down(self, name: str, seconds: float) -> None:
        """Start the command again after so long."""
        self._due[name] = time.monotonic() + seconds

    def rest(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Keep all alive for so long, or until the crawl is over, or something is ``enough``."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.is_over and not enough():
            self.look()
            time.sleep(0.05)

    def end(self, seconds: float) -> None:
        """Wait until all have learned that the crawl is over, and kill who has not."""
        until = time.monotonic() + seconds
        while self._running and time.monotonic() < until:
            time.sleep(0.05)
            for name, process in list(self._running.items()):
                if process.poll() is not None:
                    self.codes[name][process.returncode] += 1
                    del self._running[name]
        for name in list(self._running):
            for pid in list(self.all(name)):
                send(pid, signal.SIGKILL)
            self._running[name].wait()
            self.codes[name][-signal.SIGKILL] += 1


class Troubles:
    """What happens to the crawl."""

    def __init__(
        self, servers: Sequence[RedisServer], processes: Processes, chance: random.Random, pause: float
    ) -> None:
        self._servers = servers
        self._redis = servers[0]  # that has the trouble
        self._processes = processes
        self._chance = chance
        self._paused = pause
        self.shut: list[Shut] = []
        self.given = Counter[str]()
        self.killed = 0  # processes

    def all(self) -> dict[str, Callable[[], None]]:
        """By name."""
        kills = {name: lambda name=name: self._kill(name) for name in KILLS}
        moves = {"reshard": self._reshard} if len(self._servers) > 1 else {}
        return (
            kills
            | moves
            | {
                "flushall": lambda: self._say("FLUSHALL"),
                "scripts": lambda: self._say("SCRIPT", "FLUSH"),
                "pause": self._pause,
                "kept": lambda: self._restart(empty=False),
                "empty": lambda: self._restart(empty=True),
                "stop": self._stop,
                "cut": self._cut,
                "full": self._full,
            }
        )

    def give(self, name: str) -> None:
        """Let it happen."""
        self._redis = self._chance.choice(self._servers)
        self._processes.note(f"trouble: {name} {self._redis.port}")
        self.all()[name]()
        self._processes.note(f"over: {name}")
        if not self._processes.is_over:
            self.given[name] += 1

    def _kill(self, what: str) -> None:
        processes, workers = self._processes, self._processes.workers()
        if what == "worker":
            pids = [self._chance.choice(sorted(workers.values()))] if workers else []
        else:
            pids = [pid for name in (workers if what == "all" else ["first"]) for pid in processes.all(name)]
            pids = pids if what == "all" else pids[-1:]
        for pid in pids:
            send(pid, signal.SIGKILL)
        self.killed += len(workers) if what == "all" else 1

    def _say(self, *words: str) -> None:
        self._redis.say(*words)

    def _pause(self) -> None:
        without = self._partitions()
        self._say("CLIENT", "PAUSE", str(round(self._paused * 1_000)), "ALL")
        began = time.monotonic()
        self._processes.rest(self._paused - 0.5)
        self._shut("pause", began + ASKED, time.monotonic(), partitions=without)
        time.sleep(0.5)

    def _restart(self, *, empty: bool) -> None:
        without = self._partitions()
        self._redis.kill()
        began = time.monotonic()
        if empty:
            shutil.rmtree(self._redis.home / "appendonlydir")
        self._processes.rest(self._chance.choice((0.0, 2.0, 9.0)))
        self._shut("empty" if empty else "kept", began + ASKED, time.monotonic(), partitions=without)
        self._redis.start()

    def _reshard(self) -> None:
        source, target = self._chance.sample(self._servers, 2)
        ids = [server.say("CLUSTER", "MYID").decode() for server in (source, target)]
        words = ["redis-cli", "--cluster", "reshard", f"127.0.0.1:{source.port}", "--cluster-yes"]
        words += ["--cluster-from", ids[0], "--cluster-to", ids[1], "--cluster-slots", str(MOVED)]
        moving = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self._processes.rest(120.0, lambda: moving.poll() is not None)
        if moving.wait(60.0):
            raise SystemExit(f"redis-cli did not move the slots: exit code {moving.returncode}")

    def _partitions(self) -> frozenset[int] | None:
        """Those that the server has which is in trouble; None: all."""
        if len(self._servers) == 1:
            return None
        ranges = [
            (begin, end)
            for begin, end, master, *_ in self._redis.say("CLUSTER", "SLOTS")
            if master[1] == self._redis.port
        ]
        slots = {number: slot_of(f"crawler:{{{CRAWL}:{name_of(number)}}}:") for number in range(PARTITIONS)}
        return frozenset(number for number, slot in slots.items() if any(begin <= slot <= end for begin, end in ranges))

    def _stop(self) -> None:
        _, pid = self._anybody()
        send(pid, signal.SIGSTOP)
        self._processes.rest(self._chance.uniform(12.0, 30.0))
        send(pid, signal.SIGCONT)

    def _cut(self) -> None:
        who, pid = self._anybody()
        send(pid, signal.SIGSTOP)
        self._processes.rest(12.0)
        send(self._redis.pid, signal.SIGSTOP)
        try:
            time.sleep(0.1)
            send(pid, signal.SIGCONT)
            began = time.monotonic()
            time.sleep(3.0)
            self._shut("cut", began, time.monotonic(), who)
        finally:
            send(self._redis.pid, signal.SIGCONT)

    def _full(self) -> None:
        self._say("CONFIG", "SET", "maxmemory", "1")
        self._processes.rest(self._chance.uniform(3.0, 8.0))
        self._say("CONFIG", "SET", "maxmemory", "256mb")

    def _anybody(self) -> tuple[str, int]:
        workers = self._processes.workers()
        while not workers:
            self._processes.rest(0.2)
            workers = self._processes.workers()
        return self._chance.choice(sorted(workers.items()))

    def _shut(
        self, trouble: str, begin: float, end: float, who: str = "", partitions: frozenset[int] | None = None
    ) -> None:
        if end > begin and not self._processes.is_over:
            self.shut.append(Shut(trouble, begin, end, who, partitions))


def send(pid: int, number: signal.Signals) -> None:
    """A signal to a process that this script has started, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--troubles", help="only these, in this order")
    web_flags(parser, chains=40, steps=200, hosts=30, busy=10, leaves=800, delay=0.2)
    parser.add_argument("--cluster", action="store_true", help="three masters")
    parser.add_argument("--pause", type=float, default=20.0, help="seconds that Redis answers nobody")
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "redis", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        ordeal(chosen, home)


def ordeal(chosen: argparse.Namespace, home: Path) -> None:
    """Crawl, with all troubles, and judge."""
    job, chance = home / "job", random.Random(chosen.seed)
    with contextlib.ExitStack() as stack:
        if chosen.cluster:
            servers = stack.enter_context(redis_cluster(home / "redis"))
        else:
            servers = [stack.enter_context(redis_server(home / "redis"))]
        chains, seeds, log = stack.enter_context(served(chosen, home))
        processes = Processes(commands(chosen, engine_of(servers), job, seeds), home)
        troubles = Troubles(servers, processes, chance, chosen.pause)
        began = time.monotonic()
        try:
            for trouble in planned(chosen, troubles, chance):
                asked = log.stat().st_size
                processes.rest(REST + chance.expovariate(1.0))
                processes.rest(MOST_REST, lambda asked=asked: log.stat().st_size > asked + BETWEEN)
                if not processes.is_over:
                    troubles.give(trouble)
            processes.rest(900.0)
        finally:
            processes.end(30.0)
        took = time.monotonic() - began
    found = judged(chains, log, sorted(job.glob("partitions/*")), chosen.delay)
    print(f"troubles  {', '.join(f'{name} {count}' for name, count in sorted(troubles.given.items()))}")
    codes = ", ".join(f"{name} {dict(each)}" for name, each in processes.codes.items())
    print(f"crawl     exit codes of {codes}, {took:.0f} s")
    placement = Placement(read_crawl_file(job).secret, PARTITIONS)
    late = [overshoot for each in troubles.shut if (overshoot := show_shut(each, found.asked, placement)) > TURN]
    print()
    right = found.show(troubles.killed * chosen.concurrency)
    if not right or late or not processes.is_over:
        raise SystemExit(1)


def planned(chosen: argparse.Namespace, troubles: Troubles, chance: random.Random) -> Iterator[str]:
    """The troubles of all rounds."""
    names = chosen.troubles.split(",") if chosen.troubles else list(troubles.all())
    for _ in range(chosen.rounds):
        if not chosen.troubles:
            chance.shuffle(names)
        yield from names


def engine_of(servers: Sequence[RedisServer]) -> str:
    return "redis://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)


def commands(chosen: argparse.Namespace, engine: str, job: Path, seeds: Path) -> dict[str, list[str]]:
    """Those of the crawl. The workers are given nothing but who they are: the settings come to them."""
    program = (sys.executable, "-m", "crawler")
    reached = ("--engine", engine, "--crawl", CRAWL)
    first = [
        *(*program, str(seeds), "--job", str(job), "--partitions", "1", *reached, "--scope", "any", "--quiet"),
        *("--allow-network", "127.20.0.0/16", "--delay", str(chosen.delay)),
        *("--concurrency", str(chosen.concurrency), "--contact", CONTACT.format("first")),
    ]
    work = (*program, "work", "--dir", str(job), *reached, "--quiet")
    return {"first": first} | {name: [*work, "--contact", CONTACT.format(name)] for name in ("second", "third")}


def show_shut(shut: Shut, asked: Sequence[Asked], placement: Placement) -> float:
    """Say how late the last request came that was not permitted, and return that."""
    who = CONTACT.format(shut.who) if shut.who else ""
    had = shut.partitions
    asked = [each for each in asked if had is None or placement.of_host(each.host) in had]
    came = [each.came - shut.begin for each in asked if who in each.who]
    late = [each for each in came if 0.0 < each < shut.end - shut.begin]
    before = sum(-20.0 < each <= 0.0 for each in came)
    said = f"{len(late)} late, the last by {max(late):.3f} s" if late else "none late"
    print(
        f"shut      {shut.trouble}: {shut.end - shut.begin:.1f} s without a claim, {said}; {before} in the 20 s before"
    )
    return max(late, default=0.0)


if __name__ == "__main__":
    main(sys.argv[1:])
