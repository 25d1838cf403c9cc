"""Machines that share a crawl through a store, in virtual time: some join, leave, burn, fall asleep, are cut off."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.engine.lifecycle import Stop
from crawler.job.bucket.layout import is_at_work
from tests.cluster.members import Bucket, Crawling, Door, Line, Working, chain, with_delay

PARTITIONS = 4


def crawling(directory: Path, hosts: int = 8, each: int = 16) -> Crawling:
    pages = chain(hosts, each)
    return Crawling(directory, pages, PARTITIONS, (next(iter(pages)),), bucket=Bucket())


async def until(happens: Callable[[], bool], seconds: float = 300.0) -> None:
    async with asyncio.timeout(seconds):
        while not happens():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.05)


async def to_the_end(*members: Working) -> None:
    assert {(await each.task).reason for each in members} == {Stop.FINISHED}


async def both(crawl: Crawling) -> tuple[Working, Working]:
    """Two machines that share the partitions."""
    members = crawl.begin("a", expected=2, home="a"), crawl.begin("b", expected=2, home="b")
    await until(lambda: all(len(each.member.runs) == PARTITIONS // 2 for each in members))
    return members


def longest_rest(crawl: Crawling, since: float) -> float:
    """The longest time between two requests, of which one leads to the other."""
    begins = sorted(each.begin for each in crawl.asked if each.begin > since)
    return max(after - before for before, after in itertools.pairwise(begins))


def check(crawl: Crawling, again: int = 0) -> None:
    """Each page is recorded once, at most so many were asked for again, and no host was asked too early."""
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert len(crawl.asked) <= len(crawl.pages) + again
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay


def test_a_machine_that_joins_gets_its_share_and_one_that_leaves_is_not_needed(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(first.member.runs) == PARTITIONS and len(crawl.asked) > 20)
        joined = crawl.clock()
        second = crawl.begin("b", home="b")
        await until(lambda: len(second.member.runs) == PARTITIONS // 2)
        await until(lambda: len(crawl.asked) > 60)
        result = await first.stop()
        assert not result.unstored
        shutil.rmtree(tmp_path / "a")
        await until(lambda: len(crawl.asked) > 80)
        assert longest_rest(crawl, joined) < 6.0 + crawl.settings.politeness.delay
        assert second.taken_over == 0
        await to_the_end(second)

    crawl.live(test)
    check(crawl)


@pytest.mark.parametrize("burns", ["one", "both", "both, and what carries links forgets everything"])
def test_machines_burn(tmp_path: Path, burns: str) -> None:
    crawl = crawling(tmp_path, each=12)

    async def test(crawl: Crawling) -> None:
        a, b = await both(crawl)
        for number in range(3):
            await asyncio.sleep(9.7)
            await a.kill()
            shutil.rmtree(tmp_path / a.crawl.directory.name)
            if burns != "one":
                await b.kill()
                shutil.rmtree(tmp_path / b.crawl.directory.name)
                if burns != "both":
                    crawl.holdings.forget()
                b = crawl.begin(f"b{number}", home=f"b{number}")
            a = crawl.begin(f"a{number}", home=f"a{number}")
        await to_the_end(a, b)

    crawl.live(test)
    check(crawl, again=12)


def test_a_machine_that_sleeps_while_another_takes_over_does_nothing_when_it_wakes(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = await both(crawl)
        await until(lambda: len(crawl.asked) > 20)
        b.line.is_cut = True  # no claim is renewed; what it had is taken
        await until(lambda: len(a.member.runs) == PARTITIONS)
        b.line.is_cut = False
        await until(lambda: b.taken_over == 1)
        assert not list((tmp_path / "b").glob("partitions/*/lock-held"))
        await to_the_end(a, b)

    crawl.live(test)
    check(crawl, again=6)


def test_a_machine_that_wakes_when_its_successor_has_left_asks_nothing_for_what_it_had(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)
    crawl.seeds = tuple(crawl.pages)[::16]

    async def test(crawl: Crawling) -> None:
        a, b = await both(crawl)
        assert b.door is not None
        await until(lambda: len(crawl.asked) > 20)
        b.line.is_cut = True  # no claim is renewed; what it had is taken
        await asyncio.sleep(7.0)
        b.door.is_away, b.door.latency = True, 5.0  # it learns late that its log is closed
        await until(lambda: len(a.member.runs) == PARTITIONS)
        await asyncio.sleep(5.0)
        await a.stop()
        b.line.is_cut = b.door.is_away = False
        await to_the_end(b)

    crawl.live(test)
    check(crawl)


def test_a_machine_that_was_cut_off_before_its_first_request_asks_nothing_for_what_another_has_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawling(tmp_path)
    crawl.seeds = tuple(crawl.pages)[::16]
    latencies = iter((0.0, 0.3))
    monkeypatch.setattr(crawl, "line", lambda: Line(crawl.carrier, next(latencies)))

    async def test(crawl: Crawling) -> None:
        a = crawl.begin("a", home="a")
        await until(lambda: len(crawl.asked) > 20)
        b = crawl.begin("b", home="b")
        await until(lambda: len(b.member.runs) > 0)
        b.line.is_cut = True  # it owns the partition, and cannot say so
        await until(lambda: len(a.member.runs) == PARTITIONS)
        await asyncio.sleep(5.0)
        await a.stop()
        b.line.is_cut = False
        await to_the_end(b)

    crawl.live(test)
    check(crawl)


def test_a_crawl_that_waits_for_its_hosts_is_at_work_until_its_machine_burns(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=2)
    crawl.settings = with_delay(crawl.settings, 200.0)

    async def test(crawl: Crawling) -> None:
        a = crawl.begin("a", home="a")
        await until(lambda: len(crawl.asked) == 2)
        assert a.door is not None
        owned, now = list(a.member.runs), asyncio.get_running_loop().time
        for _ in range(15):
            await asyncio.sleep(10.0)
            assert all(is_at_work(a.door, number, now()) for number in owned)
        assert len(list(a.door.list("alive/"))) == 1
        await a.kill()
        await asyncio.sleep(31.0)
        assert not any(is_at_work(Door(a.door.bucket), number, now()) for number in owned)

    crawl.live(test)


def test_a_store_that_is_away_for_a_minute_costs_nothing(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = await both(crawl)
        await until(lambda: len(crawl.asked) > 20)
        for each in (a, b):
            assert each.door is not None
            each.door.is_away = True
        known = len(crawl.asked)
        await asyncio.sleep(60.0)
        assert len(crawl.asked) > known
        for each in (a, b):
            assert each.door is not None
            each.door.is_away = False
            each.door.answers = itertools.cycle([True, False])
        await to_the_end(a, b)
        assert a.taken_over == b.taken_over == 0

    crawl.live(test)
    check(crawl)


def test_a_partition_that_moves_while_the_store_is_away_moves_with_its_last_steps(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(first.member.runs) == PARTITIONS and len(crawl.asked) > 20)
        assert first.door is not None
        first.door.is_away = True
        await until(lambda: len(crawl.asked) > 40)
        second = crawl.begin("b", home="b")
        await until(lambda: len(first.member.runs) == PARTITIONS // 2)
        await asyncio.sleep(30.0)
        first.door.is_away = False
        await until(lambda: len(second.member.runs) == PARTITIONS // 2)
        assert first.taken_over == second.taken_over == 0
        await to_the_end(first, second)

    crawl.live(test)
    check(crawl)


def test_a_machine_that_burns_before_its_first_step_is_stored_leaves_the_gaps_to_the_next(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=4)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: bool(crawl.asked))
        assert not any(key.startswith("log/") for key in first.door.bucket.held)  # type: ignore[union-attr]
        await first.kill()
        shutil.rmtree(tmp_path / "a")
        await to_the_end(crawl.begin("a", home="b"))

    crawl.live(test)
    check(crawl, again=1)


def test_a_claim_that_was_forgotten_when_a_machine_joins_holds_until_its_owner_knows(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(crawl.asked) > 20)
        crawl.holdings.forget()
        await to_the_end(first, crawl.begin("b", home="b"))
        assert first.taken_over == 0

    crawl.live(test)
    check(crawl, again=4)


def test_a_partition_whose_log_was_removed_is_tried_less_and_less_often(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)
    assert crawl.bucket is not None
    held = crawl.bucket.held

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(crawl.asked) > 20)
        await first.kill()
        shutil.rmtree(tmp_path / "a")
        for key in sorted(key for key in held if key.startswith("log/"))[:-1]:
            del held[key]
        second = crawl.begin("b", home="b")
        await asyncio.sleep(120.0)
        owners = [key for key in held if key.startswith("owner/") and not key.endswith("-released")]
        assert 2 * PARTITIONS <= len(owners) <= 10 * PARTITIONS
        await second.stop()

    crawl.live(test)
