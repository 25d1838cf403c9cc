"""Partitions that earlier versions made go on."""

from __future__ import annotations

import asyncio
import shutil
import tarfile
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.base.settings import Settings
from crawler.inspect.integrity.verifier import verify_job
from crawler.job.follower import Follower
from crawler.job.job import Job
from crawler.job.partition import Ack, Parcel, PartitionRouter, Placement, Verdict, Widened
from crawler.job.partition.messages import Links, decode_message
from crawler.job.platform import Platform
from tests.corpus.make import LOGGED, PARTITION
from tests.program import ROOT

PLACEMENT = Placement(b"secret of corpus", 3)


CORPUS = ROOT / "tests" / "corpus"
LOGGED_ONES = sorted(CORPUS.glob(f"*/{LOGGED}"))


@pytest.mark.parametrize("archive", [*sorted(CORPUS.glob(f"*/{PARTITION}")), *LOGGED_ONES], ids=str)
def test_a_partition_of_an_earlier_version_goes_on(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    assert list(verify_job(tmp_path / "job")) == []
    job = Job(tmp_path / "job", Settings(), 2.0, router=PartitionRouter(1, PLACEMENT))
    try:
        assert job.epoch == 5
        links = [f"http://h{number}.test/" for number in range(20)]
        kept = [href for href in links if PLACEMENT.of(href) == 1]
        assert job.counters.admitted == len(kept)
        assert job.counters.sent_elsewhere == 20 - len(kept) > 0
        for target in (0, 2):
            rows = job.store.scan(Family.OUTBOX, target.to_bytes(2, "big"), (target + 1).to_bytes(2, "big"))
            links_of, widened = (decode_message(value) for _, value in rows)
            assert widened == Widened(["http://h1.test/"])
            assert isinstance(links_of, Links)
            assert links_of.hrefs == [href for href in links if PLACEMENT.of(href) == target]
        asyncio.run(job.begin_epoch(6))
        assert job.receive(Parcel(0, 1, 7, 2, []), 2.0).verdict is Verdict.REPEATED
        assert job.due_acks() == [Ack(0, 1, 7, 2)]
        assert job.receive(Parcel(0, 1, 7, 3, []), 2.0).verdict is Verdict.ADMITTED
    finally:
        job.close()


@pytest.mark.parametrize("archive", LOGGED_ONES, ids=str)
def test_replicas_of_an_earlier_version_go_on(archive: Path, tmp_path: Path) -> None:
    """The directory itself stands for a replica that has all of its steps."""
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    shutil.copytree(tmp_path / "job", tmp_path / "replica")
    job = Job(tmp_path / "job", Settings(), 2.0, Platform(line=10), router=PartitionRouter(1, PLACEMENT))
    platform = Platform().of_partition(1, 3)
    following = Follower(tmp_path / "replica", platform, Settings().output)
    try:
        assert following.mark.line == 9
        asyncio.run(job.begin_epoch(6))
        assert job.receive(Parcel(0, 1, 7, 3, []), 2.0).verdict is Verdict.ADMITTED
        assert job.log.holds(following.mark)
        chunk = job.log.after(following.mark, 1)
        assert chunk is not None
        following.apply(chunk)
        assert following.mark == job.log.mark
    finally:
        following.close()
        job.close()
    job = Job(tmp_path / "replica", Settings(), 2.0, platform, router=PartitionRouter(1, PLACEMENT))
    assert job.epoch == 6
    job.close()
