"""Homes whose directory of replicas cannot be written, or not any more, in virtual time."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path

import pytest

from crawler.base.disk import Disk, PowerCutError
from crawler.base.settings import OutputSettings
from crawler.cluster import promotion
from crawler.cluster.replica_directory import ReplicaDirectory
from crawler.engine.lifecycle import Stop
from crawler.job import copy_target
from crawler.job.partition.replica_values import Being
from crawler.job.platform import Platform
from crawler.job.replica import CopyBegin, ReplicaCodec
from crawler.job.replica_moves import promote
from tests.cluster.members import SECRET, Crawling, Line
from tests.cluster.test_replicas import begin_both, crawling, in_step, lags, to_the_end, until


def assert_complete(crawl: Crawling) -> None:
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay


@pytest.mark.parametrize("running", [True, False])
def test_a_file_in_place_of_the_replicas_ends_no_worker(tmp_path: Path, *, running: bool) -> None:
    crawl = crawling(tmp_path, each=16)
    replicas = tmp_path / "b" / "replicas"

    async def test(crawl: Crawling) -> None:
        if not running:
            replicas.parent.mkdir()
            replicas.write_text("something else")
        a, b = begin_both(crawl)
        if running:
            await until(lambda: in_step(a, b))
            shutil.rmtree(replicas)
            replicas.write_text("something else")
        await until(lambda: any(str(replicas) in line for line in b.said))
        await until(lambda: lags(a) != [] and not any(lag.in_step for lag in lags(a)))
        await asyncio.sleep(5.0)
        replicas.unlink()
        await until(lambda: in_step(a, b))
        await to_the_end(a, b)
        assert len(b.said) == len(set(b.said))

    crawl.live(test)
    assert_complete(crawl)


def test_a_copy_that_cannot_be_removed_any_more_is_only_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = ReplicaCodec(SECRET)
    replica = ReplicaDirectory(tmp_path / "replicas" / "07", 7, Platform(), codec)
    replica.open(OutputSettings())
    replica.take([b"nonsense", codec.encode(CopyBegin(7, 1))])
    assert replica.being is Being.COPYING
    assert [line for line in replica.said if line.startswith("ignored a malformed message: ")]

    def unwritable(directory: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(directory))

    with monkeypatch.context() as patched:
        patched.setattr(copy_target, "remove_tree", unwritable)
        replica.close()
    assert replica.being is Being.NONE
    replica.open(OutputSettings())
    replica.take([codec.encode(CopyBegin(7, 2))])
    assert replica.being is Being.COPYING
    replica.close()


def test_a_partition_goes_on_with_its_replica_as_soon_as_the_disk_of_that_is_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl, broken = crawling(tmp_path, each=12), [True]

    def unwritable(disk: Disk, directory: Path, number: int) -> bool:
        if broken[0]:
            raise OSError(errno.EROFS, "Read-only file system", str(directory / "replicas"))
        return promote(disk, directory, number)

    monkeypatch.setattr(promotion, "promote", unwritable)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        had = len(b.member.runs)
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        await asyncio.sleep(40.0)
        assert not a.task.done()
        assert len([line for line in a.said if "Read-only file system" in line]) == had
        broken[0] = False
        await until(lambda: len(a.member.runs) == crawl.partitions, 5.0)
        await to_the_end(a)

    crawl.live(test)
    assert_complete(crawl)


def test_a_process_that_dies_while_a_replica_takes_over_takes_over_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl, lines = crawling(tmp_path, each=12), list[Line]()

    def dying(disk: Disk, directory: Path, number: int) -> bool:
        promote(disk, directory, number)
        for line in lines:
            line.is_cut = line.is_dead = True
        raise PowerCutError

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        monkeypatch.setattr(promotion, "promote", dying)
        lines.append(a.line)
        await until(lambda: a.line.is_dead)
        await a.kill()
        monkeypatch.setattr(promotion, "promote", promote)
        a = crawl.begin("a", home="a")
        assert (await asyncio.wait_for(a.task, 600.0)).reason is Stop.FINISHED

    crawl.live(test)
    assert_complete(crawl)
