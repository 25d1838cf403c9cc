"""A worker that waits for its store, or that begins again, is one worker for those who stop it or limit its time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.disk import RealDisk
from crawler.base.settings.parts import CrawlSettings, PartitionSettings, Settings
from crawler.cluster.agreement import joined
from crawler.cluster.drain_file import asked
from crawler.cluster.member_options import MemberResult
from crawler.engine.lifecycle import Stop
from crawler.job.bucket.keeping import TakenOverError
from crawler.job.bucket.objects import BucketDown
from crawler.service import worker_session
from crawler.service.worker_session import WorkOptions, work
from tests.laboratory import START

SETTINGS = Settings(crawl=CrawlSettings(max_time=100.0), partitions=PartitionSettings(count=2))


async def worked(directory: Path, options: WorkOptions) -> MemberResult:
    carrier = MemoryCarrier()
    crawl = await joined(carrier, RealDisk(), directory, SETTINGS, "memory")
    return await work(directory, crawl, carrier, SETTINGS, options)


@pytest.mark.parametrize("reason", [Stop.INTERRUPTED, Stop.MAX_TIME, None])
async def test_a_worker_that_waits_for_its_store_can_be_stopped_or_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: Stop | None
) -> None:
    reasons: Iterator[Stop | None] = iter([None, reason])
    with contextlib.ExitStack() as stack:

        def away(*_: object) -> None:
            if reason is None:
                stack.enter_context(asked(RealDisk(), tmp_path))
            raise BucketDown("the store is away")

        monkeypatch.setattr(worker_session, "bucket_of", away)
        monkeypatch.setattr(worker_session, "_AGAIN", 0.0)
        result = await worked(tmp_path, WorkOptions(stopped=lambda: next(reasons)))
    assert (result.reason, result.stats) == (reason or Stop.INTERRUPTED, {})


async def test_the_time_of_a_worker_that_begins_again_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, limits = START, list[float | None]()

    async def life(_: Path, __: object, ___: object, settings: Settings, ____: WorkOptions) -> MemberResult:
        nonlocal now
        limits.append(settings.crawl.max_time)
        now += 60.0
        if len(limits) < 3:
            raise TakenOverError("another process has taken over")
        return MemberResult(Stop.MAX_TIME, {}, 0, None)

    monkeypatch.setattr(worker_session, "SteadyClock", lambda: lambda: now)
    monkeypatch.setattr(worker_session, "_work", life)
    await worked(tmp_path, WorkOptions())
    assert limits == [100.0, 40.0, 0.001]
