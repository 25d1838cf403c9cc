"""Crawls of several members in virtual time: what is found, what is asked, and when they end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import PartitionSettings
from crawler.cluster.member_options import no_seeds
from crawler.engine.lifecycle import Stop
from tests.cluster.members import SETTINGS, Crawling, Working, chain, with_delay

SEED = "http://h0.test/0"


async def to_the_end(*members: Working) -> list[Stop]:
    return [(await each.task).reason for each in members]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it, for two minutes of virtual time."""
    async with asyncio.timeout(120.0):
        while True:
            if condition():
                return
            await asyncio.sleep(0.1)


async def until_asked(crawling: Crawling, count: int) -> None:
    """Wait until so many requests have begun."""
    await until(lambda: len(crawling.asked) >= count)


def assert_complete(crawling: Crawling) -> None:
    """Each page is in the output once, and no host was asked too early."""
    assert crawling.recorded() == dict.fromkeys(crawling.pages, 1)
    assert crawling.shortest_gap() >= crawling.settings.politeness.delay


def test_a_member_that_is_started_again_has_its_partitions_at_once(tmp_path: Path) -> None:
    crawling = Crawling(tmp_path, chain(12, 3), seeds=(SEED,))

    async def test(crawling: Crawling) -> float:
        first, second = [crawling.begin(f"m{number}", expected=2) for number in range(2)]
        await until_asked(crawling, 7)
        had = set(first.member.runs)
        await first.kill()
        killed = crawling.clock()
        first = crawling.begin("m0")
        await until(lambda: set(first.member.runs) == had)
        took = crawling.clock() - killed
        assert await to_the_end(first, second) == [Stop.FINISHED] * 2
        return took

    assert crawling.live(test) < 2.0
    assert_complete(crawling)


