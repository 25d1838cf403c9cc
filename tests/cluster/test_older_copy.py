"""A directory that is replaced by an older copy of itself, before others have taken over: in virtual time."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from crawler.job.partition.placement import Placement
from tests.cluster.members import SECRET, Crawling, Working
from tests.cluster.test_promoted import assert_complete
from tests.cluster.test_replicas import begin_both, crawling, in_step, to_the_end, until

pytestmark = pytest.mark.long

LATER = 6.0  # seconds by which the copy is older


async def owner_has_a_link(crawl: Crawling, owner: Working, other: Working) -> None:
    """The one page that leads on is just being asked for by the owner, and was found by the other one, who was told
    that the link is durable."""
    of = Placement(SECRET, crawl.partitions).of

    def is_so() -> bool:
        href, before = crawl.asked[-1].href, crawl.asked[-2].href
        both = of(href) in owner.member.runs and of(before) in other.member.runs
        return both and not crawl.asked[-1].end and not other.member.lag.rows

    crawl.seconds = 4.0  # of a response: what is found is acknowledged sooner
    await until(is_so)
    crawl.seconds = 0.2


async def set_back(crawl: Crawling, owner: Working, other: Working) -> Working:
    """The directory of the owner is replaced by one as it was some seconds before. Returns its next process."""
    home, copy = crawl.directory / "b", crawl.directory.with_name("copy")
    await owner.kill()
    shutil.copytree(home, copy)
    owner = crawl.begin("b", home="b")
    await until(lambda: in_step(other, owner))
    await asyncio.sleep(LATER)
    await owner_has_a_link(crawl, owner, other)
    await owner.kill()
    shutil.rmtree(home)
    copy.rename(home)
    return crawl.begin("b", home="b")


def test_the_replica_goes_on_if_it_has_more_than_the_directory(tmp_path: Path) -> None:
    crawl = crawling(tmp_path / "crawl", each=16)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        had = set(b.member.runs)
        b = await set_back(crawl, b, a)
        began = crawl.clock()
        await until(lambda: len(a.member.runs) + len(b.member.runs) == crawl.partitions, 20.0)
        assert crawl.clock() < began + 10.0
        assert had & set(a.member.runs)
        assert any("older copy" in line for line in b.said)
        await to_the_end(a, b)

    crawl.live(test)
    assert_complete(crawl, lost=3)
