"""Start requests over several runs, and the seen-set as Scrapy asks it."""

from __future__ import annotations

from pathlib import Path

from scrapy import Request

from crawler.tools.scrapy.request_job import RequestJob
from crawler.tools.scrapy.start_requests import StartRequests
from tests.tools.scrapy.test_request_job import Clock, kill, opened


def run(directory: Path) -> tuple[RequestJob, StartRequests]:
    """A run of a spider begins."""
    job, start = opened(directory, Clock()), StartRequests()
    start.begin(job)
    return job, start


def due(start: StartRequests, *fingerprints: bytes) -> list[bool]:
    """Whether each is due, and queue those that are."""
    found = []
    for each in fingerprints:
        found.append(start.is_due(each))
        if found[-1]:
            start.queued(each)
    return found


def test_a_start_request_is_queued_by_the_first_run_that_comes_to_it(tmp_path: Path) -> None:
    job, start = run(tmp_path / "job")
    assert due(start, b"a", b"b") == [True, True]
    assert job.flush()
    kill(job)
    job, start = run(tmp_path / "job")
    assert due(start, b"a", b"b", b"c") == [False, False, True]
    kill(job)  # nothing was written
    job, start = run(tmp_path / "job")
    assert due(start, b"a", b"b", b"c", b"d") == [False, False, True, True]
    job.close()
    job, start = run(tmp_path / "job")
    assert due(start, b"d", b"c", b"b", b"a") == [False] * 4
    job.close()


def test_one_that_is_wanted_twice_is_queued_twice(tmp_path: Path) -> None:
    job, start = run(tmp_path / "job")
    assert due(start, b"a", b"a") == [True, True]
    job.close()
    job, start = run(tmp_path / "job")
    assert due(start, b"a", b"a", b"a") == [False, False, True]
    job.close()
    job, start = run(tmp_path / "job")
    assert due(start, b"a", b"a", b"a", b"a") == [False, False, False, True]
    job.close()


def test_one_that_is_only_in_memory_comes_again(tmp_path: Path) -> None:
    job, start = run(tmp_path / "job")
    assert start.is_due(b"a")
    assert due(start, b"b") == [True]
    job.close()
    job, start = run(tmp_path / "job")
    assert due(start, b"a", b"b") == [True, False]
    job.close()


def test_a_start_request_is_known_by_where_it_comes_from(tmp_path: Path) -> None:
    start = StartRequests()
    first, other = Request("http://h.test/"), Request("http://h.test/")
    assert list(start.process_start_requests([first, {"an": "item"}], None)) == [first, {"an": "item"}]
    assert not start.is_start(other), "another request that looks the same"
    assert start.is_start(first)
    assert not start.is_start(first), "a retry of it is none"


async def test_the_start_of_later_versions_is_asynchronous() -> None:
    async def given():  # type: ignore[no-untyped-def]
        yield request

    start, request = StartRequests(), Request("http://h.test/")
    assert [each async for each in start.process_start(given())] == [request]
    assert start.is_start(request)
