"""Functions of the user that add headers to requests, and that say whether a page has changed."""

from __future__ import annotations

import asyncio
import gzip
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import crawler
from crawler.base.settings.parts import CrawlSettings, PolitenessSettings, RecrawlSettings, RobotsSettings, Settings
from crawler.engine.handed_page import HandedPage
from crawler.engine.hooks.answers import CallFailed
from crawler.engine.hooks.requests import headers_of
from crawler.engine.run import Run
from crawler.engine.user_code import PreviousVisit, UserCode
from crawler.engine.worker import Worker
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.web.fetch import Response
from tests.driving import Unwatched
from tests.durability.power import Inline
from tests.engine.test_recrawl import with_etag
from tests.jobs import rows
from tests.library.test_crawl import OPTIONS
from tests.memory_store import MemoryStore
from tests.simulated_web import Answers, SimulatedWeb, page
from tests.site import Site, linked
from tests.virtual import run_virtually

START = 1_700_000_000.0
H = "http://h.test"


def crawl(job: Path, answers: Mapping[str, Answers], code: UserCode, max_time: float, compare: str = "body") -> int:
    """Visit the pages again and again; returns how many changes the job has counted."""
    settings = Settings(
        crawl=CrawlSettings(max_time=max_time),
        politeness=PolitenessSettings(delay=0.0),
        robots=RobotsSettings(ignore=True),
        recrawl=RecrawlSettings(enabled=True, policy="adaptive", mean_interval=8.0, min_interval=2.0, compare=compare),
    )

    async def crawled() -> int:
        loop = asyncio.get_running_loop()

        async def seeds() -> AsyncIterator[list[str]]:
            yield [f"{H}/"]

        def clock() -> float:
            return START + loop.time()

        made = Job(job, settings, clock(), Platform(open_store=lambda _: MemoryStore(), executor=Inline))
        with closing(made):
            worker = Worker(SimulatedWeb(answers), settings, clock, Unwatched())
            await worker.drive(Run(made, settings, worker.context.with_code(code), seeds()))
            return made.counters.revisits_changed

    return run_virtually(crawled())


def test_the_code_says_what_has_changed(tmp_path: Path) -> None:
    met: dict[str, list[PreviousVisit]] = defaultdict(list)
    version = 0

    def news(_: Mapping[str, str]) -> str:
        nonlocal version
        version += 1
        return f"<p>version {version}"

    async def is_changed(found: HandedPage, previous: PreviousVisit) -> bool | None:
        url = found.record.entry.href
        assert found.draft.body is not None
        met[url].append(previous)
        return {f"{H}/ad": False, f"{H}/same": True}.get(url)

    answers: dict[str, Answers] = {
        f"{H}/": linked(["/ad", "/same", "/news", "/etag", "/gone"]),
        f"{H}/ad": news,
        f"{H}/same": "<p>always the same",
        f"{H}/news": news,
        f"{H}/etag": with_etag(lambda: "<p>still"),
    }
    counted = crawl(tmp_path / "job", answers, UserCode(is_changed=is_changed), 200.0)
    said: dict[str, list[Any]] = defaultdict(list)
    for row in rows(tmp_path / "job"):
        said[row["url"]].append(row.get("changed"))
    assert set(said[f"{H}/ad"][1:]) == {False}
    assert set(said[f"{H}/same"][1:]) == {True}
    assert set(said[f"{H}/news"][1:]) == {True}, "where the code cannot say, the answers are compared"
    assert set(said[f"{H}/"][1:]) == {False}
    assert counted == len(said[f"{H}/same"]) + len(said[f"{H}/news"]) - 2
    assert len(said[f"{H}/same"]) > len(said[f"{H}/ad"]), "what changes is visited more often"
    assert set(met) == {f"{H}/", f"{H}/ad", f"{H}/same", f"{H}/news"}, "not about answers 304, nor errors"
    assert len(met[f"{H}/ad"]) == len(said[f"{H}/ad"]) - 1, "not about a first visit"
    assert [previous.visits for previous in met[f"{H}/same"]] == list(range(1, len(said[f"{H}/same"])))
    assert {previous.same for previous in met[f"{H}/ad"]} == {False}
    assert {previous.same for previous in met[f"{H}/same"]} == {True}
    assert met[f"{H}/same"][-1].changes == len(met[f"{H}/same"]) - 1


