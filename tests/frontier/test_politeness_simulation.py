"""Nobody is hurt: a crawl of many hosts on a virtual clock, with everything that servers do."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Done, Lease, Retry, RobotsKnown
from tests.examples import TIMES
from tests.frontier.hosts import throttled
from tests.memory_store import MemoryStore

START = 1_700_000_000.0


@dataclass
class Web:
    """Servers with a temper each: latency, 429s, failures, a Crawl-delay; and a protocol of who asked when."""

    chance: random.Random
    per_host: int
    delay: float
    in_flight: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    free_at: dict[str, float] = field(default_factory=dict)
    gaps: dict[str, float] = field(default_factory=dict)
    asked: int = 0

    def ask(self, lease: Lease, now: float) -> float:
        """Check the rules of politeness; returns when the answer comes."""
        host = lease.host.name
        assert self.in_flight[host] < self.per_host, f"{host}: more requests at once than lease slots"
        assert now >= self.free_at.get(host, 0.0) - 1e-6, f"{host}: asked {self.free_at[host] - now} s too early"
        self.in_flight[host] += 1
        self.hold(host, now + self.gap(host))
        return now + self.chance.expovariate(1 / 0.2)

    def answered(self, lease: Lease, now: float) -> None:
        host = lease.host.name
        self.in_flight[host] -= 1
        self.hold(host, now + self.gap(host))

    def gap(self, host: str) -> float:
        return self.gaps.get(host, self.delay)

    def hold(self, host: str, until: float) -> None:
        self.free_at[host] = max(self.free_at.get(host, 0.0), until)


@given(
    seed=st.integers(0, 2**32),
    hosts=st.integers(1, 12),
    pages=st.integers(1, 25),
    per_host=st.integers(1, 3),
    delay=st.sampled_from([0.0, 0.5, 2.0]),
    slots=st.integers(1, 8),
)
@settings(max_examples=19 * TIMES)
def test_no_gap_is_cut_short_no_slot_is_idle_and_every_url_is_finished_once(
    seed: int, hosts: int, pages: int, per_host: int, delay: float, slots: int
) -> None:
    chance = random.Random(seed)
    web = Web(chance, per_host, delay)
    store = MemoryStore()
    frontier = Frontier(store, PolitenessSettings(delay=delay, per_host=per_host, backoff_first=3.0, backoff_max=20.0))
    batch = store.batch()
    wanted = {f"http://h{h}.test/{p}" for h in range(hosts) for p in range(pages)}
    frontier.admit([Entry(href, 0) for href in sorted(wanted, key=lambda _: chance.random())], batch)
    store.write(batch)

    now, finished = START, []
    answers: list[tuple[float, int, Lease]] = []
    while frontier.queued or answers:
        while len(answers) < slots and (lease := frontier.take(now)) is not None:
            web.asked += 1
            heapq.heappush(answers, (web.ask(lease, now), web.asked, lease))
        ready = frontier.next_ready()
        if len(answers) < slots and ready is not None:
            assert ready > now, "a host is ready and a slot is free: the frontier must give it"
        times = [answers[0][0]] if answers else []
        if ready is not None and len(answers) < slots:
            times.append(ready)
        assert times, "URLs are left and nothing will ever happen"
        now = min(times)
        while answers and answers[0][0] <= now:
            _, _, lease = heapq.heappop(answers)
            batch = store.batch()
            _answer(web, frontier, lease, now, batch, finished, chance)
            store.write(batch)
    assert sorted(finished) == sorted(wanted)


def _answer(web, frontier, lease, now, batch, finished, chance) -> None:  # type: ignore[no-untyped-def]
    host = lease.host.name
    web.answered(lease, now)
    if lease.entry is None:
        web.gaps[host] = max(web.delay, delay := chance.choice([0.0, 1.0, 4.0]))
        web.hold(host, now + web.gap(host))
        frontier.finish(lease, RobotsKnown(now + 30.0, delay or None), now, batch)
        return
    fate = chance.random()
    if fate < 0.1:
        wait = chance.choice([None, 0.0, 2.0])
        frontier.finish(lease, throttled(lease.entry._replace(throttled=1), wait), now, batch)
        web.hold(host, now + (3.0 if wait is None else wait))
    elif fate < 0.2 and lease.entry.tries < 3:
        frontier.finish(lease, Retry(lease.entry._replace(tries=lease.entry.tries + 1), 5.0), now, batch)
    else:
        finished.append(lease.entry.href)
        frontier.finish(lease, Done(failed=fate > 0.9), now, batch)
