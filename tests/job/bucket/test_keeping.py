"""The log and the snapshots of one run, with a store that fails on demand."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import DisplacedError, RealDisk
from crawler.inspect.crawl_backup import restore_crawl
from crawler.inspect.integrity.repairer import find_all
from crawler.job.bucket import keeping
from crawler.job.bucket.directory_objects import DirectoryObjects
from crawler.job.bucket.keeping import Keeping
from crawler.job.bucket.layout import KEEP, Owner, encode, log_key, owner_key, read_crawl
from crawler.job.bucket.objects import BucketDown, BucketError, Listed
from crawler.job.bucket.ownership import Newcomer, own, release, take
from crawler.job.bucket.tidying import tidy
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.url.urls.canonicaliser import Canonical
from tests.inspect.integrity.test_parts import SETTINGS, URLS, carries_on, finish
from tests.outputs import records


class Failing(DirectoryObjects):
    """``faults``: of the next puts; True: the object is stored, and the answer is lost; None: no fault."""

    faults: Iterator[bool | None] = iter(())

    def put(self, key: str, data: bytes) -> bool:
        fault = next(self.faults, None)
        if fault is None:
            return super().put(key, data)
        if fault:
            super().put(key, data)
        raise BucketDown("the store is away")


class Opened:
    def __init__(self, directory: Path, line: int = 7) -> None:
        self.objects = Failing(directory / "store")
        self.directory = directory / "job"
        holding = own(self.objects, self.directory, RealDisk(), 0.0)
        self.behind = holding.behind
        self.job = Job(self.directory, SETTINGS, 0.0, Platform(line=line))
        self.epoch = holding.epoch
        self.now = 0.0
        self.run = Keeping(self.objects, holding.log, lambda: self.now)

    def restored(self, to: Path) -> int:
        """How many records a whole job has that is made from the store."""
        restore_crawl(self.objects.address, to)
        assert find_all(to) == []
        return len(list(records(to)))


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Opened]:
    made = Opened(directory)
    try:
        await made.run.add(made.job, 0, made.epoch)
        made.job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        yield made
    finally:
        made.job.close()


async def test_what_a_restored_job_has(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        finish(made.job, 2)
        made.objects.faults = iter([False, True, False])  # lost, stored with its answer lost, lost
        await made.run.flush(0, whole=False)
        finish(made.job, 3)
        await made.run.flush(0, whole=True)
        assert made.job.promises.stored == made.job.writer.commits
        finish(made.job, 2)
        await made.run.flush(0, whole=False)
        made.job.log.drop()  # as when more waits for a store than memory has room for
        made.job.log.keep()
        finish(made.job, 1)
        await made.run.flush(0, whole=False)
        assert len(list(made.objects.list("snapshot/"))) == 2
        finish(made.job, 1)
        await made.run.flush(0, whole=False)
        assert made.restored(tmp_path / "restored") == 9
    carries_on(tmp_path / "restored", len(URLS) - 9)


async def test_a_store_that_is_full_is_one_line_although_it_takes_small_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeping, "_EVERY", 0.0)
    async with opened(tmp_path) as made:
        for made.now in (1.0, 2.0, 3.0):
            finish(made.job, 1)
            made.objects.faults = iter([False])
            await made.run.flush(0, whole=False)
        assert len(caplog.messages) == 1
        made.now = 30.0
        await made.run.flush(0, whole=False)
        await made.run.flush(0, whole=False)
        assert len(caplog.messages) == 2


async def test_promises_wait_for_the_store(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        finish(made.job, 1)
        await made.job.sync()
        assert made.job.promises.kept < made.job.writer.commits
        await made.run.flush(0, whole=False)
        assert made.job.promises.kept == made.job.writer.commits


async def test_nothing_is_put_behind_the_end_of_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        finish(made.job, 1)
        await made.run.flush(0, whole=False)
        finish(made.job, 1)
        await made.run.flush(0, whole=False)
        finish(made.job, 1)
        log = min(made.objects.list("log/"), key=lambda each: each.key)
        aside = (tmp_path / "store" / log.key).rename(tmp_path / "aside")
        with pytest.raises(BucketError, match="is missing"):
            own(made.objects, tmp_path / "other", RealDisk(), 0.0)
        aside.rename(tmp_path / "store" / log.key)
        own(made.objects, tmp_path / "other", RealDisk(), 0.0)
        with pytest.raises(DisplacedError, match="another process has taken over"):
            await made.run.flush(0, whole=False)
        assert len(list(records(tmp_path / "other"))) == 2


async def test_an_owner_that_began_again_and_gave_up_before_a_snapshot_leaves_its_steps(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as made:
        finish(made.job, 1)
        await made.run.flush(0, whole=False)
    crawl = read_crawl(made.objects)
    assert crawl is not None
    again = take(made.objects, crawl, 0, made.directory, Newcomer(made.run.log, RealDisk(), 0.0, made.run.number))
    assert again is not None
    release(made.objects, 0, again.epoch, made.run.number)
    own(made.objects, tmp_path / "other", RealDisk(), 0.0)
    assert len(list(records(tmp_path / "other"))) == 1


async def test_an_owner_without_a_snapshot_whose_log_has_steps_of_other_partitions_is_followed(tmp_path: Path) -> None:
    made = Opened(tmp_path)
    try:
        await made.run.add(made.job, 1, made.epoch)
        made.job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        await made.run.flush(1, whole=False)
    finally:
        made.job.close()
    assert own(made.objects, tmp_path / "other", RealDisk(), 0.0).epoch == 2


async def test_what_only_the_disk_has_stays_however_often_a_start_is_broken_off(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        finish(made.job, 1)
        await made.run.flush(0, whole=False)
        finish(made.job, 2)  # the store was away
    for fault in (True, False, True, False):  # the first two puts of a start are probes
        made.objects.faults = iter([None, None, fault])
        with pytest.raises(BucketDown):
            own(made.objects, tmp_path / "job", RealDisk(), 0.0)
    for line in (8, 9):  # opened, and killed before its first snapshot
        again = Opened(tmp_path, line)
        assert not again.behind
        again.job.close()
    assert len(list(records(tmp_path / "job"))) == 3


async def test_a_directory_that_lost_what_the_store_has_is_restored(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        finish(made.job, 1)
        await made.job.snapshot()
        kept = (tmp_path / "job" / "snapshot").rename(tmp_path / "kept")
        finish(made.job, 2)
        await made.run.flush(0, whole=True)
    shutil.rmtree(tmp_path / "job" / "store")
    (kept / "store").rename(tmp_path / "job" / "store")  # an older state
    again = Opened(tmp_path, 8)
    assert again.behind
    again.job.close()
    assert len(list(records(tmp_path / "job"))) == 3


class Joined(DirectoryObjects):
    """A store in which a worker begins while somebody looks what nothing needs."""

    def list(self, prefix: str) -> Iterator[Listed]:
        found = list(super().list(prefix))
        if prefix == "log/":
            for number in range(2):
                self.put(log_key("new", number), b"steps")
            self.put(owner_key(1, 1), encode("owner", Owner("new", 0, "elsewhere", 0.0)))
        return (replace(each, modified=each.modified - KEEP - 60.0) if "old" in each.key else each for each in found)


async def test_what_nothing_needs_is_removed_and_not_what_has_just_begun(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        finish(made.job, 1)
        await made.run.flush(0, whole=False)
        for name in ("log/old/000000000000", "log/old/000000000001", "pieces/00/old", "pieces/00/young"):
            made.objects.put(name, b"old")
        tidy(Joined(tmp_path / "store"))
        left = {each.key for each in made.objects.list("")}
        assert {"log/old/000000000001", "pieces/00/young", log_key("new", 0), log_key("new", 1)} < left
        assert not left & {"log/old/000000000000", "pieces/00/old"}
        assert made.restored(tmp_path / "restored") == 1
