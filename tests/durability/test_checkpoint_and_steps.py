"""A generation never stands for bits of a step that was not written."""

from __future__ import annotations

import asyncio
import errno
import random
from contextlib import closing
from pathlib import Path

import pytest

from crawler.frontier.request_outcome import RequestOutcome
from crawler.job.checkpointer import RefusedBy
from crawler.job.directory import JobError
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.url.urls.canonicaliser import Canonical
from tests.durability.power import SETTINGS
from tests.faulty_disk import FaultyDisk
from tests.faulty_store import FaultyStore


def url(number: int) -> Canonical:
    return Canonical(f"http://h.test/{number}", f"http://h.test/{number}")


async def test_a_step_that_finds_the_disk_full_while_segments_are_written(tmp_path: Path) -> None:
    store = FaultyStore()
    disk = FaultyDisk(random.Random(1))
    with closing(Job(tmp_path / "job", SETTINGS, 0.0, Platform(disk, lambda _: store))) as job:
        job.admit(Found([url(1)], 0))
        writing = asyncio.create_task(job.checkpoint(0.0))
        await asyncio.sleep(0)  # the segments are being written in the thread
        store.fail_next_write = errno.ENOSPC
        job.admit(Found([url(2)], 0))
        assert job.blocked is not None
        assert (await writing).refused is RefusedBy.UNWRITTEN, (
            "a generation must not stand for a step that is not written"
        )
        assert job.checkpointer.manifest is None
        assert job.writer.write_again()
        assert (await job.checkpoint(0.0)).manifest is not None
    resumed = Job(tmp_path / "job", SETTINGS, 0.0, Platform(FaultyDisk(random.Random(2)), lambda _: store))
    with closing(resumed):
        assert resumed.frontier.queued == 2, "seen and queued are one"
        assert resumed.admit(Found([url(1), url(2)], 0)) == 0


async def test_steps_without_a_journal_number_are_synced_too(tmp_path: Path) -> None:
    class Counting(FaultyStore):
        syncs = 0

        def sync(self) -> None:
            self.syncs += 1
            super().sync()

    store = Counting()
    with closing(Job(tmp_path / "job", SETTINGS, 0.0, Platform(FaultyDisk(random.Random(1)), lambda _: store))) as job:
        job.admit(Found([url(1)], 0))
        await job.sync()
        before = store.syncs
        await job.sync()
        assert store.syncs == before, "nothing changed"
        lease = job.frontier.take(1.0)
        assert lease is not None
        job.robots_later(lease, 5.0, 1.0, RequestOutcome())
        await job.sync()
        assert store.syncs == before + 1


def test_a_store_that_is_gone_does_not_empty_the_output(tmp_path: Path) -> None:
    job = Job(tmp_path / "job", SETTINGS, 0.0, Platform(FaultyDisk(random.Random(1)), lambda _: FaultyStore()))
    job.admit(Found([url(1)], 0))
    job.close()
    (tmp_path / "job" / "pages.jsonl").write_text("{}\n")
    (tmp_path / "job" / "store").rmdir()
    with pytest.raises(JobError, match="store/ is missing"):
        Job(tmp_path / "job", SETTINGS, 0.0, Platform(FaultyDisk(random.Random(1)), lambda _: FaultyStore()))
    assert (tmp_path / "job" / "pages.jsonl").read_text() == "{}\n"
