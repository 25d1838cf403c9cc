"""Pages that a browser renders, in the life of a crawl. What the browser does is made up, but for the last tests."""

from __future__ import annotations

import asyncio
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import (
    BrowserSettings,
    OutputSettings,
    PolitenessSettings,
    RecrawlSettings,
    SitesSettings,
    SiteTable,
)
from crawler.engine.lifecycle import Stop
from crawler.engine.rendering import renderer
from crawler.web.archive.warc_reader import read_records
from crawler.web.browser.rendered import Answer, Ask, Budget, Kind, NotRendered, Refusal, Refused, Rendered, SubRequest
from crawler.web.fetch import Response
from tests.laboratory import SETTINGS, Laboratory, links

ENGINE = "headless-shell 1.2"
SHELL = "<title>Shell</title><div id=root></div><script src=/app.js></script>"


class MadeUp:
    """A browser whose scripts write what ``/api`` answers; ``results`` says otherwise for some URLs."""

    def __init__(self, results: dict[str, Any] | None = None, seconds: float = 0.0) -> None:
        self.results = results or {}
        self.seconds = seconds
        self.rendered: list[str] = []
        self.most = self.now = 0

    async def render(self, url: str, raw: Answer, ask: Ask, budget: Budget) -> Rendered | NotRendered:
        self.rendered.append(url)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.seconds)
            result = self.results.get(url)
            if isinstance(result, list):
                result = result.pop(0)
            if result is not None:
                return result
            answer = await ask(SubRequest(url.rpartition("/")[0] + "/api", "GET", Kind.DATA, {}))
            assert isinstance(answer, Answer)
            return page(b"<title>Made</title>" + answer.body, url)
        finally:
            self.now -= 1

    async def close(self) -> None:
        self.rendered.append("closed")


def page(html: bytes, url: str, **more: Any) -> Rendered:
    return Rendered(html, url, ENGINE, 0.0712, **more)


def laboratory(
    directory: Path, pages: dict[str, Any], browser: MadeUp, monkeypatch: pytest.MonkeyPatch, **parts: Any
) -> Laboratory:
    monkeypatch.setattr(renderer, "browser_of", lambda settings, directory: browser)
    settings = replace(SETTINGS, browser=BrowserSettings(when="always"), **parts)
    return Laboratory(directory, pages, settings)


def record(lab: Laboratory, url: str) -> dict[str, Any]:
    return next(each for each in reversed(lab.records()) if each["url"] == url)


AT = "http://a.test/"
REFUSED = (Refused(Refusal.ROBOTS, "http://a.test/data"), Refused(Refusal.TYPE, "http://a.test/p.png"))
STRIPPED = b'<title>Made</title><meta name=robots content="%s"><a href=http://a.test/made>x</a>'


@pytest.mark.parametrize(
    ("result", "expected", "followed"),
    [
        (page(STRIPPED % b"noindex", AT), {"rendered": "yes", "title": "Made", "robots": ["noindex"]}, {"made"}),
        (page(STRIPPED % b"nofollow", f"{AT}pushed", moved=f"{AT}moved"), {"rendered": "yes", "links": 0}, set()),
        (page(STRIPPED % b"all", f"{AT}pushed#x", moved=f"{AT}moved"), {"links": 3}, {"made", "pushed", "moved"}),
        (page(STRIPPED % b"all", AT, refused=REFUSED), {"rendered": "partly", "rendered_for": "always"}, {"made"}),
        (page(STRIPPED % b"all", AT, refused=REFUSED[1:]), {"rendered": "yes", "engine_ms": 71}, {"made"}),
        (page(STRIPPED % b"all", AT, cut="time"), {"rendered": "partly", "engine": ENGINE}, {"made"}),
        (NotRendered("hung"), {"error": "not rendered: hung", "title": "Shell", "links": 1, "rendered": None}, {"raw"}),
        ([NotRendered("killed", died=True), page(STRIPPED % b"all", AT)], {"rendered": "yes"}, {"made"}),
    ],
)
def test_a_page_is_what_its_scripts_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Any, expected: dict[str, Any], followed: set[str]
) -> None:
    browser = MadeUp({AT: result})
    raw = Response(200, {"ETag": "e"}, "text/html", "windows-1252", (SHELL + "<a href=raw>").encode(), None, None, 0, 0)
    lab = laboratory(tmp_path, {AT: raw} | {f"{AT}{name}": 404 for name in ("raw", "made")}, browser, monkeypatch)
    assert lab.run(AT) is Stop.FINISHED
    own = record(lab, AT)
    assert {key: own.get(key) for key in expected} == expected
    assert (own["status"], own["bytes"], own["charset"], own["etag"]) == (
        200,
        len(raw.body or b""),
        "windows-1252",
        "e",
    )
    assert {each["url"] for each in lab.records()} == {AT, *(AT + name for name in followed)}
    assert browser.rendered[-1] == "closed"


