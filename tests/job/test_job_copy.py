"""A job is copied beside whatever it does, and nothing is left of a copy that was broken off."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crawler.base.settings.parts import Settings
from crawler.engine.lifecycle import Stop
from crawler.job.directory import PAGES
from crawler.job.job import Job
from crawler.job.job_copy import JobCopy
from crawler.job.output import lines_of
from crawler.job.platform import Platform
from crawler.job.snapshot import COPYING
from crawler.web.fetch import SimulatedWeb
from tests.chance import CHANCE
from tests.driving import Driven
from tests.durability.power import Inline, on_the_wire, seeds, small_web
from tests.job.replica.copied import CODEC, EVERYTHING, PARTITION
from tests.virtual import run_virtually


@pytest.fixture(scope="module")
def crawled() -> Iterator[Path]:
    """A finished crawl."""
    CHANCE.seed(3)
    with tempfile.TemporaryDirectory() as top:
        directory, ticks = Path(top) / "job", itertools.count()
        run_virtually(_crawl(directory, lambda: next(ticks) * 0.001))
        yield directory


async def _crawl(directory: Path, clock: Callable[[], float]) -> None:
    web = small_web(random.Random(3))
    with closing(Job(directory, EVERYTHING, clock(), Platform(executor=Inline, line=1))) as job:
        simulated = SimulatedWeb({url: on_the_wire(answer) for url, answer in web.items()})
        driven = Driven(job, simulated, EVERYTHING, clock, seeds(next(iter(web))))
        assert await driven.to_the_end() is Stop.FINISHED
        await job.checkpoint(0.0)


@pytest.fixture
def directory(crawled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(crawled, tmp_path / "job"))


def with_job(
    directory: Path, work: Callable[[Job], Awaitable[Any]], settings: Settings = EVERYTHING, **platform: Any
) -> None:
    async def do() -> None:
        with closing(Job(directory, settings, 1e6, Platform(line=2, **platform))) as job:
            await work(job)

    asyncio.run(do())


def test_what_a_killed_copy_left_is_removed_when_the_job_is_opened(directory: Path) -> None:
    (directory / COPYING / "00000000000000ff" / "store").mkdir(parents=True)
    (directory / COPYING / "00000000000000ff" / "job.json").touch()

    async def work(_: Job) -> None:
        assert not (directory / COPYING).exists()

    with_job(directory, work)


def test_the_log_has_what_comes_after_the_copy(directory: Path, tmp_path: Path) -> None:
    async def work(job: Job) -> None:
        assert any(True for _ in lines_of(directory / PAGES))
        async with JobCopy(job, PARTITION, CODEC) as copy:
            assert copy.follows == job.log.mark
            job.change_hosts(lambda _: None)
            assert job.log.holds(copy.follows)
            chunk = job.log.after(copy.follows, PARTITION)
            assert chunk is not None
            assert chunk.reaches == job.log.mark

    with_job(directory, work)
