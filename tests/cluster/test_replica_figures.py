"""What users are told of replicas: how many there are to be, and which partitions have none, in virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import PartitionSettings
from tests.cluster.members import Crawling, Working
from tests.cluster.test_replicas import begin_both, crawling, in_step, until

ENGINE = PartitionSettings(engine="redis://10.0.0.5", crawl="news")


def over_an_engine(directory: Path, replicas: int = 1) -> Crawling:
    crawl = crawling(directory, each=60)
    crawl.settings, crawl.replicas = replace(crawl.settings, partitions=ENGINE), replicas
    return crawl


def figures(*members: Working) -> list[Any]:
    """How many replicas there are to be, and how many of them are in step, as each member tells."""
    each = [member.member.stats()["replicas"] for member in members]
    return [told and (told["wanted"], told["in_step"]) for told in each]


@pytest.mark.parametrize(
    ("settings", "replicas", "wanted"),
    [
        (ENGINE, 1, (4, 0)),
        (ENGINE, 2, (8, 0)),
        (ENGINE, 0, None),
        (PartitionSettings(processes=1), 1, None),
        (PartitionSettings(engine="unix:/run/crawl"), 1, None),
    ],
)
def test_one_directory_alone_has_none_in_step_of_those_that_there_are_to_be(
    tmp_path: Path, settings: PartitionSettings, replicas: int, wanted: object
) -> None:
    crawl = over_an_engine(tmp_path, replicas)
    crawl.settings = replace(crawl.settings, partitions=settings)

    async def test(crawl: Crawling) -> None:
        alone = crawl.begin("a", home="a")
        await until(lambda: len(alone.member.runs) == crawl.partitions)
        for _ in range(3):
            assert figures(alone) == [wanted]
            await asyncio.sleep(10.0)
        assert not alone.said, "it never had a replica"

    crawl.live(test)


def test_with_fewer_directories_than_replicas_not_all_are_in_step(tmp_path: Path) -> None:
    crawl = over_an_engine(tmp_path, replicas=2)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(1.0)
        (wanted, has), (more, more_has) = figures(a, b)
        assert (wanted + more, has + more_has) == (8, 4)

    crawl.live(test)
