"""Crawl a web of chains on several machines, take machines away with their disks, and ask the servers what was lost.

    python benchmarks/partitions/burning.py [--events 20] [--kinds NAME,...] [--machines 4] [--replicas N] [--links N]
        [--busy HOSTS] [--seed N] [--chains N] [--steps N] [--hosts N] [--leaves N] [--delay S] [--flags WORDS]
        [--keep DIR]

A machine is one worker with a directory of its own. ``first`` begins the crawl, the others join by ``crawler work``,
and a Redis is between them. What happens, one after the other, each as soon as all partitions have a replica again:

    burn         all processes of a machine die by SIGKILL, and its directory is removed. After 1 to 20 seconds another
                 machine comes in its place, with an empty directory
    next         the same, of the machine that has most of what the one before had: it was made from a replica, which
                 was made anew since
    sender       the same, just when a page is asked for elsewhere whose link the machine has sent
    receiver     the same, just when the machine asks for a page whose link has come from elsewhere
    acked        the same, in the moment after it has told others that their links are durable (a failpoint)
    both         two machines burn at the same moment: one, and the one that has most of its replicas
    soon         a machine burns and, a second after its partitions begin to go on, the one where most of them do
    power        the processes die, and what the machine had not synced is cut from its files. It is back at once
    back         the same, but it is back only when others have its partitions
    kill         the processes die by SIGKILL and begin again with the same directory
    zombie       the processes are stopped (SIGSTOP) for 20 or 60 seconds, and go on
    snapshot     Redis dies, and begins again with what it had 60 seconds ago
    leave        a machine gets SIGTERM, and comes again after some seconds
    join         one machine more comes, with an empty directory; it leaves at the next one of these (SIGTERM)

The servers' log and the records of all partitions are judged as ``kills.py`` does. ``at most`` is what may be asked for
again: what was in flight (``--concurrency``) at each event that ends or stops a machine, and what was answered to it in
the ``steps`` seconds before, which nobody has written but it: 0.1 with a replica, and 1.1 where the machine's own disk
is what is left. Besides, for each event:

    requests     of that machine from the event before to this one
    again        pages that were answered to it before the event and asked for afterwards
    oldest       seconds that the oldest of these was answered before the event
    back         seconds until a host of its partitions was asked again
    idle         the longest that a busy host was not asked, in the minute after the event. It has work all the time

``both`` and ``soon`` need two replicas of each partition (``--replicas 2``).

With ``--flags "--output warc"`` the archives of all partitions are read: each page must be in them once, whole.

Exits with 1 if pages are lost, missing or twice, if more is asked for again or a gap was not kept, if a partition is at
home in two directories in the end, or the crawl does not end by itself.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from kills import Asked, judged, served, web_flags
from losses import NAMES, Log, is_whole, moment
from troubles import CONTACT, PARTITIONS, Processes, send
from warcio.archiveiterator import ArchiveIterator

from benchmarks.durability.synced import Synced
from benchmarks.kit.machine import describe_machine
from crawler.cluster.ownership import name_of
from crawler.cluster.replica_slots import REPLICAS
from crawler.cluster.seats import HOME
from crawler.job.crawl_file import holds_crawl, partition_directories, read_crawl_file
from crawler.job.partition.placement import Placement
from crawler.job.partition.replica_homes import decode_following
from tests.base.carrier.redis_server import RedisServer

CRAWL = "chains"
MORE = "fifth"  # the machine that joins and leaves
BURNS = ("burn", "next", "sender", "receiver", "acked")
PAIRS = ("both", "soon")
KINDS = (*BURNS, *PAIRS, "power", "back", "kill", "zombie", "snapshot", "leave", "join")
USUAL = "burn,next"
GATHERED, UNSYNCED = 0.1, 1.1  # seconds of steps that nobody else has, and those that are not on the own disk
SETTLED = 3.0  # seconds from the moment when all replicas are there to the next event
COVERED = 120.0  # seconds to wait for these, at most
ENOUGH = 60  # requests of a machine from its start, or the last event, to its next one
BEGUN = 90.0  # seconds until all are at work, at most
PATIENCE = 60.0
TRIES = 5  # to meet a moment in which all partitions have replicas
LATE = 0.5  # seconds that a request may come after its sender died
PROMOTED = 18.0  # seconds after which others have the partitions of a machine
SNAPSHOT = 60.0  # seconds that it is old
WATCHED = 60.0  # seconds after an event in which hosts are looked at
CRASH_AT = {"CRAWLER_CRASH_AT": "acks.appended:{}"}


@dataclass(slots=True)
class Event:
    """Something that happened to a machine, and what it had."""

    kind: str
    who: str
    at: float
    since: int
    partitions: frozenset[int]
    over: float = 0.0  # when all its processes were gone, if it ended them
    again: list[float] = field(default_factory=list)  # how long before the pages had been answered

    @property
    def steps(self) -> float:
        """Seconds of steps that may be lost."""
        if self.kind in {*BURNS, *PAIRS, "zombie", "back"}:
            return GATHERED
        return UNSYNCED if self.kind in {"power", "kill"} else 0.0


class Machines(Processes):
    """The machines of the crawl, each with a directory below ``home``."""

    def __init__(self, commands: dict[str, list[str]], home: Path, work: Mapping[str, list[str]]) -> None:
        self._synced = {name: Synced(home, f"{name}.synced") for name in (*NAMES, MORE)}
        self._environment = {name: dict(each.environment) for name, each in self._synced.items()}
        super().__init__(commands, home, self._environment)
        self._work = work
        self.home = home
        self.count = PARTITIONS
        self.killed = self.dead = 0.0  # when that was begun last, and done

    @property
    def is_over(self) -> bool:
        """Whether a process says that the crawl has ended."""
        return any(codes[0] for codes in self.codes.values())

    @property
    def directories(self) -> dict[str, Path]:
        """By machine."""
        return {name: self.home / name for name in self._commands}

    def partitions(self, name: str) -> frozenset[int]:
        """Those that are at home there."""
        with suppress(OSError):
            return frozenset(int(path.name) for path in partition_directories(self.home / name))
        return frozenset()

    def replicas(self, redis: RedisServer, number: int) -> frozenset[str]:
        """The machines that run and have a replica in step of a partition, if its owner runs."""
        up = [name for name in self._commands if self.is_up(name) and holds_crawl(self.home / name)]
        homes = {read_crawl_file(self.home / name).id: name for name in up}
        home, replicas = redis.say("HMGET", f"crawler:{{{CRAWL}:{name_of(number)}}}:values", HOME, REPLICAS)
        said = decode_following(replicas)
        owner = home and home.decode().split()[0]
        if said is None or owner not in homes:
            return frozenset()
        return frozenset(homes[each] for each in said.in_step if each in homes and each != owner)

    def are_covered(self, redis: RedisServer, replicas: int = 1) -> bool:
        """Whether each partition is on a machine that runs, with so many replicas in step on others."""
        return all(len(self.replicas(redis, number)) >= replicas for number in range(self.count))

    def has_begun(self, name: str) -> bool:
        """Whether it is the one that began the crawl, which was not burnt yet."""
        return self._commands[name] is not self._work[name]

    def join(self, name: str) -> None:
        """One machine more."""
        shutil.rmtree(self.home / name, ignore_errors=True)
        self._commands[name] = self._work[name]
        self.codes[name] = Counter()
        self._due.pop(name, None)

    def leave(self, name: str) -> None:
        """End it in order, for good."""
        self.terminate(name)
        self.rest(PATIENCE, lambda: not self.is_up(name))
        self.kill(name)
        self._commands.pop(name)

    def terminate(self, name: str) -> None:
        """As an operator does."""
        process = self._running.get(name)
        if process is not None:
            send(process.pid, signal.SIGTERM)

    def signal(self, name: str, number: signal.Signals) -> None:
        """To all its processes."""
        for pid in self.all(name):
            send(pid, number)

    def die_at(self, name: str, point: dict[str, str]) -> None:
        """The next process of the machine dies at a failpoint."""
        self._environment[name].update(point)

    def kill(self, name: str) -> None:
        """All its processes."""
        self.killed = time.monotonic()
        super().kill(name)
        self.dead = time.monotonic()

    def burn(self, name: str) -> None:
        """Nothing is left of it. What comes in its place begins with nothing, and lives."""
        self.kill(name)
        shutil.rmtree(self.home / name)
        (self.home / f"{name}.synced").unlink(missing_ok=True)
        self._commands[name] = self._work[name]
        self._environment[name].pop(next(iter(CRASH_AT)), None)

    def lose_power(self, name: str, chance: random.Random) -> None:
        """What it had not synced is gone."""
        self.kill(name)
        self._synced[name].lose_power(self.home / name, chance, all_of_it=chance.random() < 0.5)


class Fires:
    """What happens to them."""

    def __init__(self, machines: Machines, redis: RedisServer, log: Log, chance: random.Random, replicas: int) -> None:
        """``replicas``: of each partition, to wait for."""
        self._machines = machines
        self._redis = redis
        self._log = log
        self._chance = chance
        self._replicas = replicas
        self._since = Counter[str]()  # requests of a machine before the event before
        self.events: list[Event] = []
        self.uncovered = 0  # events that came although a partition had no replica

    def give(self, kind: str) -> None:
        """Let it happen, as soon as all have replicas."""
        machines = self._machines
        for _ in range(TRIES):
            machines.rest(COVERED, lambda: self._are_covered() and all(map(machines.is_up, machines.directories)))
            machines.rest(SETTLED + self._chance.expovariate(1.0))
            who = self._who(kind)
            if kind not in {"snapshot", "join"}:
                machines.rest(PATIENCE, lambda who=who: self._requests(who) > ENOUGH)
            if kind in {"sender", "receiver"}:
                machines.rest(PATIENCE, moment(self._log, kind, who))
            if self._are_covered():  # a partition that has moved meanwhile has none for a while
                break
        if not machines.is_over:
            self.uncovered += not self._are_covered()
            machines.note(f"event: {kind} {who}")
            getattr(self, f"_{'burn' if kind in BURNS else 'pair' if kind in PAIRS else kind}")(kind, who)
            machines.note(f"over: {kind} {who}")

    def _are_covered(self) -> bool:
        return self._machines.are_covered(self._redis, self._replicas)

    def _who(self, kind: str) -> str:
        machines = self._machines
        up = sorted(machines.directories)
        if kind == "next" and self.events:
            had = self.events[-1].partitions
            others = [name for name in up if name != self.events[-1].who] or up
            return max(others, key=lambda name: len(had & machines.partitions(name)))
        if kind == "join":
            return MORE
        if kind == "snapshot":
            return ""
        # The first process of the one that began the crawl would start another worker in the place of one that dies.
        begun = {"first"} if kind == "acked" and machines.has_begun("first") else set()
        others = [name for name in up if name not in {MORE} | begun]
        return self._chance.choice([name for name in others if machines.partitions(name)] or others)

    def _requests(self, who: str) -> int:
        self._log.read()
        return self._log.requests[who] - self._since[who]

    def _happened(self, kind: str, who: str, at: float | None = None) -> Event:
        event = Event(kind, who, at or time.monotonic(), self._requests(who), self._machines.partitions(who))
        self.events.append(event)
        self._since[who] = self._log.requests[who]
        return event

    def _burn(self, kind: str, who: str) -> None:
        machines = self._machines
        if kind == "acked":
            machines.terminate(who)
            machines.rest(PATIENCE, lambda: not machines.is_up(who))
            times = self._chance.randint(30, 120)
            machines.die_at(who, {name: value.format(times) for name, value in CRASH_AT.items()})
            machines.rest(PATIENCE, lambda: machines.is_up(who))
            machines.rest(COVERED, lambda: self._are_covered() or not machines.is_up(who))
            machines.rest(COVERED, lambda: not machines.is_up(who))
        else:
            time.sleep(self._chance.uniform(0.0, 0.1))
        event = self._happened(kind, who)
        machines.burn(who)
        event.at, event.over = event.at if kind == "acked" else machines.killed, machines.dead
        machines.leave_down(who, self._chance.uniform(1.0, 20.0))

    def _pair(self, kind: str, who: str) -> None:
        machines, had = self._machines, self._machines.partitions(who)
        others = Counter(name for number in had for name in machines.replicas(self._redis, number))
        time.sleep(self._chance.uniform(0.0, 0.1))
        event = self._happened(kind, who)
        second = others.most_common(1)[0][0]
        if kind == "both":
            also = self._happened(kind, second)
            machines.signal(second, signal.SIGKILL)
        machines.burn(who)
        event.at, event.over = machines.killed, machines.dead
        if kind == "soon":
            machines.leave_down(who, PATIENCE)
            machines.rest(PATIENCE, lambda: any(had & machines.partitions(name) for name in others))
            machines.rest(1.0)
            second = max(others, key=lambda name: len(had & machines.partitions(name)))
            also = self._happened(kind, second)
        machines.burn(second)
        also.at, also.over = also.at if kind == "both" else machines.killed, machines.dead
        for each in (who, second):
            machines.leave_down(each, self._chance.uniform(PROMOTED, 2 * PROMOTED))

    def _power(self, kind: str, who: str) -> None:
        event = self._happened(kind, who)
        self._machines.lose_power(who, self._chance)
        event.at, event.over = self._machines.killed, self._machines.dead
        self._machines.leave_down(who, self._chance.uniform(0.0, 2.0) if kind == "power" else PROMOTED)

    _back = _power

    def _kill(self, kind: str, who: str) -> None:
        event = self._happened(kind, who)
        self._machines.kill(who)
        event.at, event.over = self._machines.killed, self._machines.dead

    def _zombie(self, kind: str, who: str) -> None:
        machines = self._machines
        self._happened(kind, who)
        machines.signal(who, signal.SIGSTOP)
        try:
            machines.rest(self._chance.choice((20.0, 60.0)))
        finally:
            machines.signal(who, signal.SIGCONT)
        machines.rest(SETTLED)

    def _snapshot(self, kind: str, who: str) -> None:
        machines = self._machines
        at = time.monotonic()
        self._redis.say("SAVE")
        file = self._redis.home / "dump.rdb"
        kept = file.replace(file.with_suffix(".kept"))
        machines.rest(at + SNAPSHOT - time.monotonic())
        self._redis.kill()
        self._happened(kind, who)
        kept.replace(file)
        machines.rest(self._chance.choice((0.0, 4.0)))
        self._redis.start()

    def _leave(self, kind: str, who: str) -> None:
        machines = self._machines
        self._happened(kind, who)
        machines.terminate(who)
        machines.leave_down(who, PROMOTED)
        machines.rest(PATIENCE, lambda: not machines.is_up(who))
        machines.leave_down(who, self._chance.uniform(5.0, PROMOTED))

    def _join(self, kind: str, who: str) -> None:
        machines = self._machines
        if who in machines.directories:
            self._happened("leave", who)
            machines.leave(who)
        else:
            machines.join(who)
            self._happened(kind, who)
        machines.rest(WATCHED / 2)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--kinds", default=USUAL, help="of events, by turns")
    parser.add_argument("--machines", type=int, default=4, choices=(2, 3, 4))
    parser.add_argument("--replicas", type=int, default=1, help="of each partition")
    parser.add_argument("--flags", default="", help="more flags of the command that begins the crawl")
    parser.add_argument("--without-replicas", action="store_true", help="wait for none; not for disks that are removed")
    web_flags(parser, chains=60, steps=300, hosts=60, busy=12, leaves=1_200, delay=1.0)
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "redis", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        ordeal(chosen, home)


def ordeal(chosen: argparse.Namespace, home: Path) -> None:
    """Crawl, with all events, and judge."""
    began, chance = time.monotonic(), random.Random(chosen.seed)
    redis = RedisServer(home / "redis", "appendonly no")
    redis.start()
    try:
        with served(chosen, home) as (chains, seeds, log):
            work = working(chosen, redis.url, home)
            names = NAMES[: chosen.machines]
            commands = {"first": beginning(chosen, redis.url, home, seeds)} | {name: work[name] for name in names[1:]}
            machines = Machines(commands, home, work)
            fires = Fires(machines, redis, Log(log), chance, 0 if chosen.without_replicas else chosen.replicas)
            kinds = chosen.kinds.split(",")
            try:
                machines.rest(BEGUN, lambda: all(CONTACT.format(name) in log.read_text() for name in names))
                for number in range(chosen.events):
                    fires.give(kinds[number % len(kinds)])
                machines.rest(1_800.0)
            finally:
                machines.end(60.0)
    finally:
        redis.kill()
    crawls = {name: each for name, each in sorted(machines.directories.items()) if machines.partitions(name)}
    jobs = [job for each in crawls.values() for job in partition_directories(each)]
    found = judged(chains, log, jobs, chosen.delay)
    codes = ", ".join(f"{name} {dict(each)}" for name, each in machines.codes.items())
    print(f"crawl     exit codes of {codes}, {time.monotonic() - began:.0f} s")
    twice = [number for number, count in Counter(job.name for job in jobs).items() if count > 1]
    print(f"homes     {', '.join(sorted(twice)) or 'none'} in two directories")
    unsound = [name for name, each in crawls.items() if not is_whole(each)]
    print(f"verify    {', '.join(unsound) or 'each directory is whole'}")
    archives = [path for job in jobs for path in sorted(job.glob("warc/*"))]
    unkept = archives and archived(archives, set(chains.all()))
    print(f"replicas  {fires.uncovered} of {len(fires.events)} events came when a partition had none\n")
    placement = Placement(read_crawl_file(next(iter(crawls.values()))).secret, PARTITIONS)
    most = allowed(fires.events, found.asked, chosen.concurrency)
    unexplained = attribute(fires.events, found.asked)
    show(fires.events, found.asked, placement, [chains.busy_address(number) for number in range(chains.busy)])
    print(f"{unexplained} pages were asked for again that no event explains\n")
    right = found.show(most)
    if (
        not right
        or twice
        or unsound
        or unkept
        or unexplained
        or not machines.is_over
        or len(fires.events) < chosen.events
    ):
        raise SystemExit(1)


def archived(archives: Sequence[Path], wanted: Set[str]) -> int:
    """Read the archives to their ends. Returns how many pages are not in them once. A damaged record raises."""
    found = Counter[str]()
    for path in archives:
        with path.open("rb") as file:
            for each in ArchiveIterator(file, check_digests="raise"):
                each.content_stream().read()
                if each.rec_type in {"response", "revisit"}:
                    found[each.rec_headers.get_header("WARC-Target-URI")] += 1
    missing = len(wanted - found.keys())
    twice = sum(found[url] > 1 for url in wanted)
    size = sum(path.stat().st_size for path in archives)
    print(f"archives  {len(archives)} files, {size} bytes: {missing} pages are missing, {twice} twice")
    return missing + twice


def beginning(chosen: argparse.Namespace, engine: str, home: Path, seeds: Path) -> list[str]:
    """The command that begins the crawl."""
    return [
        *(sys.executable, "-m", "crawler", str(seeds), "--job", str(home / "first"), "--partitions", "1"),
        *("--engine", engine, "--crawl", CRAWL, "--workers", str(chosen.machines), "--scope", "any", "--quiet"),
        *("--allow-network", "127.20.0.0/16", "--delay", str(chosen.delay)),
        *("--concurrency", str(chosen.concurrency), "--contact", CONTACT.format("first")),
        *("--replicas", str(chosen.replicas), *chosen.flags.split()),
    ]


def working(chosen: argparse.Namespace, engine: str, home: Path) -> dict[str, list[str]]:
    """Those that join it, by machine. They are given nothing but who they are."""
    reached = ("--engine", engine, "--crawl", CRAWL, "--workers", str(chosen.machines), "--quiet")
    return {
        name: [
            *(sys.executable, "-m", "crawler", "work", "--dir", str(home / name), *reached),
            *("--contact", CONTACT.format(name)),
        ]
        for name in (*NAMES, MORE)
    }


def allowed(events: Sequence[Event], asked: Sequence[Asked], in_flight: int) -> int:
    """How many pages may be asked for again."""
    most = 0
    for event in events:
        if event.kind not in {"snapshot", "join"}:
            young = sum(event.at - event.steps <= each.answered <= event.at for each in asked if is_of(each, event))
            most += in_flight + young
    return most


def is_of(asked: Asked, event: Event) -> bool:
    """Whether the machine of the event asked."""
    return CONTACT.format(event.who) in asked.who


def attribute(events: Sequence[Event], asked: Sequence[Asked]) -> int:
    """Tell each event what was asked for again because of it. Returns how many pages no event explains."""
    by_page: dict[tuple[str, str], list[Asked]] = defaultdict(list)
    for each in asked:
        if each.path != "/robots.txt":
            by_page[each.host, each.path].append(each)
    unexplained = 0
    for requests in by_page.values():
        requests.sort(key=lambda each: each.came)
        for first, second in pairwise(requests):
            reason = next(
                (
                    each
                    for each in events
                    if first.came <= max(each.at, each.over) and each.at <= second.came and is_of(first, each)
                ),
                None,
            )
            if reason is None:
                unexplained += 1
                print(f"again     {first.host}{first.path} after {second.came - first.answered:.1f} s, by {second.who}")
            else:
                reason.again.append(reason.at - first.answered)
    return unexplained


def show(events: Sequence[Event], asked: Sequence[Asked], placement: Placement, busy: Sequence[str]) -> None:
    """A line for each event."""
    by_host: dict[str, list[Asked]] = defaultdict(list)
    for each in sorted(asked, key=lambda each: each.came):
        by_host[each.host].append(each)
    of_hosts = {host: placement.of_host(host) for host in by_host}
    print(
        f"{'event':<9}{'machine':<8}{'at':>6}{'partitions':>11}{'requests':>9}{'again':>6}{'oldest':>7}{'back':>6}{'idle':>6}"
    )
    for event in events:
        had = [host for host, number in of_hosts.items() if number in event.partitions]
        come = [each.came - event.at for host in had for each in by_host[host] if each.came > event.at]
        idle = max((longest_rest(by_host[host], event.at) for host in busy), default=0.0)
        oldest = f"{max(event.again):.2f}" if event.again else "-"
        back = f"{min(come):.1f}" if come else "-"
        print(
            f"{event.kind:<9}{event.who:<8}{event.at - asked[0].came:>6.0f}{len(event.partitions):>11}{event.since:>9}"
            f"{len(event.again):>6}{oldest:>7}{back:>6}{idle:>6.1f}"
        )


def longest_rest(requests: Sequence[Asked], begin: float) -> float:
    """How long a host was not asked, at the longest, in the minute from then on; 0 if its pages end before."""
    if requests[-1].came < begin + WATCHED:
        return 0.0
    rests = [(before.answered, after.came) for before, after in pairwise(requests)]
    return max(after - before for before, after in rests if after > begin and before < begin + WATCHED)


if __name__ == "__main__":
    main(sys.argv[1:])
