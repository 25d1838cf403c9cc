"""A carrier that forgets all, or says again what it once knew, when a home has just burnt: no partition begins anew, or
is left, in virtual time."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from crawler.cluster.replica_slots import REPLICAS
from crawler.job.partition.replica_homes import Following, Follows, encode_following
from tests.cluster.members import Crawling, Working
from tests.cluster.test_replicas import crawling, to_the_end, until
from tests.laboratory import START


def in_step(crawl: Crawling, *members: Working) -> bool:
    lags = [lag for each in members for lag in each.member.replicas if lag.in_step]
    return {lag.partition for lag in lags} == set(range(crawl.partitions))


def test_what_the_home_of_partition_0_had_is_promoted_although_all_is_forgotten_after_it_burnt(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=12, each=12)
    crawl.partitions = 6

    async def test(crawl: Crawling) -> None:
        members = [crawl.begin(name, expected=3, home=name) for name in "abc"]
        await until(lambda: in_step(crawl, *members))
        first = next(each for each in members if 0 in each.member.runs)
        had = set(first.member.runs)
        assert len(had) > 1
        members.remove(first)
        await first.kill()
        shutil.rmtree(tmp_path / first.member.name)
        await asyncio.sleep(5.0)
        crawl.holdings.forget()
        await to_the_end(*members)
        goes_on = [line for each in members for line in each.said if "was taken over by its replica here" in line]
        assert len(goes_on) == len(had)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay


def test_a_replica_in_step_is_promoted_although_the_carrier_says_what_it_said_long_ago(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=12, each=12)

    async def test(crawl: Crawling) -> None:
        members = [crawl.begin(name, expected=3, home=name) for name in "abc"]
        await until(lambda: in_step(crawl, *members))
        burns = next(each for each in members if 0 not in each.member.runs)
        had = set(burns.member.runs)
        members.remove(burns)
        await asyncio.sleep(2.0)
        await burns.kill()
        shutil.rmtree(tmp_path / burns.member.name)
        await asyncio.sleep(5.0)
        for number in had:
            await crawl.carrier.put(f"p{number}", {REPLICAS: encode_following(Following(1, [Follows("gone")], START))})
        await to_the_end(*members)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
