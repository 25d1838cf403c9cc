"""A crawl that is copied while it runs: the copy and the steps after it make the job."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import RealDisk
from crawler.base.settings import OutputSettings, PartitionSettings, SeenSettings
from crawler.engine.lifecycle import Stop
from crawler.inspect.integrity.verifier import verify_job
from crawler.job.copy_target import CopyTarget
from crawler.job.follower import Follower
from crawler.job.job import Job
from crawler.job.job_copy import JobCopy
from crawler.job.partition import PartitionRouter, Placement
from crawler.job.platform import Platform
from crawler.job.replica import Mark
from crawler.web.fetch import SimulatedWeb
from tests.chance import CHANCE
from tests.driving import Driven
from tests.durability.power import KEEPING, on_the_wire, reachable, seeds
from tests.job.replica.copied import CODEC, EVERYTHING, PARTITION, Copied, copied, part_of_a_copy
from tests.outputs import bodies_of, edges_of, parts_of, records


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


def test_of_a_partition(tmp_path: Path) -> None:
    CHANCE.seed(6)
    placement = Placement(b"the secret of a crawl", 1)
    result = copied(6, tmp_path, EVERYTHING, lambda: PartitionRouter(0, placement))
    assert not result.missing
    assert not result.twice
    check_outputs(result)


def test_copies_that_threads_make_beside_a_crawl(tmp_path: Path) -> None:
    """In real time: what the crawl writes while the job is held still is in the copy, or in the steps after it."""
    CHANCE.seed(7)
    web = {f"http://h{n % 4}.test/{n}": "".join(f'<a href="{link(n, k)}">x</a>' for k in range(6)) for n in range(600)}
    directory, replicas, made = tmp_path / "job", tmp_path / "replicas", list[tuple[Path, Mark]]()

    async def crawl() -> None:
        job = Job(directory, EVERYTHING, time.time(), Platform(line=1))
        simulated = SimulatedWeb({url: on_the_wire(answer) for url, answer in web.items()})
        driven = Driven(job, simulated, EVERYTHING, time.time, seeds("http://h0.test/0"))
        try:
            job.log.keep()
            crawling = asyncio.create_task(driven.to_the_end())
            while not crawling.done():
                made.append(await copy(job, f"{len(made):02}"))
            assert await crawling is Stop.FINISHED
            for place, mark in made:
                follow(job, place, mark)
        finally:
            job.close()

    async def copy(job: Job, name: str) -> tuple[Path, Mark]:
        target = CopyTarget(replicas, name, RealDisk())
        async with JobCopy(job, PARTITION, CODEC) as copying:
            while (message := await copying.next()) is not None:
                await asyncio.to_thread(target.take, part_of_a_copy(message))
        return replicas / name, copying.follows

    def follow(job: Job, place: Path, mark: Mark) -> None:
        follower = Follower(place, Platform(), EVERYTHING.output)
        try:
            while (chunk := job.log.after(mark, PARTITION)) is not None:
                follower.apply(chunk)
                mark = chunk.reaches
            assert follower.mark == job.log.mark
        finally:
            follower.close()
        assert records(place) == records(directory)
        assert bodies_of(place) == bodies_of(directory)
        for name in ("warc", "links"):
            assert parts_of(place, name) == parts_of(directory, name)

    asyncio.run(crawl())
    assert len(made) > 1
    assert len(records(directory)) >= len(web)


def link(page: int, number: int) -> str:
    target = 4 * page + number
    return f"http://h{target % 4}.test/{target}" if target < 600 else "/missing"
