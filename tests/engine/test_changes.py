"""Copies of a site that are kept by the changes of a crawl, on a virtual clock: they equal the web."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from msgspec.structs import replace

from crawler import Job as JobView
from crawler.base.settings.parts import RecrawlSettings, ScopeSettings, Settings
from crawler.inspect.record_stream import Tail
from crawler.job.output.changes import CursorError
from crawler.service.api import Api
from crawler.service.file_source import JobSource
from crawler.service.source import SourceView
from crawler.web.fetch import Response
from tests.engine.test_recrawl import START, crawl, settings
from tests.jobs import repair, rows, verify
from tests.simulated_web import Answers, page, redirect
from tests.site import linked
from tests.virtual import run_virtually

RECRAWL = RecrawlSettings(enabled=True, policy="adaptive", mean_interval=4.0, min_interval=4.0, max_interval=8.0)
SECONDS = 20.0  # of a run: two visits of each page at least


class Copy:
    """What somebody has who applies the changes of a job: the size of each page, by URL."""

    def __init__(self, job: Path) -> None:
        self.job = job
        self.pages: dict[str, int] = {}
        self.cursor = "0"
        self.seen: list[str] = []

    def catch_up(self) -> None:
        for record in JobView(self.job).changes(self.cursor):
            match record["change"]:
                case "insert" | "update":
                    self.pages[record["url"]] = record["bytes"]
                case "delete":
                    self.pages.pop(record["url"], None)
            self.cursor = record["cursor"]
            self.seen.append(record["change"])


def versioned(name: str, size: int) -> Answers:
    """A page of that many bytes, with an ETag; another size is another version."""
    body = f"<title>{name}</title>".encode().ljust(size, b".")

    def answer(headers: Mapping[str, str]) -> Response:
        etag = f'"{size}"'
        if headers.get("If-None-Match") == etag:
            return Response(304, {"ETag": etag}, None, None, b"", None, None, 0.0, 0)
        return Response(200, {"ETag": etag}, "text/html", "utf-8", body, None, None, 0.0, size)

    return answer


BASE = "http://h.test/"
NAMES = [f"{BASE}{number}" for number in range(12)]
START_PAGE = linked([f"/{number}" for number in range(12)])


def how(**scope: Any) -> Settings:
    return replace(settings(SECONDS, recrawl=RECRAWL), scope=ScopeSettings(**scope))


def test_a_copy_equals_a_web_whose_pages_come_change_move_and_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.frontier.revisits.GONE_AFTER", 256)
    chance, copy = random.Random(1), Copy(tmp_path / "job")
    asked: list[tuple[float, str]] = []
    pages: dict[str, Answers] = {BASE: START_PAGE}
    there: dict[str, int] = {BASE: len(START_PAGE)}
    sizes = iter(range(100, 10_000))
    for round_ in range(4):
        excluded = set(chance.sample(NAMES, 3)) if round_ % 2 else set()
        for name in NAMES:
            match chance.choice(["page", "page", "same", "same", "404", "410", "moved"]):
                case "page":
                    there[name] = next(sizes)
                    pages[name] = versioned(name, there[name])
                case "404" | "410" as status:
                    pages[name] = page("no more", status=int(status))
                    there.pop(name, None)
                case "moved":
                    pages[name] = redirect("/")
                    there.pop(name, None)
        run_virtually(crawl(copy.job, pages, asked, how(exclude=tuple(excluded))))
        copy.catch_up()
        assert copy.pages == {name: size for name, size in there.items() if name not in excluded}
    assert set(copy.seen) == {"insert", "update", "unchanged", "delete"}
    assert len(copy.seen) == len(rows(copy.job))


def test_a_page_that_comes_back_as_it_was_is_brought_again(tmp_path: Path) -> None:
    """It was deleted, so a 304 or ``changed: false`` would leave the copy without it."""
    copy, asked = Copy(tmp_path / "job"), list[tuple[float, str]]()
    pages: dict[str, Answers] = {BASE: START_PAGE, **{name: versioned(name, 200) for name in NAMES}}
    for excluded, change in (((), "insert"), ((NAMES[3],), "delete"), ((), "update")):
        run_virtually(crawl(copy.job, pages, asked, how(exclude=excluded)))
        copy.catch_up()
        assert (NAMES[3] in copy.pages) == (not excluded)
        assert change in copy.seen
        copy.seen.clear()


def test_what_a_repair_cuts_off_is_refused_as_a_place_and_brought_again(tmp_path: Path) -> None:
    job, asked = tmp_path / "job", list[tuple[float, str]]()
    pages: dict[str, Answers] = {BASE: START_PAGE, **{name: versioned(name, 200) for name in NAMES}}
    run_virtually(crawl(job, pages, asked, how()))
    before = Copy(job)
    before.catch_up()
    pages |= {name: versioned(name, 300) for name in NAMES}
    run_virtually(crawl(job, pages, asked, how()))
    after = Copy(job)
    after.catch_up()
    assert set(after.pages.values()) == {300, len(START_PAGE)}
    path = job / "pages.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    kept = len(before.seen) + 3
    path.write_bytes(b"".join(lines[:kept]))  # the records of the changes are gone, what pages looked like is not
    assert repair(job).code == 0
    assert verify(job).code == 0
    with pytest.raises(CursorError):
        after.catch_up()
    before.catch_up()
    assert len(before.seen) == kept
    run_virtually(crawl(job, pages, asked, how()))
    before.catch_up()
    assert set(before.pages.values()) == {300, len(START_PAGE)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = tmp_path_factory.mktemp("changes") / "job"
    pages: dict[str, Answers] = {BASE: START_PAGE, **{name: versioned(name, 200) for name in NAMES}}
    run_virtually(crawl(job, pages, [], how()))
    return job


def test_every_cursor_leads_to_what_follows_its_record(made: Path, tmp_path: Path) -> None:
    found = list(JobView(made).changes())
    assert [{key: row[key] for key in row if key not in ("change", "cursor")} for row in found] == rows(made)
    for number in (0, len(found) // 2, len(found) - 1):
        assert list(JobView(made).changes(found[number]["cursor"])) == found[number + 1 :]
    tail = Tail(made, ["failed"])
    assert tail.resume("0")
    assert list(tail.changes()) == []
    run_virtually(crawl(tmp_path / "other", {BASE: START_PAGE}, [(START + 1, BASE)], how()))
    with pytest.raises(ValueError):  # noqa: PT011
        list(JobView(tmp_path / "other").changes(found[0]["cursor"]))


def test_the_api_gives_the_changes_in_parts(made: Path) -> None:
    async def asked() -> None:
        view = SourceView(JobSource(made, lambda: START))
        (ask,) = [route.handler for route in Api(view).routes() if route.path == "/api/changes"]

        async def answer(query: str) -> Any:
            said: Any = await ask(make_mocked_request("GET", f"/api/changes{query}"))
            return json.loads(said.text)

        found, cursor = list[Any](), "0"
        while (part := await answer(f"?since={cursor}&limit=7"))["changes"]:
            assert len(part["changes"]) <= 7
            found, cursor = found + part["changes"], part["cursor"]
        assert part["cursor"] == cursor == found[-1]["cursor"]
        assert found == list(JobView(made).changes())
        assert (await answer(""))["changes"] == found[:100]
        with pytest.raises(web.HTTPBadRequest):
            await answer("?since=1-0-7-0011223344556677")
        await view.close()

    asyncio.run(asked())
