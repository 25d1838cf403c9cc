"""What workers tell of their partitions at their end: each partition is told of by one of them, who has it last."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from crawler.cluster.member_options import MemberResult
from crawler.engine.lifecycle import Stop
from tests.cluster.members import Crawling
from tests.cluster.test_replicas import begin_both, crawling, in_step, until


def fetched(results: Sequence[MemberResult]) -> tuple[int, int]:
    """Pages fetched in all partitions that are told of, and by all processes."""
    in_them = sum(each.stats.get("pages_fetched", 0) for each in results)
    return in_them, sum(each.done["pages_fetched"] for each in results)


def test_what_moves_is_told_of_once(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=20)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(first.member.runs) == crawl.partitions)
        joined = crawl.clock()
        second = crawl.begin("b", home="b")
        await until(lambda: len(second.member.runs) >= crawl.partitions // 2 - 1)
        moved = sorted(second.member.runs)
        assert second.member.done()["pages_fetched"] <= sum(each.begin >= joined for each in crawl.asked)
        told = first.member.stats()["partitions"]
        assert [each["partition"] for each in told if each["state"] == "elsewhere"] == moved
        assert first.member.stats()["elapsed_seconds"] > second.member.stats()["elapsed_seconds"]
        results = [await first.task, await second.task]
        assert fetched(results) == (len(crawl.pages), len(crawl.pages))
        for number in moved:
            assert any(f"partition {number} " in line for line in first.said)
            assert any(f"partition {number} " in line for line in second.said)

    crawl.live(test)


def test_who_drains_has_nothing_and_tells_what_it_has_done(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        had = len(b.member.runs)
        b.member.drain()
        left = await b.task
        assert (left.reason, left.stats, left.had) == (Stop.INTERRUPTED, {}, had)
        assert left.done["pages_fetched"] > 0
        assert fetched([left, await a.task]) == (len(crawl.pages), len(crawl.pages))

    crawl.live(test)


def test_who_takes_over_tells_of_what_the_dead_one_fetched(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        in_all, by_itself = fetched([await a.task])
        assert in_all == len(crawl.pages) > by_itself

    crawl.live(test)


def test_of_two_processes_of_a_home_one_tells_of_a_partition(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="here")
        await until(lambda: len(first.member.runs) == crawl.partitions and len(crawl.asked) > 10)
        second = crawl.begin("b", home="here")
        await until(lambda: len(second.member.runs) == crawl.partitions // 2)
        await asyncio.sleep(5.0)
        assert fetched([await first.task, await second.task]) == (len(crawl.pages), len(crawl.pages))

    crawl.live(test)