def test_a_member_that_joins_late_gets_its_share_and_one_that_leaves_hands_over(tmp_path: Path) -> None:
    crawling = Crawling(tmp_path, chain(12, 6), seeds=(SEED,))

    async def test(crawling: Crawling) -> list[Stop]:
        first = crawling.begin("m0")
        await until_asked(crawling, 10)
        assert len(first.member.runs) == crawling.partitions
        second = crawling.begin("m1")
        await until(lambda: len(second.member.runs) == crawling.partitions // 2)
        assert len(first.member.runs) == crawling.partitions // 2
        assert not set(first.member.runs) & set(second.member.runs)
        await until_asked(crawling, 30)
        left = (await first.stop()).reason
        await until(lambda: len(second.member.runs) == crawling.partitions)
        return [left, *await to_the_end(second)]

    assert crawling.live(test) == [Stop.INTERRUPTED, Stop.FINISHED]
    assert_complete(crawling)
    assert len(crawling.asked) == len(crawling.pages)


def test_a_crawl_that_has_ended_goes_on_with_new_seeds(tmp_path: Path) -> None:
    web = {**chain(6), "http://new.test/": '<a href="http://other.test/">x</a>', "http://other.test/": "x"}
    crawling = Crawling(tmp_path, web, seeds=(SEED,))

    async def test(crawling: Crawling) -> list[Stop]:
        ended = await to_the_end(*[crawling.begin(f"m{number}", expected=2) for number in range(2)])
        crawling.seeds = (SEED, "http://new.test/")  # the same carrier still says that the crawl has ended
        return [*ended, *await to_the_end(*[crawling.begin(f"m{number}", expected=2) for number in range(2)])]

    assert crawling.live(test) == [Stop.FINISHED] * 4
    assert_complete(crawling)


def test_without_the_carrier_nothing_is_asked_from_half_a_claim_on_and_then_it_goes_on(tmp_path: Path) -> None:
    crawling = Crawling(tmp_path, chain(1, 60), seeds=(SEED,))
    cut = restored = 0.0

    async def test(crawling: Crawling) -> list[Stop]:
        nonlocal cut, restored
        member = crawling.begin()
        await until_asked(crawling, 5)
        cut, member.line.is_cut = crawling.clock(), True
        await asyncio.sleep(60.0)
        restored, member.line.is_cut = crawling.clock(), False
        reasons = await to_the_end(member)
        assert len([line for line in member.said if "answers again" in line]) == 1
        return reasons

    assert crawling.live(test) == [Stop.FINISHED]
    assert not [asked for asked in crawling.asked if cut + 5.0 <= asked.begin < restored]
    assert_complete(crawling)


@pytest.mark.parametrize("seed", range(2))
def test_losses_of_power_of_senders_and_receivers_lose_no_link(tmp_path: Path, seed: int) -> None:
    durability = replace(SETTINGS.durability, sync_interval=4.0)
    settings = replace(with_delay(SETTINGS, 0.2), durability=durability)
    crawling = Crawling(tmp_path, chain(12, 12), seeds=(SEED,), settings=settings)
    chance, lost = random.Random(seed), 0

    async def test(crawling: Crawling) -> None:
        nonlocal lost
        members = [crawling.begin(f"m{number}", expected=2) for number in range(2)]
        while any(not each.task.done() for each in members):
            await asyncio.sleep(chance.uniform(2.0, 6.0))
            at = chance.randrange(2)
            if lost < 20 and not members[at].task.done():
                lost += 1
                await crawling.lose_power(members[at], chance)
                crawling.holdings.forget()  # or the stream would still have what the receiver lost
                members[at] = crawling.begin(f"m{at}")
        await to_the_end(*members)

    crawling.live(test)
    assert_complete(crawling)
    assert lost >= 5


def test_a_member_without_seeds_begins_before_who_has_them_and_ends_nothing(tmp_path: Path) -> None:
    crawling = Crawling(tmp_path, chain(12, 4), seeds=(SEED,))

    async def test(crawling: Crawling) -> list[Stop]:
        early = crawling.begin("early", seeds=no_seeds)
        await asyncio.sleep(30.0)
        assert not early.task.done()
        return await to_the_end(early, crawling.begin("first"))

    assert crawling.live(test) == [Stop.FINISHED] * 2
    assert_complete(crawling)


def test_seeds_that_a_killed_member_has_not_read_keep_the_crawl_from_its_end(tmp_path: Path) -> None:
    pages = chain(12, 4)
    crawling = Crawling(tmp_path, {**pages, "http://h5.test/late": "the end"}, seeds=(SEED, "http://h5.test/late"))

    async def slow_seeds() -> AsyncIterator[list[str]]:
        yield [SEED]
        await asyncio.Event().wait()

    async def test(crawling: Crawling) -> list[Stop]:
        first, other = crawling.begin("first", seeds=slow_seeds), crawling.begin("other", seeds=no_seeds)
        await until_asked(crawling, 3)
        await first.kill()
        await until_asked(crawling, len(pages))
        await asyncio.sleep(60.0)
        assert not other.task.done()
        return await to_the_end(other, crawling.begin("first"))

    assert crawling.live(test) == [Stop.FINISHED] * 2
    assert_complete(crawling)


def test_a_new_crawl_waits_for_its_workers_and_each_gets_its_share(tmp_path: Path) -> None:
    """What begins in a directory stays there."""
    settings = replace(SETTINGS, partitions=PartitionSettings(workers=2))
    crawling = Crawling(tmp_path, chain(12), seeds=(SEED,), settings=settings)

    async def test(crawling: Crawling) -> tuple[int, list[str], list[int], list[Stop]]:
        first = crawling.begin("m0")
        await asyncio.sleep(30.0)
        alone, said = len(first.member.runs), list(first.said)
        second = crawling.begin("m1")
        await until_asked(crawling, 3)
        shares = [len(each.member.runs) for each in (first, second)]
        return alone, said, shares, await to_the_end(first, second)

    alone, said, shares, reasons = crawling.live(test)
    assert alone == 0
    assert said == ["waiting for workers: 1 of 2 has joined"]
    assert sorted(shares) == [4, 4]
    assert reasons == [Stop.FINISHED] * 2
    assert_complete(crawling)
