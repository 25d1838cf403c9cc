"""Crawl a web of chains on several machines, cut one off from the others, and ask the servers what was lost.

    python benchmarks/partitions/machines.py [--cases NAME,...] [--seconds S] [--seed N] [--chains N] [--steps N]
        [--hosts N] [--busy HOSTS] [--leaves N] [--delay S]

A machine is a network namespace, with a clock of its own since its start: one for Redis, one for the web, and three
that crawl, each with one directory, which wait for each other (``--workers 3``). They are joined by a bridge in one
more. No namespace has a way out, so their addresses (10.19.0.0/16 and 10.20.0.0/16) are these machines by construction,
as 127.0.0.0/8 is this one; all of them end with this script. Needs root, or user namespaces.

A machine is cut off without a word: packets go to an address of the link layer that nobody has. The cases, each of
which cuts one of the machines off for 60 seconds:

    engine, web, all      from Redis; from the web; from both
    ...-requests          only what the machine sends is lost
    ...-answers           only what is sent to it is lost
    server                Redis is cut off from all machines
    stop                  the machine's worker is stopped (SIGSTOP) for 30 seconds. When it goes on it is cut off from
                          Redis for 5 more: then it cannot renew its claims

The servers' log and the records of all partitions are judged as ``kills.py`` does. Besides, of a machine that is cut
off from Redis no request may come when half the time of a claim has passed, until it is joined again; ``late`` counts
those that came, ``by`` says how long after that the last one came: a turn of the event loop may be under way.
``before`` is how many came from it in as much time before the cut, ``others`` how many from the others during it, and
``back`` the seconds from its end until the machine's next request.

Exits with 1 if pages are lost, missing or twice, a gap was not kept, a request came more than a turn late, a process
ended before the crawl, or the crawl does not end by itself.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from kills import Asked, judged, served, web_flags
from troubles import CONTACT, TURN, Processes, send

from benchmarks.kit.machine import describe_machine
from crawler.base.carrier.engine_address import PASSWORD
from crawler.cluster.ownership import ASKED
from tests.base.carrier.redis_server import CONFIG

HERE = Path(__file__).resolve()
CRAWLERS = ("first", "second", "third")
ADDRESSES = {"engine": "10.19.0.1", "web": "10.19.0.2"} | {
    name: f"10.19.0.{number}" for number, name in enumerate(CRAWLERS, 11)
}
WEB = "10.20"  # the hosts of the web, which its machine has all
PORT = 6379
NOBODY = "02:00:00:00:00:ff"
APART = 1_000_000  # seconds between the clocks of two machines since their start
REST = 12.0  # seconds between two cuts
BEGUN = 90.0  # seconds until all are at work, at most
STOPPED = 30.0
UNREACHED = 5.0  # seconds
WAITED = 900.0  # for the end of the crawl


@dataclass(frozen=True, slots=True)
class Cut:
    """A time in which a machine was cut off. ``is_shut`` from then on: it may ask for nothing."""

    case: str
    who: str
    begin: float
    shut: float | None
    end: float


class Machines:
    """Namespaces, each with a process in it that ends when this one does, or closes its standard input."""

    def __init__(self) -> None:
        self._holders: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self) -> None:
        """Raises CalledProcessError or OSError where the kernel does not permit it."""
        for number, name in enumerate(("bridge", *ADDRESSES)):
            words = ["unshare", "--net", "--time", "--boottime", str(APART * number), "--fork"]
            holder = self._holders[name] = subprocess.Popen(
                [*words, "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
            )
            assert holder.stdout is not None
            if not holder.stdout.readline():
                raise OSError(f"unshare does not make a namespace: exit code {holder.wait()}")
        self._ip("bridge", "link add switch type bridge")
        self._ip("bridge", "link set switch up")
        for name, address in ADDRESSES.items():
            pid = self._holders[name].pid
            self._ip("bridge", f"link add {name} type veth peer name eth0 netns {pid}")
            self._ip("bridge", f"link set {name} master switch up")
            self._ip(name, f"link set eth0 address {link_address(name)}")
            self._ip(name, f"address add {address}/16 dev eth0")
            self._ip(name, "link set lo up")
            self._ip(name, "link set eth0 up")
            hosts = f"local {WEB}.0.0/16 dev lo" if name == "web" else f"{WEB}.0.0/16 via {ADDRESSES['web']}"
            self._ip(name, f"route add {hosts}")
        for name in ADDRESSES:
            for other in ADDRESSES:
                if other != name:
                    self.point(name, other, link_address(other))

    def end(self) -> None:
        """The namespaces go with the last process in them."""
        for holder in self._holders.values():
            assert holder.stdin is not None
            holder.stdin.close()
        for holder in self._holders.values():
            holder.wait()

    def within(self, name: str) -> list[str]:
        """The begin of a command that runs there."""
        of = f"/proc/{self._holders[name].pid}/ns"
        return ["nsenter", f"--net={of}/net", f"--time={of}/time_for_children"]

    def point(self, name: str, other: str, link: str) -> None:
        """What a machine sends to another one goes to that address of the link layer."""
        self._ip(name, f"neighbour replace {ADDRESSES[other]} lladdr {link} dev eth0 nud permanent")

    @contextmanager
    def cut(self, name: str, others: Sequence[str], lost: Sequence[str]) -> Iterator[None]:
        """Lose what the machine sends to the others (``requests``), what they send to it (``answers``), or both."""
        ways = [(name, other) for other in others if "requests" in lost]
        ways += [(other, name) for other in others if "answers" in lost]
        for sender, target in ways:
            self.point(sender, target, NOBODY)
        try:
            yield
        finally:
            for sender, target in ways:
                self.point(sender, target, link_address(target))

    def _ip(self, name: str, words: str) -> None:
        net = f"/proc/{self._holders[name].pid}/ns/net"
        subprocess.run(["nsenter", f"--net={net}", "ip", *words.split()], check=True)


def link_address(name: str) -> str:
    return f"02:00:00:00:00:{list(ADDRESSES).index(name) + 1:02x}"


@contextmanager
def machines() -> Iterator[Machines]:
    made = Machines()
    try:
        made.begin()
        yield made
    finally:
        made.end()


@contextmanager
def redis(made: Machines, home: Path) -> Iterator[None]:
    """A Redis on its machine, with a password."""
    home.mkdir()
    lines = (
        f"include {CONFIG}",
        f"dir {home}",
        f"port {PORT}",
        f"bind {ADDRESSES['engine']}",
        "daemonize no",
        f"logfile {home}/log",
        "maxmemory 256mb",
        f"requirepass {os.environ[PASSWORD]}",
    )
    (home / "redis.conf").write_text("".join(f"{line}\n" for line in lines))
    process = subprocess.Popen([*made.within("engine"), "redis-server", str(home / "redis.conf")])
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Cases:
    """What happens to the machines."""

    def __init__(self, made: Machines, processes: Processes, seconds: float, chance: random.Random) -> None:
        self._made = made
        self._processes = processes
        self._seconds = seconds
        self._chance = chance
        self.cuts: list[Cut] = []

    def names(self) -> list[str]:
        ways = ("", "-requests", "-answers")
        return [f"{place}{way}" for place in ("engine", "web", "all") for way in ways] + ["server", "stop"]

    def give(self, case: str) -> None:
        """Let it happen."""
        who = self._chance.choice(CRAWLERS)
        self._processes.note(f"case: {case} {who}")
        place, _, way = case.partition("-")
        if case == "stop":
            self._stop(who)
        elif case == "server":
            self._cut(case, "engine", CRAWLERS, ("requests", "answers"))
        else:
            others = ("engine", "web") if place == "all" else (place,)
            self._cut(case, who, others, (way,) if way else ("requests", "answers"))
        self._processes.note(f"over: {case}")

    def _cut(self, case: str, who: str, others: Sequence[str], lost: Sequence[str]) -> None:
        with self._made.cut(who, others, lost):
            began = time.monotonic()
            self._processes.rest(self._seconds)
            end = time.monotonic()
        self._note(case, "" if who == "engine" else who, began, None if others == ("web",) else began + ASKED, end)

    def _stop(self, who: str) -> None:
        pid = self._processes.workers()[who]
        send(pid, signal.SIGSTOP)
        began = time.monotonic()
        try:
            self._processes.rest(STOPPED)
            with self._made.cut(who, ("engine",), ("requests", "answers")):
                went_on = time.monotonic()
                send(pid, signal.SIGCONT)
                self._processes.rest(UNREACHED)
                end = time.monotonic()
        finally:
            send(pid, signal.SIGCONT)
        self._note("stop", who, began, went_on, end)

    def _note(self, case: str, who: str, begin: float, shut: float | None, end: float) -> None:
        if not self._processes.is_over:
            self.cuts.append(Cut(case, who, begin, shut, end))


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", help="only these, in this order")
    parser.add_argument("--seconds", type=float, default=60.0, help="that a cut lasts")
    web_flags(parser, chains=24, steps=250, hosts=30, busy=12, leaves=1_800, delay=0.5)
    chosen = parser.parse_args(words)
    if os.geteuid():
        os.execvp("unshare", ["unshare", "--user", "--map-root-user", sys.executable, str(HERE), *words])
    for line in describe_machine(("aiohttp", "redis", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        ordeal(chosen, home)


def ordeal(chosen: argparse.Namespace, home: Path) -> None:
    """Crawl, with all cuts, and judge."""
    os.environ[PASSWORD] = secrets.token_hex(8)
    with ExitStack() as stack:
        made = stack.enter_context(machines())
        stack.enter_context(redis(made, home / "redis"))
        chains, seeds, log = stack.enter_context(served(chosen, home, WEB, made.within("web")))
        processes = Processes(commands(chosen, made, home, seeds), home)
        cases = Cases(made, processes, chosen.seconds, random.Random(chosen.seed))
        began = time.monotonic()
        try:
            processes.rest(BEGUN, lambda: all(CONTACT.format(name) in log.read_text() for name in CRAWLERS))
            for codes in processes.codes.values():
                codes.clear()  # a worker is refused that comes before there is a crawl
            for case in chosen.cases.split(",") if chosen.cases else cases.names():
                processes.rest(REST)
                if not processes.is_over:
                    cases.give(case)
            processes.rest(WAITED)
        finally:
            processes.end(30.0)
        took = time.monotonic() - began
    found = judged(chains, log, sorted(home.glob("*/partitions/*")), chosen.delay)
    ended = ", ".join(f"{name} {dict(each)}" for name, each in processes.codes.items())
    print(f"crawl     {len(CRAWLERS)} machines, exit codes of {ended}, {took:.0f} s\n")
    late = show_cuts(cases.cuts, found.asked)
    print()
    right = found.show(len(cases.cuts) * chosen.concurrency)
    if not right or late > TURN or any(each != Counter({0: 1}) for each in processes.codes.values()):
        raise SystemExit(1)


def commands(chosen: argparse.Namespace, made: Machines, home: Path, seeds: Path) -> Mapping[str, list[str]]:
    """One for each machine. Those of the second and third are given the settings by Redis."""
    engine = f"redis://{ADDRESSES['engine']}:{PORT}"
    program = (sys.executable, "-m", "crawler")
    common = ("--engine", engine, "--crawl", "chains", "--workers", str(len(CRAWLERS)), "--quiet")
    first = [
        *(*program, str(seeds), "--job", str(home / "first"), "--partitions", "1", "--scope", "any"),
        *("--allow-network", f"{WEB}.0.0/16", "--delay", str(chosen.delay)),
        *("--concurrency", str(chosen.concurrency)),
    ]
    words = {"first": first} | {name: [*program, "work", "--dir", str(home / name)] for name in CRAWLERS[1:]}
    return {
        name: [*made.within(name), *each, *common, "--contact", CONTACT.format(name)] for name, each in words.items()
    }


def show_cuts(cuts: Sequence[Cut], asked: Sequence[Asked]) -> float:
    """Print a line for each, and return how late the last request came that was not permitted."""
    print(f"{'case':<17}{'machine':<9}{'seconds':>8}{'before':>8}{'late':>6}{'by':>7}{'others':>8}{'back':>7}")
    most = 0.0
    for cut in cuts:
        who = CONTACT.format(cut.who) if cut.who else "@"
        own = sorted(each.came for each in asked if who in each.who)
        lasted = cut.end - cut.begin
        before = sum(cut.begin - lasted < came <= cut.begin for came in own)
        late = [came - cut.shut for came in own if cut.shut is not None and cut.shut < came < cut.end]
        others = sum(cut.begin < each.came < cut.end and who not in each.who for each in asked)
        back = next((f"{came - cut.end:.1f}" for came in own if came >= cut.end), "-")
        most = max(most, *late, 0.0)
        by = f"{max(late):.3f}" if late else ""
        count = "-" if cut.shut is None else len(late)
        print(f"{cut.case:<17}{cut.who or 'all':<9}{lasted:>8.1f}{before:>8}{count:>6}{by:>7}{others:>8}{back:>7}")
    return most


if __name__ == "__main__":
    main(sys.argv[1:])
