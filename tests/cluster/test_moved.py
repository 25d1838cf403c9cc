"""Partitions that move from home to home, in virtual time: because a home joins, or because one leaves."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from pathlib import Path

import pytest

from crawler.engine.lifecycle import Stop
from tests.cluster.members import Crawling
from tests.cluster.test_replicas import begin_both, crawling, in_step, to_the_end, until


def assert_complete(crawl: Crawling) -> None:
    """Each page is in the output once, was asked for once, and no host was asked too early."""
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay


def longest_rest(crawl: Crawling, since: float) -> float:
    """The longest time between two requests, of which one leads to the other."""
    begins = sorted(each.begin for each in crawl.asked if each.begin > since)
    return max(after - before for before, after in itertools.pairwise(begins))


def homes_of(crawl: Crawling) -> dict[str, list[int]]:
    found = crawl.directory.glob("*/partitions/[0-9][0-9]")
    homes: dict[str, list[int]] = {}
    for path in sorted(found):
        homes.setdefault(path.parent.parent.name, []).append(int(path.name))
    return homes


def test_a_home_that_joins_gets_its_share(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=16)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(first.member.runs) == crawl.partitions)
        joined = crawl.clock()
        second = crawl.begin("b", home="b")
        await until(lambda: len(second.member.runs) >= crawl.partitions // 2 - 1)
        assert crawl.clock() < joined + 60.0
        assert not first.member.runs.keys() & second.member.runs.keys()
        await to_the_end(first, second)
        assert longest_rest(crawl, joined) < 6.0 + crawl.settings.politeness.delay

    crawl.live(test)
    assert_complete(crawl)
    assert len(crawl.asked) == len(crawl.pages)


@pytest.mark.parametrize("later", [0.0, 0.3, 0.6])
def test_a_process_that_drains_hands_over_and_the_crawl_ends_without_its_directory(
    tmp_path: Path, later: float
) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(later)
        left = crawl.clock()
        b.member.drain()
        assert (await b.task).reason is Stop.INTERRUPTED
        assert crawl.clock() < left + 15.0
        assert not list((tmp_path / "b" / "partitions").iterdir())
        await to_the_end(a)
        assert longest_rest(crawl, left) < 3.0 + 2 * crawl.settings.politeness.delay  # the gap before it, and after

    crawl.live(test)
    assert_complete(crawl)
    assert homes_of(crawl) == {"a": [0, 1, 2, 3]}


def leave(crawl: Crawling, home: str) -> None:
    """As ``crawler work --drain`` asks."""
    (crawl.directory / home / "drain").write_text(str(os.getpid()))


@pytest.mark.long
def test_a_process_that_drains_stays_until_the_replica_that_only_it_has_took_over(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=16)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await a.kill()
        shutil.rmtree(tmp_path / "a")
        c = crawl.begin("c", home="c")
        leave(crawl, "b")
        assert (await b.task).reason is Stop.INTERRUPTED
        assert homes_of(crawl) == {"c": [0, 1, 2, 3]}
        await to_the_end(c)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