def test_headers_go_with_each_request_of_a_url_and_with_its_conditions(tmp_path: Path) -> None:
    sent: dict[str, list[dict[str, str]]] = defaultdict(list)

    async def headers(url: str) -> Mapping[str, str]:
        return {"X-Url": url, "if-modified-since": "never"} if url.endswith("/etag") else {}

    def noted(name: str, answer: Callable[[Mapping[str, str]], Response]) -> Answers:
        def answered(given: Mapping[str, str]) -> Response:
            sent[name].append(dict(given))
            return answer(given)

        return answered

    answers: dict[str, Answers] = {
        f"{H}/": noted("root", lambda _: page(linked(["/etag"]))),
        f"{H}/etag": noted("etag", with_etag(lambda: "<p>still")),
    }
    crawl(tmp_path / "job", answers, UserCode(headers=headers), 30.0)
    first, *later = sent["etag"]
    assert first == {"X-Url": f"{H}/etag", "if-modified-since": "never"}
    assert later
    assert all(given.keys() == {*first, "If-None-Match"} for given in later)
    assert sent["root"][0] == {}
    assert "never" not in str(later), "values are shown nowhere"


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([("X-A", "secret")], "list instead of a dict"),
        ({"X-A": 3}, "'X-A' whose name or value is not a str"),
        ({"X-A": "secret\r\nX-B: secret"}, "'X-A': headers must be lines"),
        ({"User-Agent": "secret"}, "the crawler writes it itself"),
        ({"Host": "secret"}, "the crawler writes it itself"),
        ({"": "secret"}, "must be lines"),
    ],
)
def test_headers_that_cannot_be_sent_are_a_failure_that_shows_no_value(returned: object, words: str) -> None:
    with pytest.raises(CallFailed) as failed:
        headers_of(returned)
    assert words in str(failed.value)
    assert "secret" not in str(failed.value)


async def test_functions_of_a_program(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Over real sockets: headers reach the server and no archive; failures are counted, and cost nothing else."""
    got: dict[str, str | None] = {}

    async def guarded(request: web.Request) -> web.Response:
        got[request.path] = request.headers.get("X-Token")
        return web.Response(text=linked(["/page", "/fails"]) + request.path, content_type="text/html")

    def headers(url: str) -> dict[str, str]:
        if url.endswith("/fails"):
            raise LookupError("no token")
        return {"X-Token": f"hidden-{url[-1]}"}

    def is_changed(page: crawler.Page, previous: Any) -> bool:
        raise AssertionError("no page is visited again")

    options = OPTIONS | {"request_headers": headers, "is_changed": is_changed, "output": ["warc"]}
    with Site({"/": guarded, "/page": guarded, "/fails": guarded}) as site:
        async with crawler.Crawl(tmp_path / "job", [site.url("/")], **options) as crawl:
            async for _ in crawl:
                pass
            hooks = crawl.stats()["hooks"]
        place = f"{__file__}:{headers.__code__.co_firstlineno + 2}"
        failure = f"request_headers failed on {site.url('/fails')}: {place}: LookupError: no token"
    assert got == {"/": "hidden-/", "/page": "hidden-e", "/fails": None}
    assert {name: (hook["calls"], hook["failed"]) for name, hook in hooks.items()} == {
        "request_headers": (3, 1),
        "is_changed": (0, 0),
    }
    assert failure in [record.getMessage() for record in caplog.records]
    (archive,) = (tmp_path / "job" / "warc").glob("*.warc.gz")
    kept = gzip.decompress(archive.read_bytes())
    assert b"GET /page HTTP/1.1" in kept
    assert b"hidden" not in kept
