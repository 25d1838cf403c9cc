"""Crawl a web of chains in partitions on several machines, let them lose power by turns, and ask the servers what was
lost.

    python benchmarks/partitions/losses.py [--carrier redis|local] [--losses 40] [--machines 3] [--early N]
        [--file-systems] [--seed N] [--chains N] [--steps N] [--hosts N] [--links N] [--delay S]

A machine is one worker with a directory of its own. ``first`` begins the crawl, the others join by ``crawler work``.
What lies between them is a Redis, or the socket that ``first`` serves: that goes with it. A loss of power ends all
processes of one machine, and takes what it had not synced. The others live on. After 0 to 12 seconds the same command
is given again there. The moment of a loss is chosen by the servers' log, by turns:

    sender       just when a page is asked for elsewhere whose link the machine has sent
    receiver     just when the machine asks for a page whose link has come from elsewhere
    early        with ``--early``, so many besides: within 4 seconds of the last start, whatever it has done by then

What was not synced is cut from each file, all of it or up to a random place (``benchmarks/durability/synced.c``). With
``--file-systems`` each machine's directory is an ext4 of its own, which is shut down without writing its journal (needs
root and loop devices; exits with 77 where it may not mount).

For each loss, what was there before and what is left:

    undone       records that are lost, of pages that were answered
    sent         of these: pages whose link somebody else had followed already
    received     of these: pages whose link had come from somebody else
    batches      what was admitted from others and is forgotten

In the end the log and the records of all machines are judged as ``kills.py`` does; ``verify`` must call each directory
whole. Exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "durability"))
sys.path.append(str(Path(__file__).resolve().parents[2]))

from chain_web import Chains
from images import SKIPPED, NotAllowedError, make_image, mount, own_mounts, unmount
from kills import Asked, judged, read_line, served, spread, web_flags
from troubles import CONTACT, REST, Processes

from benchmarks.durability.synced import Synced
from benchmarks.kit.machine import describe_machine
from crawler.base.kv import Family
from crawler.inspect.job_reader import open_job
from crawler.job.crawl_file import partition_directories
from crawler.job.partition.inlet import decode_row
from tests.base.carrier.redis_server import RedisServer

ROLES = ("sender", "receiver")
EARLY = "early"
NAMES = ("first", "second", "third", "fourth")
FRESH = 0.8  # seconds: what is younger is not synced, as a rule
ENOUGH = 60  # requests of a machine from its start, or its last loss, to its next one
PATIENCE = 60.0  # seconds to wait for these
_IMAGE = 256 * 2**20
_SHUTDOWN, _WITHOUT_JOURNAL = 0x8004587D, 2  # EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH
_DOWN = (0.0, 0.0, 1.0, 4.0, 12.0)  # seconds; a claim ends after 10


@dataclass(frozen=True, slots=True)
class Loss:
    """What one loss took."""

    role: str
    who: str
    since: int  # requests of that machine since it was started
    size: int
    undone: set[str]
    sent: int
    received: int
    link_batches: int


class Log:
    """The servers' log, read on as it grows."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open(encoding="ascii")
        self._rest = ""
        self.asked: dict[str, Asked] = {}  # by path, the last one
        self.requests = Counter[str]()  # by machine

    def read(self) -> list[Asked]:
        """What is new."""
        *lines, self._rest = (self._rest + self._stream.read()).split("\n")
        found = [read_line(line) for line in lines]
        for each in found:
            self.asked[each.path] = each
            self.requests[machine(each)] += 1
        return found

    def before(self, path: str) -> Asked | None:
        """The request for the page that links to this one."""
        return self._beside(path, -1)

    def behind(self, path: str) -> Asked | None:
        """The request for the page that this one links to."""
        return self._beside(path, 1)

    def _beside(self, path: str, steps: int) -> Asked | None:
        kind, _, place = path[1:].partition("/")
        chain, _, step = place.partition("/")
        return self.asked.get(f"/c/{chain}/{int(step) + steps}") if kind == "c" else None


def machine(asked: Asked) -> str:
    """The one that asked."""
    return next((name for name in NAMES if CONTACT.format(name) in asked.who), "")


class Cut:
    """Machines whose files are cut behind what was synced."""

    def __init__(self, home: Path, names: Sequence[str]) -> None:
        self.directories = {name: home / name for name in names}
        self._synced = {name: Synced(home, f"{name}.synced") for name in names}
        self.around = {name: each.environment for name, each in self._synced.items()}

    def lose(self, name: str, chance: random.Random) -> int:
        """Returns the bytes that are lost."""
        return self._synced[name].lose_power(self.directories[name], chance, all_of_it=chance.random() < 0.5)


