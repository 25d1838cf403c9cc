"""Many jobs of one process: one budget for their stores, and one thread that makes them durable."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import SharedPlatform
from crawler.job.store.store_budget import files_left, open_tables, table_files
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from tests.memory_store import MemoryStore

SETTINGS = Settings()


class Synced(MemoryStore):
    """A store whose syncs take a while and are noted."""

    def __init__(self, name: str, log: list[tuple[str, str, int]]) -> None:
        super().__init__()
        self._name, self._log = name, log

    def sync(self) -> None:
        self._log.append((self._name, "begins", threading.get_ident()))
        time.sleep(0.01)
        self._log.append((self._name, "ends", threading.get_ident()))


def found(*hrefs: str) -> Found:
    urls = [Canonicaliser().canonicalise(href) for href in hrefs]
    return Found([url for url in urls if isinstance(url, Canonical)], 0)


async def test_one_thread_syncs_all_jobs_one_after_the_other_and_none_that_wrote_nothing(tmp_path: Path) -> None:
    log: list[tuple[str, str, int]] = []
    with SharedPlatform(3) as platform:
        jobs = {
            name: Job(
                tmp_path / name, SETTINGS, 0.0, replace(platform, open_store=lambda _, name=name: Synced(name, log))
            )
            for name in "abc"
        }
        await asyncio.gather(*(job.sync() for job in jobs.values()))  # what a killed process may have left
        log.clear()
        for name in "ac":
            jobs[name].admit(found(f"http://{name}.test/"))
        await asyncio.gather(*(job.sync() for job in jobs.values()))
        assert [(name, what) for name, what, _ in log] == [(n, w) for n in "ac" for w in ("begins", "ends")]
        assert len({thread for _, _, thread in log}) == 1
        assert log[0][2] != threading.get_ident()
        jobs.pop("a").close()
        jobs["b"].admit(found("http://b.test/"))
        await jobs["b"].sync()
        assert log[-1][:2] == ("b", "ends"), "the end of a job is not that of the thread"
        for job in jobs.values():
            job.close()


async def test_a_job_that_is_closed_waits_for_its_own_sync(tmp_path: Path) -> None:
    log: list[tuple[str, str, int]] = []
    with SharedPlatform(1) as platform:
        job = Job(tmp_path / "a", SETTINGS, 0.0, replace(platform, open_store=lambda _: Synced("a", log)))
        job.admit(found("http://a.test/"))
        syncing = asyncio.ensure_future(job.sync())
        await asyncio.sleep(0)
        job.close()
        assert log[-1][1] == "ends"
        await syncing


async def test_the_failed_disk_of_one_job_is_that_of_no_other(tmp_path: Path) -> None:
    class Failing(MemoryStore):
        def sync(self) -> None:
            raise OSError(5, "Input/output error")

    with SharedPlatform(2) as platform:
        bad = Job(tmp_path / "bad", SETTINGS, 0.0, replace(platform, open_store=lambda _: Failing()))
        good = Job(tmp_path / "good", SETTINGS, 0.0, platform)
        for job in (bad, good):
            job.admit(found("http://a.test/"))
        failed, fine = await asyncio.gather(bad.sync(), good.sync(), return_exceptions=True)
        assert isinstance(failed, OSError)
        assert fine is None
        with pytest.raises(OSError, match="Input/output error"):
            await bad.sync()
        for job in (bad, good):
            job.close()


@pytest.mark.parametrize("limit", [256, 1_024, 4_096, 65_536])
@pytest.mark.parametrize("stores", [1, 4, 16, 64])
def test_the_files_of_all_stores_are_within_the_limit(limit: int, stores: int) -> None:
    left, tables = files_left(limit, stores), table_files(limit, stores)
    assert left + stores * tables < limit
    few = open_tables(limit, stores)
    assert few is None or few == tables + 10
    if limit >= 4_096:
        assert left > 1_000, "enough for hundreds of URLs in flight"
        assert tables >= 23
