"""Full files of records that are left when a run ends are compressed then, unless the user waits for the end."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import CrawlSettings, OutputSettings, Settings
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.inspect.integrity.repairer import find_all
from crawler.job.directory import PAGES
from crawler.job.job import Job
from crawler.job.output.record_text import COMPRESSED, page_numbers
from crawler.job.platform import Platform
from crawler.service.session import drive_and_checkpoint
from tests.driving import Driven
from tests.durability.power import SETTINGS
from tests.faulty_disk import Fault, FaultyDisk
from tests.outputs import records
from tests.simulated_web import SimulatedWeb
from tests.site import tree

PAGES_OF_SITE = 40
SITE = {f"http://h.test{path}": html for path, html in tree(PAGES_OF_SITE).items()}
ROTATED = replace(SETTINGS, output=OutputSettings(pages_size=1500))  # no generation before the last one


async def seeds() -> AsyncIterator[list[str]]:
    yield ["http://h.test/"]


async def crawled(
    directory: Path,
    settings: Settings = ROTATED,
    platform: Platform | None = None,
    before: Callable[[Run], object] = lambda _: None,
) -> Stop | None:
    """Crawl as a program does. ``before`` is called with the run that has not begun."""
    clock = asyncio.get_running_loop().time
    with closing(Job(directory, settings, clock(), platform)) as job:
        driven = Driven(job, SimulatedWeb(SITE), settings, clock, seeds())
        before(driven.run)
        await drive_and_checkpoint(driven.worker, driven.run, clock)
        return driven.run.life.reason


def uncompressed(directory: Path) -> list[int]:
    return [number for number, path in page_numbers(directory / PAGES).items() if path.suffix != COMPRESSED]


def is_whole(directory: Path, pages: int = PAGES_OF_SITE) -> bool:
    urls = {record["url"] for record in records(directory)}
    return len(urls) == pages == len(records(directory)) and not list(directory.glob("*.part"))


@pytest.mark.parametrize(("most", "reason"), [(None, Stop.FINISHED), (20, Stop.MAX_PAGES)])
async def test_only_the_last_file_is_as_it_was_appended_to(tmp_path: Path, most: int | None, reason: Stop) -> None:
    settings = replace(ROTATED, crawl=CrawlSettings(concurrency=1, max_pages=most))
    assert await crawled(tmp_path / "job", settings) is reason
    files = list(page_numbers(tmp_path / "job" / PAGES))
    assert len(files) > 2
    assert uncompressed(tmp_path / "job") == files[-1:]
    assert is_whole(tmp_path / "job", most or PAGES_OF_SITE)
    assert find_all(tmp_path / "job") == []


async def test_who_interrupts_a_run_does_not_wait_and_the_next_run_compresses(tmp_path: Path) -> None:
    job = tmp_path / "job"
    assert await crawled(job, before=lambda run: run.keeper.hurry()) is Stop.FINISHED
    files = list(page_numbers(job / PAGES))
    assert uncompressed(job) == files
    assert is_whole(job)
    assert find_all(job) == []
    assert await crawled(job) is Stop.FINISHED, "nothing is left to fetch"
    assert uncompressed(job) == files[-1:]
    assert is_whole(job)


async def test_an_interruption_while_files_are_compressed(tmp_path: Path) -> None:
    """It comes between any two pieces of a file."""
    for pieces in range(1, 9):
        directory = tmp_path / str(pieces)
        left = iter(range(pieces))
        await crawled(directory, before=lambda run: run.keeper.hurry())
        clock = asyncio.get_running_loop().time
        with closing(Job(directory, ROTATED, clock())) as job:
            run = Driven(job, SimulatedWeb(SITE), ROTATED, clock, seeds()).run
            await job.compress_rest(lambda left=left: next(left, None) is None)  # type: ignore[misc]
            run.stop()  # as a signal does: then there is no more to wait for
            await run.keeper.compress_rest()
        assert 0 < len(uncompressed(directory)) <= len(page_numbers(directory / PAGES))
        assert is_whole(directory)
        assert find_all(directory) == []


async def test_a_disk_that_is_full_ends_it_and_the_files_stay(tmp_path: Path) -> None:
    job = tmp_path / "job"
    await crawled(job, before=lambda run: run.keeper.hurry())
    files = uncompressed(job)
    disk = FaultyDisk(random.Random(1))

    def fill(run: Run) -> None:
        disk.faults.append(Fault("pwrite", 1, errno.ENOSPC, lasting=True))  # the job is through: it writes no more

    assert await crawled(job, platform=Platform(disk), before=fill) is Stop.FINISHED
    assert uncompressed(job) == files
    assert is_whole(job)
