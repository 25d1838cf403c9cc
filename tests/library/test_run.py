"""A crawl for programs without an event loop."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import crawler
from tests.jobs import rows
from tests.library.test_crawl import OPTIONS, PAGES
from tests.site import Site, tree


@pytest.fixture(scope="module")
def site() -> Any:
    with Site(tree(PAGES)) as served:
        yield served


def test_a_function_is_called_with_each_page_in_the_thread_of_the_program(tmp_path: Path, site: Site) -> None:
    table = sqlite3.connect(":memory:")  # refuses to be used by another thread
    table.execute("CREATE TABLE pages (id TEXT PRIMARY KEY, url TEXT)")

    def function(page: crawler.Page) -> Any:
        table.execute("INSERT INTO pages VALUES (?, ?)", (page.id, page.url))
        assert page.follow("/not-linked") or page.depth
        return {"size": len(page.body)} if page.depth else None

    stats = crawler.run(function, tmp_path / "job", site.url("/"), **OPTIONS).stats
    assert stats["pages_fetched"] == PAGES + 1, "the one that is not there too"
    good = [row for row in rows(tmp_path / "job") if row["status"] == 200]
    assert dict(table.execute("SELECT id, url FROM pages")) == {row["id"]: row["url"] for row in good}
    assert {row["url"]: row.get("data") for row in good} == {
        row["url"]: {"size": row["bytes"]} if row["depth"] else None for row in good
    }


def test_the_result_reads_the_job_as_records_and_as_tables(tmp_path: Path, site: Site, capsys: Any) -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    seeds = [site.url("/page/19"), f"http://127.0.0.1:{closed.getsockname()[1]}/"]
    closed.close()
    options = OPTIONS | {"max_depth": 0, "config": tmp_path / "crawl.toml", "progress": True}
    (tmp_path / "crawl.toml").write_text("[retry]\ntries = 1\n")
    result = crawler.run(lambda page: {"n": [1]}, tmp_path / "job", seeds, **options)
    assert [record["url"] for record in result.pages] == [record["url"] for record in result.pages] == seeds[:1]
    assert [record["url"] for record in result.failed] == seeds[1:]
    assert repr(result) == f"<CrawlResult 1 page (1 in this run), 1 failed, 0 pending, in {tmp_path / 'job'}>"
    again = crawler.run(lambda page: {"n": [2]}, tmp_path / "job", **OPTIONS, max_depth=0)
    assert "1 page (0 in this run)" in repr(again)
    assert repr(result.job) == f"<Job {tmp_path / 'job'}: 1 fetched, 1 failed, 0 pending>"
    assert repr(result.job.records("failed", "blocked")) == f"<Records of {tmp_path / 'job'}: failed, blocked>"
    with pytest.raises(ValueError, match="'fetchd'"):
        result.job.records("fetchd")
    assert "1 URL failed, 0 pending" in capsys.readouterr().err.splitlines()[-1]

    table = result.job.records().to_arrow()
    assert sorted(table["url"].to_pylist()) == sorted(seeds)
    frame = result.pages.to_pandas()
    assert (frame["status"][0], frame["outcome"][0], frame["data"][0]) == (200, "fetched", '{"n":[1]}')
    assert frame["fetched_at"].dt.year[0] >= 2026
    assert list(result.job.records("redirect").to_pandas().columns) == table.column_names, "also without a record"
    pages = result.pages
    assert list(pages) == list(pages)
    assert len(pages.to_arrow()) == len(list(pages)) == 1


@pytest.mark.parametrize(
    ("missing", "asked"), [("pyarrow", "to_arrow"), ("pyarrow", "to_pandas"), ("pandas", "to_pandas")]
)
def test_a_table_without_its_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, asked: str
) -> None:
    with crawler.Frontier(tmp_path / "job"):
        pass
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=f"pip install {missing}$"):
        getattr(crawler.Job(tmp_path / "job").records(), asked)()


def test_an_exception_ends_it_and_the_next_run_has_the_page_again(tmp_path: Path, site: Site) -> None:
    met: list[str] = []

    def fails(page: crawler.Page) -> None:
        met.append(page.id)
        if len(met) == 3:
            raise LookupError("the third")

    with pytest.raises(LookupError, match="the third") as failed:
        crawler.run(fails, tmp_path / "job", site.url("/"), **OPTIONS)
    assert site.url("/page/") in failed.value.__notes__[0]
    assert [row["id"] for row in rows(tmp_path / "job")] == met[:2]
    crawler.run(lambda page: met.append(page.id), tmp_path / "job", **OPTIONS)  # type: ignore[func-returns-value]
    assert met[2] in met[3:]
    assert len(rows(tmp_path / "job")) == PAGES


def test_what_one_thread_raises_is_raised_though_others_are_in_their_calls(tmp_path: Path, site: Site) -> None:
    together = threading.Barrier(3)
    crawls = [thread for thread in threading.enumerate() if thread.name == "crawl_0"]

    def function(page: crawler.Page) -> None:
        if together.wait(60) == 2:
            raise ZeroDivisionError("mine")
        for thread in threading.enumerate():
            if thread.name == "crawl_0" and thread not in crawls:
                thread.join(60)  # the call returns when the crawl has stopped

    seeds = [site.url(f"/page/{number}") for number in range(13, 19)]
    with pytest.raises(ZeroDivisionError, match="mine"):
        crawler.run(function, tmp_path / "job", seeds, threads=3, **OPTIONS)
    assert not rows(tmp_path / "job")


@pytest.mark.parametrize("threads", [None, 2])
def test_an_interrupt_stops_the_crawl_and_names_the_job(tmp_path: Path, site: Site, threads: int | None) -> None:
    def interrupts(_: crawler.Page) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=str(tmp_path / "job")):
        crawler.run(interrupts, tmp_path / "job", site.url("/"), threads=threads, **OPTIONS)
    crawler.run(lambda _: None, tmp_path / "job", **OPTIONS)
    assert len(rows(tmp_path / "job")) == PAGES


async def async_function(_: crawler.Page) -> None:
    """Nobody would await it."""


@pytest.mark.parametrize(
    ("function", "options", "error"),
    [
        (async_function, {}, TypeError),
        ("products:product", {}, TypeError),
        (lambda: None, {}, ValueError),
        (lambda _: None, {"threads": 0}, ValueError),
        (lambda _: None, {"threads": "4"}, TypeError),
    ],
)
def test_what_run_cannot_call_is_refused_before_anything_happens(
    tmp_path: Path, function: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        crawler.run(function, tmp_path / "job", "http://h.test/", **options)
    assert not (tmp_path / "job").exists()


def replaced(page: crawler.Page) -> None:
    setattr(page, "data", 3)  # noqa: B010 -- not what it is typed for


@pytest.mark.parametrize(
    ("function", "threads", "error"),
    [
        (lambda _: [1], None, TypeError),
        (async_function.__call__, None, TypeError),
        (lambda _: {"good": 1, "bad": {1}}, 2, TypeError),
        (lambda _: {"bad": "\ud800"}, None, ValueError),
        (replaced, None, AttributeError),
    ],
)
def test_what_a_function_may_not_say_ends_the_crawl_and_the_page_comes_again(
    tmp_path: Path, site: Site, function: Any, threads: int | None, error: type[Exception]
) -> None:
    job, url = tmp_path / "job", site.url("/page/19")
    with pytest.raises(error):
        crawler.run(function, job, url, threads=threads, max_depth=0, **OPTIONS)
    assert not (job / "pages.jsonl").exists() or not rows(job)
    met: list[str] = []
    crawler.run(lambda page: met.append(page.url), job, max_depth=0, **OPTIONS)  # type: ignore[func-returns-value]
    assert met == [url]


@pytest.mark.parametrize("threads", [None, 2])
def test_a_function_that_stops_the_crawl_is_named(tmp_path: Path, site: Site, threads: int | None) -> None:
    def rates(page: crawler.Page) -> float:
        raise KeyError(page.status)

    job, met = tmp_path / "job", list[str]()
    with pytest.raises(crawler.CodeFailed):
        crawler.run(
            lambda page: met.append(page.url),  # type: ignore[func-returns-value]
            job,
            site.url("/"),
            threads=threads,
            score_page=rates,
            on_error="stop",
            **OPTIONS,
        )
    assert not met
    crawler.run(lambda page: met.append(page.url), job, **OPTIONS)  # type: ignore[func-returns-value]
    assert site.url("/") in met


def test_a_crawl_that_could_fetch_no_seed_does_not_end_normally(tmp_path: Path, site: Site) -> None:
    refused = OPTIONS | {"allow_private": False}
    with pytest.raises(crawler.NoSeedFetched, match=f"{site.url('/')}.* allow_private or allow_network"):
        crawler.run(lambda _: None, tmp_path / "job", site.url("/"), **refused)

    async def left_at_once() -> None:
        async with crawler.Crawl(tmp_path / "left", [site.url("/")], **OPTIONS):
            pass  # it is stopped before it has fetched anything

    async def looped() -> None:
        async with crawler.Crawl(tmp_path / "job", [site.url("/")], **refused) as crawl:
            assert [page async for page in crawl] == []

    asyncio.run(left_at_once())
    with pytest.raises(crawler.NoSeedFetched):
        asyncio.run(looped())
    crawler.run(lambda _: None, tmp_path / "job", site.url("/"), **OPTIONS)
