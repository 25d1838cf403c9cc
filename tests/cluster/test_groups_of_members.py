"""Hosts that share a gap and are in several partitions: members in virtual time, judged by when servers are asked."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
from msgspec.structs import replace

from crawler.base.settings import Settings, SitesSettings, SiteTable
from crawler.cluster.turn_desk import PartitionTurns, Times
from crawler.engine.lifecycle import Stop
from crawler.job.partition.group_turns import Lessor
from crawler.job.partition.placement import Placement
from crawler.web.fetch import SimulatedWeb
from crawler.web.fetch.simulated import page
from tests.cluster.members import SECRET, SETTINGS, Crawling, Line
from tests.cluster.test_members import assert_complete, to_the_end, until_asked
from tests.cluster.test_replicas import until
from tests.laboratory import Asked

HOSTS = [f"h{number}.test" for number in range(40)]


@dataclass
class OnFewAddresses(Crawling):
    """A crawl whose hosts are on a few addresses, in turn."""

    addresses: int = 2

    def address(self, host: str) -> str:
        return f"10.0.0.{int(host[1:].partition('.')[0]) % self.addresses}"

    def web(self, line: Line) -> SimulatedWeb:
        async def before(href: str) -> None:
            asked = Asked(href, self.clock())
            self.asked.append(asked)
            await asyncio.sleep(self.seconds)
            asked.end = self.clock()

        return SimulatedWeb(self.pages, before, {host: self.address(host) for host in HOSTS}, self.dial)

    def shortest_in_a_group(self, group: object = None) -> float:
        """The shortest time from the end of a request to an address to the begin of the next one. With another
        ``group`` all hosts are one."""
        gaps = list[float]()
        for address in {self.address(host) for host in HOSTS}:
            asked = [each for each in self.asked if group or self.address(each.href.split("/")[2]) == address]
            asked.sort(key=lambda each: each.begin)
            gaps += [later.begin - (earlier.end or earlier.begin) for earlier, later in pairwise(asked)]
        return min(gaps)

    def used(self) -> float:
        """The gaps and answers together, of the time from the first request to an address to the last one, on
        average."""
        parts = list[float]()
        for address in {self.address(host) for host in HOSTS}:
            asked = [each for each in self.asked if self.address(each.href.split("/")[2]) == address]
            begins = [each.begin for each in asked]
            needed = (len(asked) - 1) * (self.settings.politeness.delay + self.seconds)
            parts.append(needed / (max(begins) - min(begins)))
        return mean(parts)


def pages_of(each: int) -> dict[str, str]:
    return {f"http://{host}/{number}": "<p>text" for host in HOSTS for number in range(each)}


def with_key(host_key: str) -> Settings:
    return replace(SETTINGS, politeness=replace(SETTINGS.politeness, host_key=host_key))


def crawling_in(directory: Path, settings: Settings, each: int = 3, addresses: int = 2) -> OnFewAddresses:
    pages = pages_of(each)
    return OnFewAddresses(directory, pages, seeds=tuple(pages), settings=settings, addresses=addresses)


def test_hosts_of_one_address_are_asked_one_after_the_other(tmp_path: Path) -> None:
    crawling = crawling_in(tmp_path, with_key("address"))
    crawling.latency = 0.05

    async def test(crawling: Crawling) -> list[Stop]:
        working = [crawling.begin(f"m{number}", expected=3) for number in range(3)]
        await until_asked(crawling, 60)
        await working[2].kill()
        working[2] = crawling.begin("m2")
        return await to_the_end(*working)

    assert crawling.live(test) == [Stop.FINISHED] * 3
    assert_complete(crawling)
    assert crawling.shortest_in_a_group() >= crawling.settings.politeness.delay - 1e-3
    assert crawling.used() >= 0.9, "a member that is killed takes its turn along for seconds, and the crawl is short"


def test_the_gap_of_an_address_holds_in_all_partitions(tmp_path: Path) -> None:
    politeness = replace(SETTINGS.politeness, delay=0.0, address_delay=1.0)
    crawling = crawling_in(tmp_path, replace(SETTINGS, politeness=politeness), each=2)
    crawling.connects = itertools.cycle([1.7, 0.0, 0.4, 0.0, 2.6, 0.0, 0.0])

    async def test(crawling: Crawling) -> list[Stop]:
        return await to_the_end(*(crawling.begin(f"m{number}", expected=2) for number in range(2)))

    assert crawling.live(test) == [Stop.FINISHED] * 2
    assert crawling.recorded() == dict.fromkeys(crawling.pages, 1)
    assert crawling.shortest_in_a_group() >= 1.0 - 1e-3


@pytest.mark.parametrize("key", ["address", "named", "both"])
def test_hosts_that_need_two_turns_get_both(tmp_path: Path, key: str) -> None:
    """That of their key, and that of their address: each partition may have one of them and wait for the other."""
    politeness = replace(SETTINGS.politeness, address_delay=0.4, host_key="host" if key == "named" else "address")
    settings = replace(SETTINGS, politeness=politeness)
    if key != "address":
        tables = [SiteTable(match=host, group=f"g{number % 3}") for number, host in enumerate(HOSTS)]
        settings = replace(settings, site=SitesSettings(tuple(tables)))
    crawling = crawling_in(tmp_path, settings, addresses=2 if key == "named" else 1)
    crawling.latency = 0.01

    async def test(crawling: Crawling) -> list[Stop]:
        async with asyncio.timeout(600.0):  # one gap after the other would take 144 seconds
            return await to_the_end(*(crawling.begin(f"m{number}", expected=2) for number in range(2)))

    assert crawling.live(test) == [Stop.FINISHED] * 2
    assert_complete(crawling)
    assert crawling.shortest_in_a_group() >= 0.4 - 1e-3
    if key == "address":
        assert crawling.shortest_in_a_group() >= 1.0 - 1e-3
        assert crawling.used() >= 0.8


def test_hosts_that_name_one_group_share_a_gap_in_all_partitions(tmp_path: Path) -> None:
    named = SitesSettings((SiteTable(match="*.test", group="library"),))
    crawling = crawling_in(tmp_path, replace(SETTINGS, site=named), each=1)

    async def test(crawling: Crawling) -> list[Stop]:
        return await to_the_end(*(crawling.begin(f"m{number}", expected=2) for number in range(2)))

    assert crawling.live(test) == [Stop.FINISHED] * 2
    assert_complete(crawling)
    assert crawling.shortest_in_a_group("library") >= 1.0 - 1e-3


def test_what_an_address_asks_for_holds_all_partitions(tmp_path: Path) -> None:
    crawling = crawling_in(tmp_path, with_key("address"), each=1, addresses=1)
    answers = iter([replace(page("", status=429), retry_after="30")])
    crawling.pages = {**crawling.pages, "http://h7.test/0": lambda _: next(answers, page("<p>text"))}

    async def test(crawling: Crawling) -> list[Stop]:
        return await to_the_end(*(crawling.begin(f"m{number}", expected=2) for number in range(2)))

    assert crawling.live(test) == [Stop.FINISHED] * 2
    asked = sorted(crawling.asked, key=lambda each: each.begin)
    refused = next(number for number, each in enumerate(asked) if "//h7." in each.href)
    assert asked[refused + 1].begin >= asked[refused].begin + 30.0
    assert crawling.shortest_in_a_group() >= 1.0 - 1e-3


def test_the_gap_holds_while_members_are_killed_and_handed_over(tmp_path: Path) -> None:
    crawling = crawling_in(tmp_path, with_key("address"), each=2)
    crawling.latency, chance = 0.05, random.Random(1)

    async def test(crawling: Crawling) -> list[Stop]:
        names = [f"m{number}" for number in range(3)]
        working = {name: crawling.begin(name, expected=3) for name in names}
        for number in range(6):
            await until_asked(crawling, 8 + 10 * number)
            await asyncio.sleep(chance.uniform(0.0, 1.0))
            name = chance.choice(names)
            if working[name].task.done():
                break
            await (working[name].stop() if number % 3 == 2 else working[name].kill())
            working[name] = crawling.begin(name if chance.random() < 0.7 else None)
        return await to_the_end(*working.values())

    assert crawling.live(test) == [Stop.FINISHED] * 3
    assert crawling.recorded() == dict.fromkeys(crawling.pages, 1)
    begins: dict[str, list[float]] = {}
    for each in sorted(crawling.asked, key=lambda each: each.begin):
        begins.setdefault(crawling.address(each.href.split("/")[2]), []).append(each.begin)
    shortest = min(later - earlier for each in begins.values() for earlier, later in pairwise(each))
    assert shortest >= crawling.settings.politeness.delay - 1e-3


def test_the_gap_holds_when_the_owner_of_the_group_burns_with_its_disk(tmp_path: Path) -> None:
    crawling = crawling_in(tmp_path, with_key("address"), each=1, addresses=1)
    crawling.latency, crawling.replicas, crawling.partitions = 0.05, 1, 4
    owner = Placement(SECRET, crawling.partitions).of_group("k10.0.0.0")

    async def test(crawling: Crawling) -> None:
        members = [crawling.begin(name, expected=2, home=name) for name in "ab"]

        def is_safe() -> bool:
            lags = [lag for each in members for lag in each.member.replicas]
            return len(lags) == crawling.partitions and all(lag.in_step for lag in lags)

        await until(is_safe)
        await until_asked(crawling, 15)
        burns = members.pop(next(at for at, each in enumerate(members) if owner in each.member.runs))
        await burns.kill()
        shutil.rmtree(tmp_path / str(burns.member.name))
        assert len(crawling.asked) < len(HOSTS), "there is something left to be asked"
        assert await to_the_end(*members) == [Stop.FINISHED]

    crawling.live(test)
    assert crawling.recorded() == dict.fromkeys(crawling.pages, 1)
    assert len(crawling.asked) <= len(HOSTS) + 1, "of one address, one request was under way"
    assert crawling.shortest_in_a_group() >= 1.0 - 1e-3


class Frontier:
    """Of which one group may be asked at 100.0."""

    def is_group_kept(self, group: str) -> bool:
        return False

    def group_free_at(self, group: str) -> float:
        return 100.0

    def lent(self, group: str, now: float) -> None:
        pass


async def test_a_process_that_is_interrupted_between_two_clocks_tells_no_time_that_is_too_early() -> None:
    ticks = itertools.count()

    def clock() -> float:
        return 99.7 + 0.01 * next(ticks)  # each look takes a while

    owner = Lessor(1, 1, 0.0, "clock")
    times = Times(clock, clock, "clock")
    turns = PartitionTurns(Frontier(), Placement(b"x" * 16, 1), times, asyncio.Event())  # type: ignore[arg-type]
    assert turns.wait("kgroup", 0.1) is None
    turns.lessee.called(0, 1)
    ((_, question),) = turns.lessee.questions(1, clock())
    _, (_, answer) = owner.heard(0, question, clock())
    turns.lessee.heard(0, answer, clock())
    turns.began("kgroup")
    turns.ended("kgroup", more=False)
    turns.lessee.stop()
    ((_, question),) = turns.lessee.questions(1, clock())
    (back,) = question.back
    assert question.sent.at + back.wait >= 100.0
