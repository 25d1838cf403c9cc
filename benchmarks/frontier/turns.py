"""Does every host get its turn? Crawls on a virtual clock, in which each case is one that starved hosts before.

    python benchmarks/frontier/turns.py [--requests 100000] [CASE ...]

    livelock    1,000 hosts, 30 requests a second, and a robots.txt that may be used for 15 s: a lap takes longer
    many        50,000 hosts, 200 requests a second: how many of the requests are for robots.txt
    restarts    600 hosts, five runs of 12 s: who is asked, and who never
    dead        20 hosts that answer in 0.2 s, beside 300 that do not answer within 10 s; 32 slots
    slow        50 hosts that answer in 0.2 s, beside 100 that take 9 s; 32 slots

Each request is checked: no gap is cut short, no host is asked twice at once. ``unasked`` is the longest time that any
host stood ready, in laps; a lap is the time in which all hosts have a session.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier import host_session
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Done, Lease, Retry, RobotsKnown, RobotsLater
from crawler.frontier.limits import Limits
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from tests.memory_store import MemoryStore

START = 1_700_000_000.0
GAP = 1.0
QUICK, SLOW, DEAD = 0.2, 9.0, 10.0


@dataclass
class Crawl:
    """Hosts by name with the seconds that each takes, slots, and what the hosts were asked."""

    hosts: dict[str, float]
    slots: int
    ttl: float = 86_400.0
    pages: int = 10  # of a session
    store: MemoryStore = field(default_factory=MemoryStore)
    now: float = START
    asked: Counter[str] = field(default_factory=Counter)  # pages, by host
    robots: Counter[str] = field(default_factory=Counter)
    answered_at: dict[str, float] = field(default_factory=dict)
    unasked: float = 0.0  # seconds
    broken: int = 0
    number: int = 0

    def admit(self, names: list[str], pages: int) -> None:
        frontier = self.open()
        for name in names:
            batch = self.store.batch()
            frontier.admit([Entry(f"http://{name}/{page}", 1) for page in range(pages)], batch)
            self.store.write(batch)
            frontier.written()
        self.number = frontier.next_number

    def open(self) -> Frontier:
        settings = PolitenessSettings(delay=GAP)
        host_session.PAGES = self.pages
        frontier = Frontier(self.store, settings, Limits(slow_slots=max(1, self.slots // 4), slots=self.slots))
        frontier.load(self.now, next_number=self.number)
        return frontier

    def run(self, seconds: float, requests: int) -> None:
        """Go on for so many seconds or requests."""
        frontier, until, flying = self.open(), self.now + seconds, list[tuple[float, int, Lease]]()
        begun, busy, made = self.now, set[str](), 0
        while self.now < until and made < requests:
            while len(flying) < self.slots and (lease := frontier.take(self.now)) is not None:
                name = lease.host.name
                made += 1
                self.broken += name in busy or self.now < self.answered_at.get(name, 0.0) + GAP - 1e-6
                busy.add(name)
                ready = max(self.answered_at.get(name, 0.0), begun) + GAP
                self.unasked = max(self.unasked, self.now - ready)
                (self.robots if lease.entry is None else self.asked)[name] += 1
                heapq.heappush(flying, (self.now + self.hosts[name], made, lease))
            times = [flying[0][0]] if flying else []
            ready_at = frontier.next_ready() if len(flying) < self.slots else None
            self.now = max(self.now, min([*times, *([] if ready_at is None else [ready_at])]))
            while flying and flying[0][0] <= self.now:
                lease = heapq.heappop(flying)[2]
                busy.discard(lease.host.name)
                self.answered_at[lease.host.name] = self.now
                batch = self.store.batch()
                frontier.finish(lease, self.end(lease), self.now, batch)
                self.store.write(batch)
                frontier.written()
        self.number = frontier.next_number

    def end(self, lease: Lease) -> Done | Retry | RobotsKnown | RobotsLater:
        seconds = self.hosts[lease.host.name]
        failed = FailureClass.TIMEOUT if seconds == DEAD else None
        outcome = RequestOutcome(seconds, 1_000, failed)
        if lease.entry is None:
            return RobotsLater(5.0, outcome) if failed else RobotsKnown(self.now + self.ttl, None, outcome)
        return Retry(lease.entry._replace(tries=1), 5.0, outcome) if failed else Done(outcome)


def named(kind: str, count: int) -> list[str]:
    return [f"{kind}{number}.test:80" for number in range(count)]


def livelock(requests: int) -> Crawl:
    crawl = Crawl(dict.fromkeys(named("h", 1_000), QUICK), 6, ttl=15.0)
    crawl.admit([name[:-3] for name in crawl.hosts], 2 * requests // 1_000)
    crawl.run(1e9, requests)
    report("livelock", crawl, crawl.pages * 1_000 / 30)
    return crawl


def many(requests: int) -> Crawl:
    crawl = Crawl(dict.fromkeys(named("h", 50_000), QUICK), 40)
    crawl.admit([name[:-3] for name in crawl.hosts], 12)
    crawl.run(1e9, requests)
    report("many", crawl, 11 * 50_000 / 200)
    return crawl


def restarts(requests: int) -> Crawl:
    crawl = Crawl(dict.fromkeys(named("h", 600), QUICK), 6)
    crawl.admit([name[:-3] for name in crawl.hosts], 40)
    seen = set[str]()
    for _ in range(5):
        before = Counter(crawl.asked + crawl.robots)
        crawl.run(12.0, requests)
        run = {name for name in crawl.hosts if (crawl.asked + crawl.robots)[name] > before[name]}
        print(f"    a run asks {len(run)} hosts, {len(run & seen)} of them asked in an earlier run")
        seen |= run
    report("restarts", crawl, 11 * 600 / 30)
    return crawl


def beside(name: str, count: int, others: int, seconds: float, requests: int) -> Crawl:
    quick = named("h", count)
    crawl = Crawl({**dict.fromkeys(quick, QUICK), **dict.fromkeys(named("o", others), seconds)}, 32)
    crawl.admit([each[:-3] for each in quick], 2 * requests // count)
    crawl.run(5.0, requests)
    crawl.admit([each[:-3] for each in named("o", others)], 500)
    began, before = crawl.now, sum(crawl.asked[each] for each in quick)
    crawl.run(80.0, requests)
    done = sum(crawl.asked[each] for each in quick) - before
    ideal = count * (crawl.now - began - GAP) / (QUICK + GAP)
    print(f"    the quick hosts gave {done:,} pages in 80 s, {done / ideal:.3f} of what they can")
    report(name, crawl, None)
    return crawl


def report(name: str, crawl: Crawl, lap: float | None) -> None:
    pages, robots = sum(crawl.asked.values()), sum(crawl.robots.values())
    never = sum(name not in crawl.robots for name in crawl.hosts)
    laps = "" if lap is None else f", unasked {crawl.unasked / lap:.2f} laps of {lap:,.0f} s"
    print(
        f"{name:<10} {pages + robots:,} requests, {robots:,} for robots.txt, at most {max(crawl.robots.values())} to a"
        f" host; {never:,} of {len(crawl.hosts):,} hosts never asked{laps}; {crawl.broken} gaps or overlaps",
        flush=True,
    )


CASES = {
    "livelock": livelock,
    "many": many,
    "restarts": restarts,
    "dead": lambda requests: beside("dead", 20, 300, DEAD, requests),
    "slow": lambda requests: beside("slow", 50, 100, SLOW, requests),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--requests", type=int, default=100_000, help="of a case (100000)")
    args = parser.parse_args()
    for line in describe_machine():
        print(line)
    began = time.process_time()
    broken = sum(CASES[name](args.requests).broken for name in args.cases or CASES)
    print(f"CPU {time.process_time() - began:.0f} s")
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
