"""A full disk pauses the crawl and loses nothing; another error of a disk stops it, and the same command carries on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import ReadingDisk, RealDisk
from crawler.base.settings.parts import DurabilitySettings, Settings
from crawler.engine.lifecycle import State, Stop
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.job.checkpointer import CheckpointResult, RefusedBy
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import Outcome, PageRecord
from crawler.job.verdict import Draft
from crawler.service.session import drive_and_checkpoint
from crawler.url.urls.canonicaliser import Canonical
from tests.driving import Driven
from tests.durability.power import SETTINGS
from tests.faulty_disk import Fault, FaultyDisk
from tests.faulty_store import FaultyStore
from tests.simulated_web import SimulatedWeb
from tests.site import tree

SITE = {f"http://h.test{path}": html for path, html in tree(40).items()}
QUICK = replace(SETTINGS, durability=DurabilitySettings(sync_interval=0.01, checkpoint_interval=0.02))


async def seeds() -> AsyncIterator[list[str]]:
    yield ["http://h.test/"]


def written(job: Path) -> Counter[str]:
    return Counter(json.loads(line)["url"] for line in (job / "pages.jsonl").read_text().splitlines())


async def crawl(job: Job) -> Stop:
    clock = asyncio.get_running_loop().time
    reason = await Driven(job, SimulatedWeb(SITE), QUICK, clock, seeds()).to_the_end()
    await job.checkpoint(0.0)
    await job.sync()
    return reason


async def full_then_space(job: Job, make_space) -> None:  # type: ignore[no-untyped-def]
    driven = Driven(job, SimulatedWeb(SITE), QUICK, asyncio.get_running_loop().time, seeds())
    running, task = driven.run, asyncio.create_task(driven.to_the_end())
    async with asyncio.timeout(20):
        while job.blocked is None:
            assert not task.done(), "the disk was never full: the test proves nothing"
            await asyncio.sleep(0)
        assert running.stats()["state"] == State.PAUSED
        assert running.stats()["paused"] == f"disk full: {os.strerror(errno.ENOSPC)}", (
            "others read it: no path of the machine"
        )
        fetched = job.counters.pages_fetched
        assert not job.writer.whole
        with pytest.raises(RuntimeError):
            await job.checkpoint(0.0)
        # Several tries find it still full.
        await asyncio.sleep(0.05)
        assert job.counters.pages_fetched == fetched
        make_space()
        assert await task is Stop.FINISHED
    assert job.blocked is None


@pytest.mark.parametrize("number", [1, 7, 30])
async def test_no_room_for_a_record(tmp_path: Path, number: int) -> None:
    # The first writes are those of job.json; records come after them.
    disk = FaultyDisk(random.Random(number), Fault("pwrite", number + 1, errno.ENOSPC, lasting=True))
    with closing(Job(tmp_path / "job", QUICK, 0.0, Platform(disk, lambda _: FaultyStore()))) as job:
        await full_then_space(job, disk.faults.clear)
    assert written(tmp_path / "job") == Counter(SITE.keys())


async def test_no_room_in_the_store(tmp_path: Path) -> None:
    class Full(FaultyStore):
        full = False

        def reopen(self) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().reopen()

    store = Full()
    with closing(Job(tmp_path / "job", QUICK, 0.0, Platform(FaultyDisk(random.Random(1)), lambda _: store))) as job:
        store.full, store.fail_next_write = True, errno.ENOSPC

        def make_space() -> None:
            store.full = False

        await full_then_space(job, make_space)
    assert written(tmp_path / "job") == Counter(SITE.keys())


async def test_no_room_for_a_checkpoint_is_said_and_the_journal_stands_for_it(tmp_path: Path) -> None:
    disk = FaultyDisk(random.Random(1))
    store = FaultyStore()
    with closing(Job(tmp_path / "job", QUICK, 0.0, Platform(disk, lambda _: store))) as job:
        job.admit(Found([], 0))
        disk.faults.append(Fault("pwrite", 1, errno.ENOSPC, lasting=True))
        assert (await job.checkpoint(0.0)).manifest is None or job.counters.sequence == 0
        disk.faults.clear()
        assert await crawl(job) is Stop.FINISHED
        disk.faults.append(Fault("pwrite", 0, errno.ENOSPC, lasting=True))
        job.counters.sequence += 1
        refused = CheckpointResult(refused=RefusedBy.DISK_FULL, detail=os.strerror(errno.ENOSPC))
        assert await job.checkpoint(0.0) == refused
        assert not [path for path in (tmp_path / "job" / "seen").iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize("operation", ["pwrite", "sync", "replace", "sync_directory"])
@pytest.mark.parametrize("number", [2, 5, 9])
async def test_an_io_error_stops_the_crawl_and_the_next_run_has_lost_nothing(
    tmp_path: Path, operation: str, number: int
) -> None:
    store = FaultyStore()

    async def broken_off() -> None:
        # The fault lasts: the first may meet a generation that the end of the run has abandoned, which is no loss.
        disk = FaultyDisk(random.Random(number), Fault(operation, number, errno.EIO, lasting=True))
        with closing(Job(tmp_path / "job", QUICK, 0.0, Platform(disk, lambda _: store))) as job:
            for _ in range(20):  # a short crawl does not reach the ninth sync
                await crawl(job)
                job.counters.sequence += 1

    with pytest.raises(OSError, match="Input/output error"):
        await broken_off()
    store.reopen()
    with closing(Job(tmp_path / "job", QUICK, 0.0, Platform(FaultyDisk(random.Random(0)), lambda _: store))) as job:
        assert await crawl(job) is Stop.FINISHED
    assert written(tmp_path / "job") == Counter(SITE.keys())


def job_with_a_record(directory: Path, platform: Platform) -> Job:
    job = Job(directory, QUICK, 0.0, platform)
    job.admit(Found([Canonical(f"http://h.test/{number}", f"http://h.test/{number}") for number in range(2)], 0))
    finish_one(job)
    return job


def finish_one(job: Job) -> None:
    lease = job.frontier.take(1e6)
    assert lease is not None
    assert lease.entry is not None
    job.finish(lease, Draft(PageRecord(lease.entry, Outcome.FETCHED, 1.0, 200)), 1e6)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("by", ["sync", "checkpoint"])
async def test_a_sync_that_failed_is_not_tried_again(tmp_path: Path, error: int, by: str) -> None:
    class NoSync(FaultyStore):
        tried = 0

        def sync(self) -> None:
            self.tried += 1
            if self.tried == 1:
                raise OSError(error, "the disk failed")

    store = NoSync()
    with closing(job_with_a_record(tmp_path / "job", Platform(FaultyDisk(random.Random(1)), lambda _: store))) as job:
        with pytest.raises(OSError, match="the disk failed"):
            await (job.sync() if by == "sync" else job.checkpoint(0.0))
        assert not job.writer.whole, "no last generation is written"
        for again in (job.sync, lambda: job.checkpoint(0.0)):
            with pytest.raises(OSError, match="the disk failed"):
                await again()
        assert store.tried == 1
        assert job.checkpointer.manifest is None, (
            "a generation would say that what the disk may have dropped is durable"
        )


async def test_a_failed_sync_that_nobody_waited_for_is_raised_at_the_end(tmp_path: Path) -> None:
    class NoSync(FaultyStore):
        def sync(self) -> None:
            raise OSError(errno.EIO, "the disk failed")

    class LastSecond(Worker):
        """The sync of every second was under way when the run ended."""

        async def drive(self, *runs: Run) -> None:
            with contextlib.suppress(OSError):
                await runs[0].job.sync()

    job = job_with_a_record(tmp_path / "job", Platform(FaultyDisk(random.Random(1)), lambda _: NoSync()))
    with closing(job):
        worker = LastSecond(SimulatedWeb(SITE), QUICK, clock := asyncio.get_running_loop().time)
        with pytest.raises(OSError, match="the disk failed"):
            await drive_and_checkpoint(worker, Run(job, QUICK, worker.context, seeds()), clock)


async def test_no_room_to_trim_the_journal(tmp_path: Path) -> None:
    store = FaultyStore()
    with closing(job_with_a_record(tmp_path / "job", Platform(FaultyDisk(random.Random(1)), lambda _: store))) as job:
        assert (await job.checkpoint(0.0)).manifest is not None
        finish_one(job)
        store.fail_next_write = errno.ENOSPC
        assert (await job.checkpoint(0.0)).manifest is not None
        # The store takes no more until it is opened anew: the next step finds it so, and waits.
        job.admit(Found([Canonical("http://h.test/x", "http://h.test/x")], 0))
        assert job.blocked is not None
        assert job.writer.write_again()
        assert job.counters.urls_admitted == 3


class Usage:
    """A disk that has less free at each look."""

    def __init__(self, free: int, less: int) -> None:
        self.free, self._less = free, less

    def __call__(self, _: object) -> Usage:
        self.free -= self._less
        return self


@pytest.mark.parametrize("less", [0, 10])
async def test_less_free_than_asked_for_stops_before_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, less: int
) -> None:
    least = 1_000 if less else 1_001  # in the middle of the run, or from its beginning
    scarce = replace(QUICK, durability=replace(QUICK.durability, min_free=least))
    monkeypatch.setattr("shutil.disk_usage", Usage(1_000 + 5 * less, less))
    store = FaultyStore()
    platform = Platform(FaultyDisk(random.Random(1)), lambda _: store)
    clock = asyncio.get_running_loop().time

    async def slowly(_: str) -> None:
        await asyncio.sleep(0.01)

    async def run(settings: Settings) -> tuple[Stop, int]:
        job, web = Job(tmp_path / "job", settings, 0.0, platform), SimulatedWeb(SITE, slowly)
        with closing(job):
            return await Driven(job, web, settings, clock, seeds()).to_the_end(), len(web.asked)

    reason, asked = await run(scarce)
    assert reason is Stop.MIN_FREE
    assert bool(asked) == bool(less)
    assert asked < len(SITE)
    reason, more = await run(QUICK)
    assert (reason, asked + more) == (Stop.FINISHED, len(SITE))
    assert written(tmp_path / "job") == Counter(SITE.keys())


def test_an_error_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with closing(ReadingDisk().open(path)) as file:
        for refused in (
            lambda: file.pwrite(b"y", 0),
            lambda: file.append(b"y"),
            lambda: file.truncate(0),
            lambda: file.pread(1, -1),
        ):
            with pytest.raises(OSError, match=r"^\[Errno [0-9]+\] .*/file'$"):
                refused()
    refusal = pytest.raises(OSError, match=r"^\[Errno [0-9]+\] .*'/dev/null'$")
    with closing(RealDisk().open(Path("/dev/null"))) as device, refusal:
        device.sync()
