"""One crawl of several members under random faults, from a single seed: members that are killed, stopped, started and
cut off; a carrier that loses all, a part or what it acknowledged last, and that is slow."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from crawler.cluster.member_options import no_seeds
from crawler.engine.lifecycle import Stop
from crawler.fetch.simulated import Answer
from tests.chance import CHANCE
from tests.cluster.members import SETTINGS, Crawling, Working, with_delay

FAULTS = 120.0  # seconds with faults; then none come any more
AGAIN = 120.0  # seconds until members on machines of their own are started again, as long as not all have ended
PATIENCE = 3_000.0  # seconds until a crawl must have ended


@dataclass
class Outcome:
    """What came of it."""

    missing: set[str]
    twice: list[str]
    asked: int
    in_flight: int  # requests whose members were killed
    shortest_gap: float
    seconds: float


def chains(chance: random.Random, count: int) -> dict[str, Answer]:
    """So many chains across hosts, and a few links besides. The first pages are the begins of the chains."""
    hosts = chance.randint(2, 14)
    hrefs = [f"http://h{number % hosts}.test/{number // hosts}" for number in range(count * chance.randint(5, 30))]
    pages: dict[str, Answer] = {}
    for number, href in enumerate(hrefs):
        links = hrefs[number + count : number + count + 1] + ([chance.choice(hrefs)] if chance.random() < 0.1 else [])
        pages[href] = "".join(f'<a href="{link}">x</a>' for link in links)
    return pages


class Ordeal:
    """The faults of one crawl."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.chance = random.Random(seed)
        CHANCE.seed(seed)
        count = self.chance.randint(1, 8)
        pages = chains(self.chance, count)
        settings = with_delay(SETTINGS, self.chance.choice([0.5, 3.0]))
        durability = replace(settings.durability, sync_interval=self.chance.choice([1.0, 5.0]))
        partitions, seeds = self.chance.choice([2, 4, 8]), tuple(pages)[:count]
        self.crawling = Crawling(directory, pages, partitions, seeds, replace(settings, durability=durability))
        self.crawling.latency = self.chance.choice([0.0, 0.01, 0.4])
        self.has_machines = seed % 3 == 2  # of its own for each member; then no other one can take its partitions

    def run(self) -> Outcome:
        """Live through it."""
        seconds = self.crawling.live(self._live)
        recorded = self.crawling.recorded()
        return Outcome(
            set(self.crawling.pages) - set(recorded),
            [url for url, count in recorded.items() if count > 1],
            len(self.crawling.asked),
            sum(not asked.end for asked in self.crawling.asked),
            self.crawling.shortest_gap() / self.crawling.settings.politeness.delay,
            seconds,
        )

    async def _live(self, crawling: Crawling) -> float:
        chance, began = self.chance, crawling.clock()
        members = [self._begin(number, f"m{number}", chance.choice([1, 3])) for number in range(3)]
        while crawling.clock() < began + FAULTS and any(not each.task.done() for each in members):
            await asyncio.sleep(chance.expovariate(0.3))
            at = chance.randrange(3)
            faults = [self._kill, self._lose_power, self._stop, self._cut, self._forget, self._restart]
            await chance.choice(faults)(members, at)
        again = crawling.clock() + AGAIN
        async with asyncio.timeout(PATIENCE):
            while True:
                # Who was away when the others saw the end waits for their partitions, if the carrier has forgotten it.
                misses_others = self.has_machines and crawling.clock() > again
                again += AGAIN * misses_others
                for at, each in enumerate(members):
                    each.line.is_cut = False
                    if each.task.done():
                        each.task.result()
                        if each.member.reason is not Stop.FINISHED or misses_others:
                            members[at] = self._begin(at, f"m{at}")
                if all(each.task.done() for each in members):
                    return crawling.clock() - began
                await asyncio.sleep(1.0)

    def _begin(self, at: int, name: str | None, expected: int = 1) -> Working:
        home, seeds = (f"machine{at}", None if at == 0 else no_seeds) if self.has_machines else ("", None)
        return self.crawling.begin(name, expected=expected, home=home, seeds=seeds)

    async def _kill(self, members: list[Working], at: int) -> None:
        if not members[at].task.done():
            await members[at].kill()
            members[at] = self._begin(at, self.chance.choice([f"m{at}", None]))

    async def _lose_power(self, members: list[Working], at: int) -> None:
        if not members[at].task.done():
            await self.crawling.lose_power(members[at], self.chance)
            if self.chance.random() < 0.5:
                self.crawling.holdings.forget()  # or the stream would still have what a receiver lost
            members[at] = self._begin(at, self.chance.choice([f"m{at}", None]))

    async def _stop(self, members: list[Working], at: int) -> None:
        if not members[at].task.done():
            members[at].line.is_cut = False
            await members[at].stop()

    async def _restart(self, members: list[Working], at: int) -> None:
        if members[at].task.done():
            members[at] = self._begin(at, f"m{at}")

    async def _cut(self, members: list[Working], at: int) -> None:
        members[at].line.is_cut = not members[at].line.is_cut

    async def _forget(self, members: list[Working], at: int) -> None:
        holdings, chance = self.crawling.holdings, self.chance
        which = chance.random()
        names = [f"p{number}" for number in range(self.crawling.partitions)]
        if which < 0.4:
            holdings.forget()
        elif which < 0.7:
            holdings.forget(chance.sample([*names, "crawl", "w0", "w1"], 2))
        else:
            holdings.forget_end(chance.choice(names), chance.randint(1, 3))


def ordeal(seed: int, directory: Path) -> Outcome:
    """The outcome of that seed."""
    return Ordeal(seed, directory).run()


def check(outcome: Outcome) -> list[str]:
    """What is wrong with an outcome."""
    wrong: list[str] = []
    if outcome.missing:
        wrong.append(f"missing: {sorted(outcome.missing)[:3]} of {len(outcome.missing)}")
    if outcome.twice:
        wrong.append(f"twice: {outcome.twice[:3]}")
    if outcome.shortest_gap < 0.999:
        wrong.append(f"gap: {outcome.shortest_gap:.3f} of the delay")
    return wrong