class Shut:
    """Machines with file systems that are shut down. Raises NotAllowedError where they cannot be mounted."""

    def __init__(self, home: Path, names: Sequence[str]) -> None:
        own_mounts()
        self.directories = {name: home / name / "crawl" for name in names}
        self.around: dict[str, dict[str, str]] = {}
        for directory in self.directories.values():
            directory.parent.mkdir(exist_ok=True)
            make_image(self._image(directory), "ext4", _IMAGE)
            mount(self._image(directory), directory.parent)

    def lose(self, name: str, chance: random.Random) -> int:
        """Returns the bytes that are lost."""
        top = self.directories[name].parent
        before = _bytes(top)
        descriptor = os.open(top, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_JOURNAL))
        finally:
            os.close(descriptor)
        unmount(top)
        mount(self._image(self.directories[name]), top)
        return before - _bytes(top)

    @staticmethod
    def _image(directory: Path) -> Path:
        return directory.parent.with_suffix(".img")


def _bytes(top: Path) -> int:
    return sum(path.stat().st_size for path in top.rglob("*") if path.is_file())


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--carrier", choices=("redis", "local"), default="redis")
    parser.add_argument("--losses", type=int, default=40, help="of senders and of receivers together")
    parser.add_argument("--early", type=int, default=0, help="besides")
    parser.add_argument("--machines", type=int, default=3, choices=(2, 3, 4))
    parser.add_argument("--file-systems", action="store_true", help="of their own, which are shut down")
    web_flags(parser, chains=60, steps=200, hosts=60, busy=0, leaves=500, delay=0.5)
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "redis", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        names = NAMES[: chosen.machines]
        try:
            machines = (Shut if chosen.file_systems else Cut)(home, names)
        except NotAllowedError as error:
            print(error, file=sys.stderr)
            raise SystemExit(SKIPPED) from None
        try:
            ordeal(chosen, home, machines)
        finally:
            for directory in machines.directories.values() if chosen.file_systems else ():
                unmount(directory.parent)


def ordeal(chosen: argparse.Namespace, home: Path, machines: Cut | Shut) -> None:
    """Crawl, with all losses, and judge."""
    began = time.monotonic()
    with engine(chosen, home) as url, served(chosen, home) as (chains, seeds, log):
        processes = Processes(commands(chosen, url, machines.directories, seeds), home, machines.around)
        try:
            losses = lose_all(chosen, processes, machines, Log(log))
            processes.rest(900.0)
        finally:
            processes.end(60.0)
    jobs = [job for each in machines.directories.values() for job in partition_directories(each)]
    found = judged(chains, log, jobs, chosen.delay)
    codes = ", ".join(f"{name} {dict(each)}" for name, each in processes.codes.items())
    print(f"crawl     exit codes of {codes}, {time.monotonic() - began:.0f} s")
    unsound = [name for name, each in machines.directories.items() if not is_whole(each)]
    print(f"verify    {', '.join(unsound) or 'each directory is whole'}\n")
    show(losses, log, chains)
    undone = sum(len(each.undone) for each in losses)
    right = found.show(undone + chosen.concurrency * len(losses))
    if not right or unsound or not processes.is_over or len(losses) < chosen.losses + chosen.early:
        raise SystemExit(1)


@contextlib.contextmanager
def engine(chosen: argparse.Namespace, home: Path) -> Iterator[str]:
    """The Redis between the machines; nothing, if ``first`` serves what is between them."""
    if chosen.carrier == "local":
        yield ""
        return
    redis = RedisServer(home / "redis")
    redis.start()
    try:
        yield redis.url
    finally:
        redis.kill()


def commands(
    chosen: argparse.Namespace, engine: str, directories: dict[str, Path], seeds: Path
) -> dict[str, list[str]]:
    """Those of all machines. All but the first one are given nothing but who they are."""
    program = (sys.executable, "-m", "crawler")
    crawl = ("--crawl", "chains", "--workers", str(chosen.machines))
    first = [
        *(*program, str(seeds), "--job", str(directories["first"]), "--partitions", "1", "--scope", "any", "--quiet"),
        *(("--engine", engine) if engine else ()),
        *("--allow-network", "127.20.0.0/16", "--delay", str(chosen.delay), *crawl),
        *("--concurrency", str(chosen.concurrency), "--contact", CONTACT.format("first")),
    ]
    reached = ("--engine", engine or f"unix:{directories['first'] / 'carrier.sock'}", *crawl, "--quiet")
    return {"first": first} | {
        name: [*program, "work", "--dir", str(directory), *reached, "--contact", CONTACT.format(name)]
        for name, directory in directories.items()
        if name != "first"
    }


