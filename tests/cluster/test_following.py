"""Replicas that cannot keep pace for a while, and copies that are broken off, in virtual time."""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from crawler.base.kv import Batch
from crawler.job.partition.replica_homes import decode_following
from tests.cluster.members import Crawling, Line, Mortal, Working, chain
from tests.cluster.test_replicas import (
    begin_both,
    check,
    lags,
    to_the_end,
    until,
)

PARTITIONS = 2
GONE, BACK = "no replica in step", "a replica again"


def crawling(directory: Path, each: int, seconds: float = 0.2) -> Crawling:
    """``seconds``: of a response."""
    pages = chain(4, each)
    return Crawling(directory, pages, PARTITIONS, (next(iter(pages)),), seconds=seconds, replicas=1)


def in_step(*members: Working) -> bool:
    """Whether all replicas of all partitions are."""
    each = [lag for member in members for lag in lags(member)]
    return len(each) == PARTITIONS and all(lag.in_step for lag in each)


def told(member: Working, what: str) -> list[int]:
    """Of which partitions the user was told that."""
    lines = [line.split(" ha")[0] for line in member.said if what in line]
    return sorted(int(number) for line in lines for number in re.findall(r"\d+", line))


class Store:
    """A store whose disk can be full."""

    def __init__(self, store: Mortal, full: Collection[bool]) -> None:
        self._store = store
        self._full = full

    def write(self, batch: Batch) -> None:
        if self._full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._store.write(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_crawl_ends_although_a_replica_has_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl, full = crawling(tmp_path, each=8), list[bool]()
    open_store = crawl.open_store

    def opened(path: Path, line: Line) -> Any:
        return Store(open_store(path, line), full if (tmp_path / "b" / "replicas") in path.parents else ())

    monkeypatch.setattr(crawl, "open_store", opened)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        full.append(True)
        async with asyncio.timeout(600.0):
            await to_the_end(a, b)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


def test_an_owner_that_is_cut_off_leaves_nobody_behind(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def promised(owner: Working) -> bool:
        values = await crawl.carrier.get([f"p{number}" for number in owner.member.runs], "replicas")
        return all("b" in following.in_step for value in values if (following := decode_following(value)))

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        a.line.is_cut = True
        await asyncio.sleep(9.5)
        a.line.is_cut = False
        for _ in range(100):
            await asyncio.sleep(0.05)
            assert await promised(a)
        await to_the_end(a, b)
        assert not any(GONE in line for line in a.said)

    crawl.live(test)
    check(crawl)
