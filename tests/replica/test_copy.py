"""A crawl that is copied while it runs: the copy and the steps after it make the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.partition import PartitionRouter, Placement
from crawler.settings import OutputSettings, SeenSettings
from tests.chance import CHANCE
from tests.durability.power import KEEPING, reachable
from tests.outputs import bodies_of, edges_of, parts_of
from tests.replica.copied import EVERYTHING, Copied, copied


def check_outputs(result: Copied) -> None:
    edges_of(result.directory)
    parts_of(result.directory, "warc")
    bodies = {url: body for url, body in bodies_of(result.directory).items() if url in result.web}
    web = result.web
    assert bodies == {url: web[url].encode() for url in reachable(web) if isinstance(web.get(url), str)}


@pytest.mark.parametrize("seed", range(4))
def test_a_crawl_that_was_copied_while_it_ran_is_whole(seed: int, tmp_path: Path) -> None:
    CHANCE.seed(seed)
    result = copied(seed, tmp_path, EVERYTHING)
    assert not result.missing
    assert not result.twice
    assert result.pages_between > 5
    check_outputs(result)


KINDS = {
    "no further output": replace(KEEPING, output=OutputSettings()),
    "exact seen-set": replace(EVERYTHING, seen=SeenSettings(kind="exact")),
    "counting seen-set": replace(EVERYTHING, seen=SeenSettings(kind="counting", capacity=2_000)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_of_every_kind_of_job(kind: str, tmp_path: Path) -> None:
    CHANCE.seed(5)
    result = copied(5, tmp_path, KINDS[kind])
    assert not result.missing
    assert not result.twice


def test_of_a_partition(tmp_path: Path) -> None:
    CHANCE.seed(6)
    placement = Placement(b"the secret of a crawl", 1)
    result = copied(6, tmp_path, EVERYTHING, lambda: PartitionRouter(0, placement))
    assert not result.missing
    assert not result.twice
    check_outputs(result)
