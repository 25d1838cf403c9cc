"""A crawl for programs without an event loop."""

from __future__ import annotations

import sqlite3
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

    stats = crawler.run(function, tmp_path / "job", site.url("/"), **OPTIONS)
    assert stats["pages_fetched"] == PAGES + 1, "the one that is not there too"
    good = [row for row in rows(tmp_path / "job") if row["status"] == 200]
    assert dict(table.execute("SELECT id, url FROM pages")) == {row["id"]: row["url"] for row in good}
    assert {row["url"]: row.get("data") for row in good} == {
        row["url"]: {"size": row["bytes"]} if row["depth"] else None for row in good
    }


def test_an_exception_ends_it_and_the_next_run_has_the_page_again(tmp_path: Path, site: Site) -> None:
    met: list[str] = []

    def fails(page: crawler.Page) -> None:
        met.append(page.id)
        if len(met) == 3:
            raise LookupError("the third")

    with pytest.raises(LookupError, match="the third"):
        crawler.run(fails, tmp_path / "job", site.url("/"), **OPTIONS)
    assert [row["id"] for row in rows(tmp_path / "job")] == met[:2]
    crawler.run(lambda page: met.append(page.id), tmp_path / "job", **OPTIONS)  # type: ignore[func-returns-value]
    assert met[2] in met[3:]
    assert len(rows(tmp_path / "job")) == PAGES


def test_several_threads_have_a_page_each(tmp_path: Path, site: Site) -> None:
    together, threads = threading.Barrier(3), set[int]()

    def function(page: crawler.Page) -> None:
        if page.depth == 0:
            together.wait(60)  # nobody passes it alone
            threads.add(threading.get_ident())

    seeds = [site.url(f"/page/{number}") for number in range(13, 19)]
    crawler.run(function, tmp_path / "job", seeds, threads=3, max_depth=1, **OPTIONS)
    assert len(threads) == 3


def test_what_is_dropped_is_in_no_output_but_has_a_record(tmp_path: Path, site: Site) -> None:
    def function(page: crawler.Page) -> Any:
        return crawler.DROP if page.depth else None

    crawler.run(function, tmp_path / "job", site.url("/"), output=["links"], **OPTIONS)
    assert len(rows(tmp_path / "job")) == PAGES
    assert [row["url"] for row in rows(tmp_path / "job") if "kept" in row] == [site.url("/")]


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seed"):
        crawler.run(lambda _: None, tmp_path / "job")
    with pytest.raises(TypeError, match="delay"):
        crawler.run(lambda _: None, tmp_path / "job", "http://h.test/", dealy=1)
    assert not (tmp_path / "job").exists()