def lose_all(chosen: argparse.Namespace, processes: Processes, machines: Cut | Shut, log: Log) -> list[Loss]:
    """Let the machines lose power, a sender and a receiver by turns."""
    chance, losses = random.Random(chosen.seed), list[Loss]()
    since = Counter[str]()  # requests of a machine before it was started
    for role in planned(chosen):
        if role == EARLY:
            who = losses[-1].who if losses else chance.choice(sorted(machines.directories))
            processes.rest(PATIENCE, lambda who=who: processes.is_up(who))
            processes.rest(chance.uniform(0.0, 4.0))
        else:
            processes.rest(REST + chance.expovariate(1.0))
            log.read()
            who = chance.choice(sorted(machines.directories))
            processes.rest(PATIENCE, lambda who=who: log.read() is not None and log.requests[who] > since[who] + ENOUGH)
            processes.rest(PATIENCE, moment(log, role, who))
        if processes.is_over:
            break
        time.sleep(chance.uniform(0.0, 0.1) if role != EARLY else 0.0)
        processes.note(f"{who} loses power as {role}")
        processes.kill(who)
        losses.append(lose(role, who, machines, log, chance, since[who]))
        since[who] = log.requests[who]
        processes.leave_down(who, chance.choice(_DOWN))
    return losses


def planned(chosen: argparse.Namespace) -> list[str]:
    """What the losses are: those that come early first, and then behind each of the others."""
    roles = [ROLES[number % len(ROLES)] for number in range(chosen.losses)]
    for number in range(chosen.early):
        roles.insert(2 * number, EARLY)
    return roles


def moment(log: Log, role: str, who: str) -> Callable[[], bool]:
    """Whether a link of the machine, or one to it, has just been followed."""

    def is_now() -> bool:
        for each in log.read():
            before = log.before(each.path)
            if before is None or each.came - before.answered > FRESH:
                continue
            sender, receiver = machine(before), machine(each)
            if sender != receiver and (sender if role == "sender" else receiver) == who:
                return True
        return False

    return is_now


def lose(role: str, who: str, machines: Cut | Shut, log: Log, chance: random.Random, since: int) -> Loss:
    """Take what the machine had not synced; its processes are gone."""
    directory = machines.directories[who]
    records, link_batches = recorded(directory), admitted(directory)
    size = machines.lose(who, chance)
    log.read()
    undone, left = records - recorded(directory), admitted(directory)
    paths = ["/" + url.split("/", 3)[3] for url in undone]
    followed = [behind for path in paths if (behind := log.behind(path)) is not None]
    came = [before for path in paths if (before := log.before(path)) is not None]
    return Loss(
        role,
        who,
        log.requests[who] - since,
        size,
        undone,
        sum(machine(each) != who for each in followed),
        sum(machine(each) != who for each in came),
        sum(number - left.get(key, 0) for key, number in link_batches.items() if number > left.get(key, 0)),
    )


def recorded(directory: Path) -> set[str]:
    """The URLs that have a whole record."""
    urls = set()
    for path in directory.glob("partitions/*/pages*.jsonl"):
        urls.update(json.loads(line)["url"] for line in path.read_bytes().split(b"\n")[:-1] if line.endswith(b"}"))
    return urls


def admitted(directory: Path) -> dict[tuple[int, int, int], int]:
    """The last batch that each partition has admitted: by partition, sender and its epoch."""
    found = {}
    for each in partition_directories(directory):
        with open_job(each) as job:
            for key, value in job.store.rows(Family.INLET):
                sender, epoch, number = decode_row(key, value)
                found[int(each.name), sender, epoch] = number
    return found


def is_whole(directory: Path) -> bool:
    words = [sys.executable, "-m", "crawler", "verify", str(directory)]
    ran = subprocess.run(words, cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, check=False)
    if ran.returncode:
        print(ran.stdout[-2000:] + ran.stderr[-2000:])
    return ran.returncode == 0


def show(losses: Sequence[Loss], log: Path, chains: Chains) -> None:
    """Say what the losses took."""
    asked = Counter(each.path for each in map(read_line, log.read_text().splitlines()))
    print(f"{'':<10}{'losses':>7}{'bytes':>9}{'undone':>8}{'again':>7}{'sent':>6}{'received':>10}{'batches':>9}")
    for role in dict.fromkeys(each.role for each in losses):
        mine = [each for each in losses if each.role == role]
        undone = [url for each in mine for url in each.undone]
        again = sum(asked["/" + url.split("/", 3)[3]] > 1 for url in undone)
        print(
            f"{role:<10}{len(mine):>7}{sum(each.size for each in mine):>9}{len(undone):>8}{again:>7}"
            f"{sum(each.sent for each in mine):>6}{sum(each.received for each in mine):>10}"
            f"{sum(each.batches for each in mine):>9}"
        )
    if losses:
        took = sum(bool(each.undone) for each in losses)
        print(f"{took} of {len(losses)} losses took records; machines: {dict(Counter(each.who for each in losses))}")
        print(f"{spread([each.since for each in losses])} requests of a machine from its start to its loss\n")


if __name__ == "__main__":
    main(sys.argv[1:])
