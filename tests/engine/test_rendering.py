"""Pages that a browser renders, in the life of a crawl. What the browser does is made up, but for the last tests."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp.web
import pytest
from msgspec.structs import replace
from warcio.archiveiterator import ArchiveIterator

from crawler.base.settings.parts import (
    BrowserSettings,
    OutputSettings,
    PolitenessSettings,
    PurposeSettings,
    RecrawlSettings,
    RobotsSettings,
    SitesSettings,
    SiteTable,
)
from crawler.engine.lifecycle import Stop
from crawler.engine.rendering import renderer
from crawler.web.browser.rendered import Answer, Ask, Kind, NotRendered, Refusal, Rendered, SubRequest
from crawler.web.fetch import Response
from tests.engine.test_archiving import on_the_wire
from tests.jobs import rows
from tests.laboratory import SETTINGS, Laboratory, links
from tests.needs import need
from tests.program import crawler, running, wait_until
from tests.simulated_web import page as simulated_page
from tests.site import Site, linked

ENGINE = "headless-shell 1.2"
SHELL = "<title>Shell</title><div id=root></div><script src=/app.js></script>"


class MadeUp:
    """A browser whose scripts write what ``/api`` answers; ``results`` says otherwise for some URLs."""

    def __init__(self, results: dict[str, Any] | None = None, seconds: float = 0.0) -> None:
        self.results = results or {}
        self.seconds = seconds
        self.rendered: list[str] = []
        self.most = self.now = 0

    async def render(self, url: str, raw: Answer, ask: Ask) -> Rendered | NotRendered:
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
    monkeypatch.setattr(renderer, "browsers_of", lambda settings, directory: [browser])
    settings = replace(SETTINGS, browser=BrowserSettings(when="always"), **parts)
    return Laboratory(directory, pages, settings)


def json_of(text: str) -> Response:
    return replace(simulated_page(text), content_type="application/json")


def record(lab: Laboratory, url: str) -> dict[str, Any]:
    return next(each for each in reversed(lab.records()) if each["url"] == url)


AT = "http://a.test/"
REFUSED = [(Refusal.ROBOTS, Kind.DATA), (Refusal.TYPE, Kind.DATA)]
HELD = [(Refusal.HELD, Kind.DATA)]
STRIPPED = b'<title>Made</title><meta name=robots content="%s"><a href=http://a.test/made>x</a>'


WHOLE, EMPTY = page(b"<p>a text and <a href=x>a link</a>", AT), page(b"<div id=root></div>", AT)
MOVED, LATE = replace(EMPTY, moved="http://a.test/x"), replace(WHOLE, cut="time")
GONE, NONE = NotRendered("it crashed", ENGINE, died=True), NotRendered("no browser is on PATH")


@pytest.mark.parametrize(
    ("first", "other", "shown"),
    [
        (WHOLE, GONE, WHOLE), (EMPTY, WHOLE, WHOLE), (EMPTY, GONE, EMPTY), (MOVED, WHOLE, MOVED),
        (LATE, EMPTY, EMPTY), (GONE, WHOLE, WHOLE), (GONE, NONE, GONE), (NONE, GONE, GONE),
    ],
)  # fmt: skip
async def test_what_an_engine_does_not_render_goes_to_the_next(
    first: Any, other: Any, shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [MadeUp({AT: first}), MadeUp({AT: other})]
    monkeypatch.setattr(renderer, "browsers_of", lambda *_: both)
    raw, own = Answer(200, (), SHELL.encode()), renderer.Renderer(SETTINGS)
    assert await own.render(AT, raw, lambda _: asyncio.sleep(0, NONE)) == shown


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
        ([page(b"", AT, failed=True), page(STRIPPED % b"all", AT)], {"rendered": "yes", "tries": 2}, {"made"}),
        ([page(b"", AT, refused=HELD)] * 3 + [page(STRIPPED % b"all", AT, refused=HELD)],
         {"rendered": "partly"}, {"made"}),
    ],
)  # fmt: skip
def test_a_page_is_what_its_scripts_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Any, expected: dict[str, Any], followed: set[str]
) -> None:
    browser = MadeUp({AT: result})
    raw = Response(200, {"ETag": "e"}, "text/html", "windows-1252", (SHELL + "<a href=raw>").encode(), None, None, 0, 0)
    lab = laboratory(tmp_path, {AT: raw}, browser, monkeypatch)
    assert lab.run(AT) is Stop.FINISHED
    own = record(lab, AT)
    assert {key: own.get(key) for key in expected} == expected
    assert [own[key] for key in ("status", "bytes", "charset", "etag")] == [
        200,
        len(raw.body or b""),
        "windows-1252",
        "e",
    ]
    assert {each["url"] for each in lab.records()} == {AT, *(AT + name for name in followed)}
    assert browser.rendered[-1] == "closed"


def scripted(script: str) -> str:
    return (
        "<!doctype html><title>shell</title><div id=root></div><script>const add=(...to)=>to.forEach(t=>{const "
        f"a=document.createElement('a');a.href=t;root.append(a,'x')}});{script}</script>"
    )


def browsers_of(job: Path) -> list[str]:
    """The processes with a profile in the job."""
    named = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [words.decode() for words in named if f"--user-data-dir={job}".encode() in words]


def test_a_site_made_by_scripts_is_crawled_over_a_kill(tmp_path: Path) -> None:
    need("chromium-headless-shell", "chromium-headless-shell")
    json = lambda data: lambda _: asyncio.sleep(0, aiohttp.web.json_response(data))  # noqa: E731
    paths = [f"/app/{n}" for n in range(12)]
    pages: dict[str, Any] = {path: scripted(f"fetch('/lib').then(()=>add('{path}/end'))") for path in paths}
    pages |= {f"{path}/end": "<p>an end" for path in paths} | {"/lib": json({}), "/api": json(paths)}
    pages["/"] = scripted("fetch('/api').then(r=>r.json()).then(l=>add(...l))")
    refused = (
        "for(const p of ['/private/x','/pixel.png'])fetch(p,{mode:'no-cors'}).catch(()=>0);new Image().src='/i.png'"
    )
    pages["/app/0"] = scripted(f"{refused};navigator.sendBeacon('/beacon');add('/app/0/end')")
    plain = {"/plain": linked(f"/plain/{n}" for n in range(30))} | {f"/plain/{n}": "<p>x" for n in range(30)}
    job, gap = tmp_path / "job", 0.05
    with Site(pages | plain, ports=2, robots="User-agent: *\nDisallow: /private/\n") as site:
        of_site = f'[[site]]\nmatch = "{site.hosts[1]}"\nbrowser = "never"\n'
        (tmp_path / "c.toml").write_text(f"[browser]\nwhen = 'always'\nno_sandbox = true\n{of_site}")
        words = (site.url("/"), site.url("/plain", 1), "--config", tmp_path / "c.toml", "--job", job, "--allow-private")
        again = (*words, "--delay", str(gap), "--scope", "host", "--quiet")
        with running(*again) as process:
            wait_until(lambda: site.count("/app/3") > 0, "a page in the browser")
            process.send_signal(signal.SIGKILL)
            process.wait()
        wait_until(lambda: not browsers_of(job), "the end of the browser")
        assert crawler(*again).code == 0
    asked = {path for path, _ in {(each.path, each.host) for each in site.asked}}
    assert asked == {*pages, *plain, "/robots.txt", "/pixel.png"}, "nothing past robots.txt, no picture, no beacon"
    done = [row["url"] for row in rows(job)]
    assert sorted(done) == sorted(
        [site.url(path) for path in pages if path not in ("/lib", "/api")] + [site.url(path, 1) for path in plain]
    )
    states = Counter(row.get("rendered") for row in rows(job))
    assert states == {"yes": 24, "partly": 1, None: 31}
    assert (browsers_of(job), (job / "browser").exists()) == ([], False)
    for host in site.hosts:
        times = sorted((each.start, each.end) for each in site.asked if each.host == host)
        assert all(later - end > 0.8 * gap for (_, end), (later, _) in itertools.pairwise(times))


def test_only_pages_are_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["page", "gone", "wall", "api", "data"]
    pages: dict[str, Any] = {AT: links(names), f"{AT}page": SHELL, f"{AT}api": json_of("")}
    pages |= {
        f"{AT}wall": "<title>Just a moment...</title><script src=/cdn-cgi/challenge-platform/h.js>window._cf_chl_opt={}"
    }
    pages |= {f"{AT}gone": simulated_page(SHELL, status=404)}
    browser = MadeUp({AT: page(links(names).encode(), AT)})
    lab = laboratory(tmp_path, pages, browser, monkeypatch)
    lab.run(AT)
    assert browser.rendered == [AT, f"{AT}page", "closed"]
    assert record(lab, f"{AT}wall")["outcome"] == "blocked"


def test_the_archive_has_the_answer_what_it_asked_for_and_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: dict[str, Any] = {AT: on_the_wire(simulated_page(SHELL)), f"{AT}api": on_the_wire(json_of("<p>made"))}
    lab = laboratory(tmp_path, pages, MadeUp(), monkeypatch, output=OutputSettings(("warc",), 4_000))
    lab.run(AT)
    with (tmp_path / "warc" / "crawl-000001.warc.gz").open("rb") as stream:
        found = [(each.rec_headers, each.content_stream().read()) for each in ArchiveIterator(stream)]
    told = [(headers["WARC-Type"], headers["WARC-Target-URI"]) for headers, _ in found[1:]]
    of_page = [(kind, AT) for kind in ("response", "request", "metadata")]
    assert told == [*of_page, ("response", f"{AT}api"), ("request", f"{AT}api"), ("conversion", AT)]
    headers, document = found[-1]
    assert document == b"<title>Made</title><p>made"
    assert headers["WARC-Refers-To"] == found[1][0]["WARC-Record-ID"]


@pytest.mark.parametrize(
    ("robots", "headers", "kind", "archived"),
    [
        ("", {}, "application/json", True),
        ("", {"X-Robots-Tag": "noindex"}, "application/json", True),
        ("", {"X-Robots-Tag": "noai"}, "application/json", False),
        ("User-agent: *\nContent-Signal: /api ai-train=no", {}, "application/json", False),
        ("", {}, "text/html", False),  # an element may refuse
    ],
)
def test_what_refuses_the_purpose_is_not_archived_with_the_page_that_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, robots: str, headers: dict[str, str], kind: str, archived: bool
) -> None:
    api = on_the_wire(replace(simulated_page("made"), content_type=kind, headers=headers))
    pages: dict[str, Any] = {AT: on_the_wire(simulated_page(SHELL)), f"{AT}api": api, f"{AT}robots.txt": robots}
    for_training = {"purpose": PurposeSettings(("ai-train",)), "output": OutputSettings(("warc",))}
    lab = laboratory(tmp_path, pages, MadeUp(), monkeypatch, robots=RobotsSettings(), **for_training)
    lab.run(AT)
    with (tmp_path / "warc" / "crawl-000001.warc.gz").open("rb") as stream:
        urls = {each.rec_headers["WARC-Target-URI"] for each in ArchiveIterator(stream)}
    assert (AT in urls, f"{AT}api" in urls) == (True, archived)


@pytest.mark.parametrize(
    ("concurrency", "app", "plain", "most"),
    [(8, "always", "never", 3), (64, "always", "signs", 4), (8, "signs", "never", 3)],
)
def test_pages_that_wait_for_a_tab_leave_other_hosts_their_pace(
    concurrency: int, app: str, plain: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    when = {"app": app, "plain": plain}
    urls = [f"http://{kind}{n}.test/{name}" for kind in when for n in range(5) for name in ["", *range(40)]]
    words = "words " * 50
    pages: dict[str, Any] = {url: SHELL if app == "always" and "app" in url else words for url in urls}
    browser = MadeUp({url: page(words.encode(), url) for url in urls}, seconds=2.0)
    lab = laboratory(tmp_path, pages, browser, monkeypatch, politeness=PolitenessSettings(delay=0.1))
    tables = tuple(SiteTable(f"{kind}{n}.test", browser=when[kind]) for kind in when for n in range(5))
    lab.settings = replace(
        lab.settings, site=SitesSettings(tables), crawl=replace(lab.settings.crawl, concurrency=concurrency)
    )
    assert lab.run(*urls) is Stop.FINISHED
    assert len(lab.records()) == 10 * 41
    assert browser.most == most, "fewer than half of the slots"
    for n in range(5):
        asked = [each.begin for each in lab.requests_to(f"plain{n}.test")]
        assert asked[-1] - asked[0] < 1.2 * 41 * 0.3, "a gap and an answer each"


def test_a_rendered_page_is_visited_again_without_a_condition_and_compared_by_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [page(f"<p>{text} and some words".encode(), AT) for text in ("one", "one", "two", "two")]
    made.insert(3, NotRendered("hung"))
    asked_with: list[Mapping[str, str]] = []

    def answer(headers: Mapping[str, str]) -> Response:
        asked_with.append(headers)
        return replace(simulated_page(SHELL), headers={"ETag": '"e"'})

    recrawl = RecrawlSettings(enabled=True, min_interval=10.0, max_interval=10.0, mean_interval=10.0)
    lab = laboratory(tmp_path, {AT: answer}, MadeUp({AT: made}), monkeypatch, recrawl=recrawl)
    lab.run(AT, max_time=48.0)
    assert [each.get("changed") for each in lab.records()][:3] == [None, False, True]
    assert asked_with == [{}] * 5


async def test_an_audit_goes_before_the_pages_that_wait_and_one_that_leaves_lets_the_next_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown, begun, free = list[str](), asyncio.Event(), asyncio.Event()

    class Held(MadeUp):
        async def render(self, url: str, raw: Answer, ask: Ask) -> Rendered | NotRendered:
            shown.append(url)
            begun.set()
            await free.wait()
            return page(b"", url)

    monkeypatch.setattr(renderer, "browsers_of", lambda settings, directory: [Held()])
    line = renderer.Renderer(replace(SETTINGS, browser=BrowserSettings(tabs=1)))

    async def ask(request: SubRequest) -> Answer | Refusal:
        return Refusal.TYPE

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        order = ("shown", True), ("leaves", False), ("second", True), ("third", True), ("audit", False)
        waiting = [
            tasks.create_task(line.render(name, Answer(200, (), b""), ask, in_turn=in_turn)) for name, in_turn in order
        ]
        await begun.wait()
        waiting[1].cancel()
        free.set()
    assert shown == ["shown", "second", "audit", "third"]
