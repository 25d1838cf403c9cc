"""The log of a job: what several readers find in it, and what it costs nobody who has none."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import Settings
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.step_log import StepLog
from crawler.job.steps.step_codec import START, Mark
from crawler.url.urls.canonicaliser import Canonical
from tests.faulty_disk import FaultyDisk
from tests.faulty_store import FaultyStore

LINE = 7


def logged(steps: int, *, size: int = 100, most: int = 10_000, keep: bool = True) -> StepLog:
    """A log with so many steps, whose batches have a value of that size."""
    log = StepLog(LINE, most)
    if keep:
        log.keep()
    for _ in range(steps):
        batch = Batch()
        batch.put(Family.HOSTS, b"h", bytes(size))
        log.stamp(batch)
        log.add(batch, [], [])
    return log


def test_what_all_have_is_forgotten() -> None:
    log = logged(5)
    size = log.size
    log.forget(Mark(LINE, 2))
    assert not log.holds(START)
    assert not log.holds(Mark(LINE, 1))
    assert log.holds(Mark(LINE, 2))
    assert log.size == size * 3 // 5
    log.forget(log.mark)
    assert log.size == 0
    assert log.holds(log.mark)


def test_beyond_the_bound_the_oldest_go_and_who_needs_them_learns_it() -> None:
    log = logged(100, size=1_000)
    assert log.size <= 10_000
    assert not log.holds(START)
    with pytest.raises(ValueError, match="not kept"):
        log.after(START, 3, 10_000)
    assert log.holds(Mark(LINE, 95))
    one = logged(2, size=20_000)  # no step fits
    assert (one.size < 25_000, one.holds(one.mark), one.holds(Mark(LINE, 1)), one.holds(START)) == (
        True,
        True,
        True,
        False,
    )


class Opened:
    """A job that is opened again and again."""

    def __init__(self, top: Path) -> None:
        self.directory = top / "job"
        self.store = FaultyStore()
        self._disk = FaultyDisk(random.Random(1))
        self._urls = 0

    def open(self, line: int) -> Job:
        return Job(self.directory, Settings(), 1_000.0, Platform(self._disk, lambda _: self.store, line=line))

    def admit(self, job: Job) -> None:
        self._urls += 1
        href = f"http://a.test/{self._urls}"
        assert job.admit(Found([Canonical(href, href)], 0)) == 1


def test_an_answer_waits_until_the_store_has_it(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    job = opened.open(LINE)

    async def work() -> None:
        job.promises.stored_to(job.log.commits(job.log.mark))
        opened.admit(job)
        await job.sync()
        promise = asyncio.create_task(job.promise())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not promise.done()
        job.promises.stored_to(job.log.commits(job.log.mark))
        await promise

    asyncio.run(asyncio.wait_for(work(), 10))
    job.close()
