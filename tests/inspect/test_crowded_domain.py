"""That one domain has most of a crawl in partitions is said once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.disk import RealDisk
from crawler.base.settings import CrawlSettings, Settings
from crawler.cluster.crawl_directory import new_crawl
from crawler.inspect.crawl_reader import stats_of
from crawler.inspect.crowded_domain import CrowdWatch
from crawler.job.crawl_file import CrawlFile, begin_crawl_file, partition_directory
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.partition import PartitionRouter, Placement
from crawler.url.urls import Canonicaliser

SETTINGS = Settings(crawl=CrawlSettings(scope="any"))
CANONICAL = Canonicaliser()
NOW = 1_700_000_000.0


def made(directory: Path, hrefs: Sequence[str], *, by_host: bool = False) -> CrawlFile:
    """A crawl of two partitions, in which the URLs wait."""
    crawl = begin_crawl_file(RealDisk(), directory, replace(new_crawl(SETTINGS), partitions=2, by_host=by_host))
    placement = Placement(crawl.secret, crawl.partitions, by_host=by_host)
    urls = [CANONICAL.canonicalise(href) for href in hrefs]
    for number in range(2):
        router = PartitionRouter(number, placement)
        job = Job(partition_directory(directory, number), SETTINGS, NOW, router=router)
        job.admit(Found(router.keeps(urls), 0, seed=True))
        asyncio.run(job.checkpoint(NOW))
        job.close()
    return crawl


def partitions(directory: Path) -> list[dict[str, Any]]:
    return list(stats_of(directory)["partitions"])


def crowd(domain: str, hosts: int, each: int) -> list[str]:
    return [
        f"http://h{host}.{domain}:8{port}/{page}" for host in range(hosts) for port in (0, 1) for page in range(each)
    ]


def test_it_is_said_once_a_crawl(tmp_path: Path) -> None:
    crawl = made(tmp_path, [*crowd("crowd.test", 5, 6), *crowd("a.test", 2, 3), *crowd("b.test", 2, 3)])
    for least, says in ((1_000, False), (50, True), (50, False)):
        watch = CrowdWatch(tmp_path, crawl, RealDisk(), least)
        line = watch.look(partitions(tmp_path))
        assert (line is not None) == says
        if line is not None:
            assert "crowd.test has 60 of 84 URLs on 5 hosts" in line
            assert 'partitions.placed_by = "host"' in line
        assert watch.look(partitions(tmp_path)) is None


@pytest.mark.parametrize(
    ("hrefs", "by_host"),
    [
        pytest.param(crowd("crowd.test", 1, 60), False, id="one host cannot be spread"),
        pytest.param([href for each in range(8) for href in crowd(f"d{each}.test", 2, 5)], False, id="many domains"),
        pytest.param(crowd("crowd.test", 5, 12), True, id="it is spread already"),
    ],
)
def test_otherwise_nothing_is_said(tmp_path: Path, hrefs: list[str], by_host: bool) -> None:
    crawl = made(tmp_path, hrefs, by_host=by_host)
    assert CrowdWatch(tmp_path, crawl, RealDisk(), 50).look(partitions(tmp_path)) is None
    assert not (tmp_path / "told-placed-by").exists()