def test_only_pages_are_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = "<title>Just a moment...</title><script>window._cf_chl_opt = {}</script>"
    names = ["page", "gone", "wall", "api", "data"]
    pages: dict[str, Any] = {AT: links(names), f"{AT}page": SHELL, f"{AT}wall": wall, f"{AT}gone": 404}
    pages |= {f"{AT}api": Response(200, {}, "application/json", None, b"", None, None, 0.0, 0)}
    pages |= {f"{AT}data": Response(404, {}, "text/html", None, SHELL.encode(), None, None, 0.0, 0)}
    browser = MadeUp({AT: page(links(names).encode(), AT)})
    laboratory(tmp_path, pages, browser, monkeypatch).run(AT)
    assert browser.rendered == [AT, f"{AT}page", "closed"]


def test_the_archive_has_the_answer_what_it_asked_for_and_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = OutputSettings(keep=("warc",))
    pages: dict[str, Any] = {AT: SHELL, f"{AT}api": "<a href=x.png>"}
    lab = laboratory(tmp_path, pages, MadeUp(), monkeypatch, output=output)
    lab.run(AT)
    data = (tmp_path / "warc" / "crawl-000001.warc.gz").read_bytes()
    found = [each for each in read_records(BytesIO(data).read, 1 << 20) if each.fields["warc-type"] != "warcinfo"]
    kinds = [(each.fields["warc-type"], each.fields["warc-target-uri"]) for each in found]
    print(kinds)
    assert 0


def test_many_pages_that_wait_for_a_tab_leave_other_hosts_their_pace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [f"http://{kind}{n}.test/" for kind in ("app", "plain") for n in range(5)]
    pages: dict[str, Any] = {}
    for host in hosts:
        pages |= {host: links([str(n) for n in range(40)]), f"{host}api": links([str(n) for n in range(40)])}
        pages |= {f"{host}{n}": SHELL for n in range(40)}
    browser = MadeUp(seconds=2.0)
    lab = laboratory(tmp_path, pages, browser, monkeypatch, politeness=PolitenessSettings(delay=0.1))
    tables = tuple(SiteTable(f"plain{n}.test", browser="never") for n in range(5))
    lab.settings = replace(lab.settings, site=SitesSettings(tables))
    assert lab.run(*hosts) is Stop.FINISHED
    assert len(lab.records()) == 10 * 42 - 5
    assert browser.most == 3, "fewer than half of the slots"
    for n in range(5):
        asked = [each.begin for each in lab.requests_to(f"plain{n}.test")]
        assert asked[-1] - asked[0] < 1.5 * 41 * 0.3, "a gap and an answer each"


def test_a_rendered_page_is_visited_again_without_a_condition_and_compared_by_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [page(f"<p>{text} and some words".encode(), AT) for text in ("one", "one", "two", "two")]
    raw = Response(200, {"ETag": '"e"'}, "text/html", None, SHELL.encode(), None, None, 0.0, 0)
    sent: list[Any] = []
    recrawl = RecrawlSettings(enabled=True, min_interval=10.0, max_interval=10.0, first_interval=10.0)
    lab = laboratory(tmp_path, {AT: raw}, MadeUp({AT: made}), monkeypatch, recrawl=recrawl)
    lab.run(AT, max_time=35.0)
    assert [each.get("changed") for each in lab.records()] == [None, False, True, False]
