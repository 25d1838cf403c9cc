"""A crawl as a loop: what a page says, when it is finished, and what becomes of pages that are not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import crawler
from tests.jobs import rows
from tests.site import Site, linked, tree

PAGES = 20
OPTIONS: dict[str, Any] = {"allow_private": True, "delay": 0.0, "per_host": 4, "concurrency": 8, "capacity": 4096}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    async def image(_: web.Request) -> web.Response:
        return web.Response(body=b"\x89PNG", content_type="image/png")

    async def old(_: web.Request) -> web.Response:
        page = "<title>grüße</title><a href=/page/1>x</a>".encode("latin-1")
        headers = {"Content-Type": "text/html; charset=latin-1", "X-Name": "a b"}
        return web.Response(body=page, headers=headers)

    pages = tree(PAGES) | {"/hidden": linked(["/page/1"]), "/image": image, "/old": old, "/far": linked(["/image"])}
    with Site(pages) as served:
        yield served


async def looped(job: Path, site: Site, **options: Any) -> list[crawler.Page]:
    """All pages of a crawl that goes on to its end."""
    found = []
    async with crawler.Crawl(job, [site.url("/")], **OPTIONS, **options) as crawl:
        async for page in crawl:
            found.append(page)
    return found


async def test_each_page_is_delivered_and_has_one_record(tmp_path: Path, site: Site) -> None:
    async with crawler.Crawl(tmp_path / "job", site.url("/"), **OPTIONS) as crawl:
        async for page in crawl:
            if page.depth == 0:
                assert await page.follow("/hidden")
                assert not await page.follow("http://other.test/")
                assert not await page.follow("mailto:somebody@h.test")
                with pytest.raises(TypeError):
                    page.follow(None)  # type: ignore[arg-type]
            page.data["links"] = len(page.links)
    written = rows(tmp_path / "job")
    assert {row["url"] for row in written} == {site.url("/hidden")} | {site.url(path) for path in tree(PAGES)}
    assert len(written) == PAGES + 1
    assert all(row["data"] == {"links": row["links"]} for row in written)
    assert len({row["id"] for row in written}) == len(written)


async def test_a_page_says_what_was_answered(tmp_path: Path, site: Site) -> None:
    async with crawler.Crawl(tmp_path / "job", [site.url("/old")], max_depth=0, **OPTIONS) as crawl:
        async for page in crawl:
            assert (page.url, page.status, page.depth, page.via, page.visit) == (site.url("/old"), 200, 0, None, 1)
            assert page.headers["x-name"] == "a b"
            assert (page.content_type, page.charset) == ("text/html", "windows-1252")
            assert page.body == "<title>grüße</title><a href=/page/1>x</a>".encode("latin-1")
            assert page.html.startswith("<title>grüße</title>")
            assert [(link.url, link.text) for link in page.links] == [(site.url("/page/1"), "x")]
            assert page.title == page.record["title"] == "grüße"
            assert page.record["id"] == page.id
            kept = page.id
    assert [(row["id"], row["title"]) for row in rows(tmp_path / "job")] == [(kept, "grüße")]


async def test_every_type_and_status_can_be_asked_for(tmp_path: Path, site: Site) -> None:
    seeds = [site.url(path) for path in ("/image", "/none", "/page/19")]
    found = {}
    options = OPTIONS | {"max_depth": 0}
    crawl = crawler.Crawl(tmp_path / "job", seeds, types=["image/*", "text/html"], statuses=["404", "2xx"], **options)
    async with crawl:
        async for page in crawl:
            found[page.url] = (page.status, page.body[:4])
    assert found == {seeds[0]: (200, b"\x89PNG"), seeds[1]: (404, b"no s"), seeds[2]: (200, b"<!do")}
    async with crawler.Crawl(tmp_path / "only", seeds, types=["image/png"], **options) as crawl:
        assert [page.url async for page in crawl] == [seeds[0]]
    assert len(rows(tmp_path / "only")) == 3


async def test_a_finished_page_does_not_change(tmp_path: Path, site: Site) -> None:
    async with crawler.Crawl(tmp_path / "job", [site.url("/page/19")], max_depth=0, **OPTIONS) as crawl:
        async for page in crawl:
            page.data["bad"] = object()
            with pytest.raises(TypeError):
                await page.done()
            page.data["bad"] = 1
            assert await page.done()
            with pytest.raises(RuntimeError, match="finished"):
                page.data["bad"] = 2
            with pytest.raises(RuntimeError, match="finished"):
                page.data.update(bad=2)
            with pytest.raises(RuntimeError, match="finished"):
                page.follow("/")
            assert page.data == {"bad": 1}
    assert [row["data"] for row in rows(tmp_path / "job")] == [{"bad": 1}]


async def test_a_loop_that_is_left_gets_the_page_in_hand_again(tmp_path: Path, site: Site) -> None:
    job, ids = tmp_path / "job", []
    async with crawler.Crawl(job, [site.url("/")], **OPTIONS) as crawl:
        async for page in crawl:
            ids.append(page.id)
            if len(ids) == 5:
                break
    assert [row["id"] for row in rows(job)] == ids[:4]
    again = [page.id for page in await looped(job, site)]
    assert ids[4] in again
    assert not set(ids[:4]) & set(again)
    assert Counter(row["id"] for row in rows(job)) == Counter([*ids[:4], *again])
    assert len(rows(job)) == PAGES


async def test_an_exception_stops_the_crawl_and_the_page_is_delivered_again(tmp_path: Path, site: Site) -> None:
    job, failed = tmp_path / "job", ""

    async def fails() -> None:
        nonlocal failed
        async with crawler.Crawl(job, [site.url("/")], **OPTIONS) as crawl:
            async for page in crawl:
                failed = page.id
                if page.url.endswith("/1"):
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    assert failed not in {row["id"] for row in rows(job)}
    assert failed in {page.id for page in await looped(job, site)}
    assert len(rows(job)) == PAGES


async def test_a_job_is_free_when_its_opening_was_cancelled(tmp_path: Path, site: Site) -> None:
    for turns in range(4):
        opening = asyncio.create_task(crawler.Crawl(tmp_path / "job", [site.url("/")], **OPTIONS).__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert len(await looped(tmp_path / "job", site)) == PAGES


async def test_tasks_share_a_crawl_and_each_has_its_own_page(tmp_path: Path, site: Site) -> None:
    together, done = asyncio.Barrier(3), list[str]()
    seeds = [site.url(f"/page/{number}") for number in range(13, 19)]

    async def work(crawl: crawler.Crawl) -> None:
        async for page in crawl:
            async with asyncio.timeout(60):
                await together.wait()  # nobody passes it alone
            done.append(page.url)

    async with crawler.Crawl(tmp_path / "job", seeds, max_depth=0, **OPTIONS) as crawl:
        await asyncio.gather(*(work(crawl) for _ in range(3)))
        assert crawl.stats()["pages_fetched"] == len(seeds)
    assert sorted(done) == sorted(seeds) == sorted(row["url"] for row in rows(tmp_path / "job"))


async def test_what_cannot_be_used_is_refused_and_changes_nothing(tmp_path: Path, site: Site) -> None:
    job = tmp_path / "job"
    seeds, config = [site.url("/")], tmp_path / "crawl.toml"
    config.write_text("[politeness]\ndelay = 1.0\n")
    for wrong, error in [
        ({"dealy": 1}, TypeError),
        ({"delay": "fast"}, ValueError),
        ({"config": config, "seen": "bloomy"}, ValueError),
        ({"include": [3]}, ValueError),
        ({"output": "-"}, ValueError),
        ({"on_page": "shop:page"}, ValueError),
        ({"types": ["html"]}, ValueError),
        ({"types": None}, ValueError),
        ({"statuses": [200]}, ValueError),
        ({"on_page_timeout": "long"}, ValueError),
    ]:
        with pytest.raises(error, match=f"(^|option '){[*wrong][-1]}"):
            crawler.Crawl(job, seeds, **wrong)
    for name in ("tries", "retry_tries", "retries"):
        with pytest.raises(TypeError, match=r"tries under \[retry\].*config="):
            crawler.Crawl(job, seeds, **{name: 1})  # type: ignore[arg-type]
    for none in ([], ["mailto:a@b.test"], ["shop"], ["/x"]):
        with pytest.raises(ValueError, match=none[0] if none else "seed"):
            crawler.Crawl(job, none)
    for wrong_seeds in (3, [b"http://h.test/"], b"http://h.test/"):
        with pytest.raises(TypeError):
            crawler.Crawl(job, wrong_seeds)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        await anext(aiter(crawler.Crawl(job, seeds)))
    assert not job.exists()
    async with crawler.Crawl(job, seeds, **OPTIONS):
        with pytest.raises(crawler.JobError):
            async with crawler.Crawl(job, seeds, **OPTIONS):
                raise AssertionError


async def test_functions_that_score_and_filter(tmp_path: Path, site: Site) -> None:
    met: list[crawler.Link] = []

    def score(links: list[crawler.Link]) -> list[float]:
        met.extend(links)
        return [0.5] * len(links)

    async def rate(page: crawler.Page) -> float:
        assert isinstance(page, crawler.Page)
        with pytest.raises(RuntimeError):
            page.done()
        return 0.25 * page.depth

    options = OPTIONS | {"score_links": score, "score_page": rate, "filter_link": lambda link: link.url[-1] != "3"}
    async with crawler.Crawl(tmp_path / "job", [site.url("/")], **options, relevant_score=0.25) as crawl:
        async for page in crawl:
            assert page.record["score"] == 0.25 * page.depth
            page.data["links"] = len(page.links)
            if page.depth == 0:
                assert await page.follow("/hidden")
    written = {row["url"].removeprefix(site.url("")): row for row in rows(tmp_path / "job")}
    assert "/hidden" in written
    assert not {"/page/3", "/page/13"} & set(written)
    assert all(
        row["data"] == {"links": row["links"]} and row["score"] == 0.25 * row["depth"] for row in written.values()
    )
    assert crawler.Link(site.url("/hidden"), site.url("/"), kind="own", depth=1, page_score=0.0) in met
    harvest = crawl.stats()["harvest"]
    assert (harvest["rated"], harvest["relevant"]) == (len(written), len(written) - 1)
    run = json.loads((tmp_path / "job" / "run.json").read_text().partition("\n")[2])
    assert str(run).count("test_functions_that_score_and_filter.<locals>.score'"), "explain names it"


async def test_the_loop_alone_decides_and_what_it_follows_may_redirect(tmp_path: Path) -> None:
    async def moved(_: web.Request) -> web.Response:
        return web.Response(status=301, headers={"Location": "/new"})

    pages = {"/": linked(["/moved", "/other"]), "/moved": moved, "/new": linked(["/other"]), "/other": linked(["/"])}
    with Site(pages) as site:
        options = OPTIONS | {"filter_link": lambda link: link.kind == "redirect"}
        async with crawler.Crawl(tmp_path / "job", site.url("/"), **options) as crawl:
            async for page in crawl:
                page.follow("/moved")
        assert [row["url"] for row in rows(tmp_path / "job")] == [site.url(path) for path in ("/", "/moved", "/new")]


FAILING: list[tuple[str, Any]] = [
    ("score_page", lambda page: 1 / 0),
    ("score_links", lambda links: [1 / 0]),
    ("filter_link", lambda link: 1 / 0),
    ("request_headers", lambda url: 1 / 0),
]


@pytest.mark.parametrize(("setting", "function"), FAILING, ids=[setting for setting, _ in FAILING])
async def test_a_loop_over_a_crawl_that_its_function_stops_does_not_end_normally(
    tmp_path: Path, site: Site, setting: str, function: Any
) -> None:
    options = OPTIONS | {setting: function, "on_error": "stop"}
    words = rf"^{setting} failed on {site.url('/')}\S*: .*test_crawl\.py:[0-9]+: ZeroDivisionError: division by zero$"

    async def loops() -> None:
        async with crawler.Crawl(tmp_path / "loop", [site.url("/")], **options) as crawl:
            async for _ in crawl:
                raise AssertionError

    async def leaves() -> None:
        crawl = crawler.Crawl(tmp_path / "left", [site.url("/")], **options)
        async with crawl:
            with contextlib.suppress(crawler.CodeFailed):
                await anext(aiter(crawl))

    for stopped in (loops, leaves):
        with pytest.raises(crawler.CodeFailed, match=words):
            await stopped()
