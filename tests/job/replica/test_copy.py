"""A crawl that is copied while it runs: the copy and the steps after it make the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import OutputSettings, PartitionSettings
from crawler.inspect.integrity.verifier import verify_job
from crawler.job.partition.placement import Placement
from crawler.job.partition.router import PartitionRouter
from tests.chance import CHANCE
from tests.durability.power import reachable
from tests.job.replica.copied import EVERYTHING, Copied, copied
from tests.outputs import bodies_of, edges_of, parts_of


def check_outputs(result: Copied) -> None:
    edges_of(result.directory)
    parts_of(result.directory, "warc")
    bodies = {url: body for url, body in bodies_of(result.directory).items() if url in result.web}
    web = result.web
    assert bodies == {url: web[url].encode() for url in reachable(web) if isinstance(web.get(url), str)}


@pytest.mark.parametrize("seed", range(3))
def test_a_crawl_that_was_copied_while_it_ran_is_whole(seed: int, tmp_path: Path) -> None:
    CHANCE.seed(seed)
    result = copied(seed, tmp_path, EVERYTHING)
    assert not result.missing
    assert not result.twice
    assert result.pages_between > 5
    check_outputs(result)


WITHOUT_BODIES = replace(
    EVERYTHING,
    output=OutputSettings(("warc", "links", "bodies", "text"), 900, 1_500),
    partitions=PartitionSettings(replica_bodies=False),
)


def test_without_bodies_what_lacks_them_is_fetched_again(tmp_path: Path) -> None:
    CHANCE.seed(0)
    placement = Placement(b"the secret of a crawl", 1)
    result = copied(0, tmp_path, WITHOUT_BODIES, lambda: PartitionRouter(0, placement))
    assert not result.missing
    assert not result.twice
    assert result.again == sum(result.finished.values()) > 20
    again = [url for url, times in result.asked.items() if times > 1 and result.finished.get(url)]
    assert len(again) == result.again
    asked_once = {url for url, lacks in result.finished.items() if not lacks}
    assert asked_once
    assert all(result.asked[url] == 1 for url in asked_once)
    assert not list(verify_job(result.directory))
    check_outputs(result)
