"""Homes that follow each other's partitions, in virtual time."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crawler.base.kv import Family
from crawler.engine.lifecycle import Stop
from crawler.job.directory import PAGES, STORE
from crawler.job.replica.step_codec import Mark
from crawler.job.step_log import MARK
from crawler.job.store.rocks import PartitionStore
from tests.cluster.members import Crawling, Working, chain

PARTITIONS = 4


def crawling(directory: Path, hosts: int = 12, each: int = 4) -> Crawling:
    pages = chain(hosts, each)
    return Crawling(directory, pages, PARTITIONS, (next(iter(pages)),), replicas=1)


def begin_both(crawl: Crawling) -> tuple[Working, Working]:
    return crawl.begin("a", expected=2, home="a"), crawl.begin("b", expected=2, home="b")


async def until(happens: Callable[[], bool], seconds: float = 300.0) -> None:
    async with asyncio.timeout(seconds):
        while not happens():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.05)


async def to_the_end(*members: Working) -> None:
    assert {(await each.task).reason for each in members} == {Stop.FINISHED}


def lags(member: Working) -> Sequence[Any]:
    return member.member.replicas


def in_step(*members: Working) -> bool:
    """Whether all replicas of all partitions are."""
    each = [lag for member in members for lag in lags(member)]
    return len(each) == PARTITIONS and all(lag.in_step for lag in each)


def states(home: Path, place: str) -> dict[str, tuple[Mark, bytes]]:
    """What each partition, or replica, in a home holds: its last step and its records."""
    found = {}
    for directory in sorted((home / place).glob("[0-9][0-9]")):
        store = PartitionStore(directory / STORE)
        mark = Mark.decode(store.get(Family.META, MARK))
        store.close()
        found[directory.name] = mark, (directory / PAGES).read_bytes()
    return found


def inodes(directory: Path) -> dict[Path, int]:
    """Each replica: one that was copied again is another directory."""
    return {path: path.stat().st_ino for path in directory.glob("*/replicas/[0-9][0-9]")}


def check(crawl: Crawling) -> None:
    """All pages are recorded once, and each home has what the other one wrote."""
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    a, b = crawl.directory / "a", crawl.directory / "b"
    for here, there in ((a, b), (b, a)):
        assert states(here, "partitions")
        assert states(here, "partitions") == states(there, "replicas")


def test_a_replica_that_is_gone_is_said_and_one_that_is_back_goes_on(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        before = inodes(tmp_path)
        await b.kill()
        await asyncio.sleep(3.0)
        b = crawl.begin("b", home="b")
        await until(lambda: in_step(a, b))
        assert a.said == []
        here, there = tmp_path / "b", inodes(tmp_path)
        assert {path: inode for path, inode in before.items() if here in path.parents}.items() <= there.items()
        await to_the_end(a, b)

    crawl.live(test)
    check(crawl)


def test_an_owner_that_is_started_again_needs_no_copy(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        before = inodes(tmp_path)
        for _ in range(2):
            await asyncio.gather(a.stop(), b.stop())
            a, b = begin_both(crawl)
            await asyncio.sleep(8.0)
        await to_the_end(a, b)
        assert inodes(tmp_path) == before

    crawl.live(test)
    check(crawl)


def test_a_replica_whose_directory_was_removed_is_made_anew(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        shutil.rmtree(tmp_path / "b" / "replicas")
        await to_the_end(a, b)
        assert any("taken away: it will be copied again" in line for line in b.said)

    crawl.live(test)
    check(crawl)
