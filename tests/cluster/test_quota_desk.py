"""The desk that keeps the pages of a whole crawl writes to no partition that is being closed: what its new home has was
counted before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.quota_desk import QuotaDesk
from crawler.cluster.reach import Backoff
from tests.cluster.members import Crawling
from tests.cluster.test_page_limit import crawling_in
from tests.cluster.test_replicas import until

FIRST, SECOND = 1, 2


def opened(crawl: Crawling) -> dict[int, OpenPartition]:
    """Two partitions of a crawl without a limit, each of which has pages that no bank knows."""
    made = {}
    runs = crawl.working[0].member.runs
    for number in (FIRST, SECOND):
        router = runs[number].job.partition
        assert router is not None
        made[number] = OpenPartition(number, runs[number], router.outbox, router.inlet, lambda _: True)
        made[number].is_rising = False
    return made


@pytest.mark.parametrize("waits_for", ["the carrier", "the job"])
def test_a_partition_that_closes_while_the_desk_waits_is_not_written_to(tmp_path: Path, waits_for: str) -> None:
    crawl = crawling_in(tmp_path, None)

    async def test(crawl: Crawling) -> None:
        member = crawl.begin("a").member
        await until(lambda: all(n in member.runs and member.runs[n].job.counters.fetched for n in (FIRST, SECOND)))
        partitions = opened(crawl)
        closes, told = partitions[SECOND], list[int]()
        goes_on = asyncio.Event()
        is_reached = asyncio.Event()

        async def tell(partition: OpenPartition, _: int, __: bytes) -> None:
            told.append(partition.number)
            if partition.number == FIRST:
                is_reached.set()
                await goes_on.wait()

        if waits_for == "the job":
            await closes.writing.acquire()
            goes_on.set()
        keeping = asyncio.create_task(QuotaDesk(1000, crawl.partitions, partitions, tell, Backoff()).keep())
        await is_reached.wait()
        await asyncio.sleep(0.05)
        closes.is_closing = True
        goes_on.set()
        if waits_for == "the job":
            closes.writing.release()
        await asyncio.sleep(0.5)
        assert partitions[FIRST].job.store.get(Family.META, b"allowance") is not None
        assert closes.job.store.get(Family.META, b"allowance") is None
        assert SECOND not in told, "nobody is told what is not stored"
        keeping.cancel()

    crawl.live(test)


def test_a_partition_closes_when_what_the_desk_writes_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawling_in(tmp_path, None)

    async def test(crawl: Crawling) -> None:
        member = crawl.begin("a").member
        await until(lambda: all(n in member.runs and member.runs[n].job.counters.fetched for n in (FIRST, SECOND)))
        partitions = opened(crawl)

        async def tell(_: OpenPartition, __: int, ___: bytes) -> None:
            pass

        closes, syncs = partitions[FIRST], asyncio.Event()
        sync = closes.job.sync

        async def sync_slowly() -> None:
            syncs.set()
            await asyncio.sleep(1.0)
            await sync()

        monkeypatch.setattr(closes.job, "sync", sync_slowly)
        keeping = asyncio.create_task(QuotaDesk(1000, crawl.partitions, partitions, tell, Backoff()).keep())
        await syncs.wait()
        closes.is_closing = True
        async with closes.writing:
            assert closes.job.store.get(Family.META, b"allowance") is not None
            assert closes.durable == closes.version
        keeping.cancel()

    crawl.live(test)


def test_pages_are_given_back_when_a_replica_knows_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a replica that takes over would have them, and the bank would grant them to another partition."""
    crawl = crawling_in(tmp_path, None)

    async def test(crawl: Crawling) -> None:
        member = crawl.begin("a").member
        await until(lambda: all(n in member.runs and member.runs[n].job.counters.fetched for n in (FIRST, SECOND)))
        partitions, told = opened(crawl), list[int]()
        waits, has_it = asyncio.Event(), asyncio.Event()

        async def reach(_: int) -> None:
            waits.set()
            await has_it.wait()

        monkeypatch.setattr(partitions[FIRST].job.checkpointer.promises, "reach", reach)

        async def tell(partition: OpenPartition, _: int, __: bytes) -> None:
            told.append(partition.number)

        keeping = asyncio.create_task(QuotaDesk(1000, crawl.partitions, partitions, tell, Backoff()).keep())
        await waits.wait()
        await asyncio.sleep(3.0)
        assert partitions[FIRST].job.store.get(Family.META, b"allowance") is not None
        assert not partitions[FIRST].writing.locked(), "it may close"
        assert FIRST not in told
        has_it.set()
        await until(lambda: FIRST in told)
        keeping.cancel()

    crawl.live(test)
