"""Homes that burn, and old owners that come back, in virtual time: a replica in step goes on, and nobody else."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import RetrySettings
from crawler.job.crawl_file import partitions_gone
from crawler.job.partition.placement import Placement
from crawler.web.fetch.simulated import Answer, page
from tests.cluster.members import SECRET, Crawling, MachineClock, where_of
from tests.cluster.test_replicas import begin_both, crawling, in_step, to_the_end, until

WAIT = 60.0  # seconds
IN_FLIGHT = 8  # requests of a process at most


def assert_complete(crawl: Crawling, lost: int = 0) -> None:
    """Each page is in the output once, no host was asked too early, and of so many processes that were lost only what
    was under way was asked again."""
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay
    assert len(crawl.asked) <= len(crawl.pages) + lost * IN_FLIGHT


def test_the_crawl_goes_on_where_the_replicas_are(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(2.0)
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        burnt = crawl.clock()
        await until(lambda: len(a.member.runs) == crawl.partitions)
        assert crawl.clock() < burnt + 15.0, "the life of a claim, and 5 seconds"
        await to_the_end(a)
        burnt_home = f"taken over by its replica here: it was in {where_of(tmp_path / 'b')},"
        assert any(burnt_home in line for line in a.said)

    crawl.live(test)
    assert not (tmp_path / "b").exists()
    assert_complete(crawl, lost=1)


def test_with_two_replicas_two_machines_may_burn_at_once(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)
    crawl.replicas = 2

    async def test(crawl: Crawling) -> None:
        all_three = a, *burn = [crawl.begin(name, expected=3, home=name) for name in "abc"]
        await until(
            lambda: sum(lag.in_step for each in all_three for lag in each.member.replicas) == 2 * crawl.partitions
        )
        for each in burn:
            await each.kill()
            shutil.rmtree(tmp_path / each.member.name)
        await to_the_end(a)

    crawl.live(test)
    assert_complete(crawl, lost=2)


def test_an_owner_that_comes_back_is_none_any_more_although_the_carrier_has_forgotten_all(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=12)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        had = set(b.member.runs)
        await b.kill()
        await until(lambda: len(a.member.runs) == crawl.partitions)
        crawl.holdings.forget()
        b = crawl.begin("b", home="b")
        await asyncio.sleep(6.0)
        assert not b.member.runs
        assert len(a.member.runs) == crawl.partitions
        assert {int(path.name) for path in (tmp_path / "b" / "replicas").glob("[0-9][0-9]")} >= had
        assert not partitions_gone(tmp_path / "b")
        await to_the_end(a, b)

    crawl.live(test)
    assert_complete(crawl, lost=1)


def test_an_owner_that_was_cut_off_learns_that_it_is_none_before_it_asks_anything(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=14)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        b.line.is_cut = True
        await until(lambda: len(a.member.runs) == crawl.partitions)
        await asyncio.sleep(3.0)
        had = sorted(b.member.runs)
        crawl.holdings.forget()
        b.line.is_cut = False
        await to_the_end(a, b)
        assert had
        assert {f"another process took over partition {number}; its run here ends" for number in had} <= set(b.said)

    crawl.live(test)
    assert_complete(crawl, lost=1)


@pytest.mark.long
@pytest.mark.parametrize("ahead", [3_600.0, -3_600.0])
def test_the_clock_of_another_machine_is_one_that_was_set(tmp_path: Path, ahead: float) -> None:
    """What waits there until some time by its clock waits as long here, and not an hour more or less."""
    crawl, busy = crawling(tmp_path, hosts=4, each=4), dict[str, float]()

    def busy_once(href: str, html: str) -> Callable[[Mapping[str, str]], Answer]:
        def answer(_: Mapping[str, str]) -> Answer:
            return html if busy.setdefault(href, crawl.clock()) != crawl.clock() else page("", status=500)

        return answer

    crawl.pages = {
        href: busy_once(href, str(html)) if href.endswith("/2") else html for href, html in crawl.pages.items()
    }
    crawl.settings = replace(crawl.settings, retry=RetrySettings(first_wait=WAIT))

    async def test(crawl: Crawling) -> None:
        a = crawl.begin("a", expected=2, home="a", clock=MachineClock(crawl.clock, "a", 0.0))
        b = crawl.begin("b", expected=2, home="b", clock=MachineClock(crawl.clock, "b", ahead))
        of = Placement(SECRET, crawl.partitions).of
        await until(lambda: in_step(a, b) and any(of(href) in b.member.runs for href in busy))
        await asyncio.sleep(1.0)
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        burnt = crawl.clock()
        await to_the_end(a)
        assert crawl.clock() < burnt + 600.0, "nothing waits for an hour"

    crawl.live(test)
    again = {each.href: each.begin for each in crawl.asked}
    assert all(again[href] >= at + WAIT for href, at in busy.items()), "nor is it asked again at once"
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay
