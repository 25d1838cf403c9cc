"""Whatever a server does is an outcome in pages.jsonl, never a stop."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.program import crawler
from tests.site import Site, linked

# Waits are part of the behaviour; a test has no minutes.
QUICK = """
[retry]
first_wait = 0.05
growth = 1.0
throttled_tries = 4
timeout_tries = 1
[politeness]
delay = 0.0
backoff_first = 0.05
[fetch]
headers_timeout = 6.0
body_timeout = 6.0
idle_timeout = 6.0
max_body = 12000000
"""


def crawl(directory: Path, site: Site, *words: str, config: str = QUICK, path: str = "/") -> dict[str, Any]:
    """Crawl from ``path``; the rows by path."""
    (directory / "seeds.txt").write_text(site.url(path) + "\n")
    (directory / "quick.toml").write_text(config)
    job = directory / "job"
    ran = crawler(
        directory / "seeds.txt",
        "--job",
        job,
        "--config",
        directory / "quick.toml",
        "--allow-private",
        "--quiet",
        *words,
    )
    assert "Traceback" not in ran.err
    assert not (job / "crash.txt").exists(), ran.err
    found = [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]
    by_path: dict[str, Any] = {}
    for row in found:
        assert row["url"] not in by_path, "a page stands twice"
        by_path[row["url"].removeprefix(f"http://{site.hosts[0]}")] = row
    by_path["exit"] = ran
    return by_path


def raw(data: bytes, *, hold: float = 0.0) -> Any:
    """A handler that writes these bytes onto the connection and closes it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        transport.write(data)  # type: ignore[attr-defined]
        await asyncio.sleep(hold)
        transport.close()
        return web.Response()

    return answer


async def drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/html"})
    await response.prepare(request)
    for _ in range(300):
        await response.write(b"x")
        await asyncio.sleep(0.2)
    return response


async def endless_redirect(request: web.Request) -> web.StreamResponse:
    step = int(request.query.get("n", "0")) + 1
    raise web.HTTPFound(f"/turn?n={step}")


async def big(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"<p>no link here " * 700_000 + b"<svg><p>", content_type="text/html")


async def too_big(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"y" * 13_000_000, content_type="text/html")


async def latin(request: web.Request) -> web.StreamResponse:
    body = '<a href="/caf\xe9">caf\xe9</a><a href="/?q=\xe9">q</a>'.encode("latin-1")
    return web.Response(body=body, headers={"Content-Type": "text/html; charset=utf-8"})


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


class Pages(dict[str, Any]):
    """``/turn?n=...`` without end beside fixed pages."""

    def get(self, key: str, default: Any = None) -> Any:
        return endless_redirect if key.startswith("/turn") else super().get(key, default)


def hostile() -> Mapping[str, Any]:
    pages = Pages(
        {
            "/empty": "",
            "/big": big,
            "/too-big": too_big,
            "/many": linked(f"http://elsewhere.test/{n}" for n in range(100_000)),
            "/latin": latin,
            "/short": raw(HEAD + b"Content-Length: 500\r\n\r\nabc"),
            "/cut": raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nabc"),
            "/garbage": raw(b"\x00\x01\x02 nonsense\r\n\r\n"),
            "/drip": drip,
            "/silent": raw(b"", hold=30.0),
        }
    )
    pages["/"] = linked([*pages, "/turn?n=0", "mailto:a@b.test", "javascript:void(0)", "http://[bad", "/ok"])
    pages["/ok"] = "still here"
    return pages


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with Site(hostile()) as site:
        found = crawl(tmp_path_factory.mktemp("hostile"), site, "--per-host", "16", "--concurrency", "16")
        found["asked"] = {path: site.count(path) for path in found}
        return found


@pytest.mark.parametrize(
    ("path", "expected", "error"),
    [
        ("/empty", "fetched", None),
        ("/big", "fetched", "page read in part"),
        ("/too-big", "excluded", "too_large"),
        ("/many", "fetched", None),
        ("/latin", "fetched", None),
        ("/short", "failed", "cut_off"),
        ("/cut", "failed", "cut_off"),
        ("/garbage", "failed", "protocol"),
        ("/drip", "failed", "body_timeout"),
        ("/silent", "failed", "headers_timeout"),
        ("/ok", "fetched", None),
    ],
)
def test_each_is_an_outcome(outcome: dict[str, Any], path: str, expected: str, error: str | None) -> None:
    row = outcome[path]
    assert row["outcome"] == expected, row
    assert (row["error"] is None) == (error is None), row
    if error is not None:
        assert row["error"].startswith(error), row


def test_the_crawl_ended_in_order(outcome: dict[str, Any]) -> None:
    assert outcome["exit"].code == 0, outcome["exit"].err


def test_transient_failures_are_tried_four_times_lasting_ones_once(outcome: dict[str, Any]) -> None:
    assert outcome["asked"]["/short"] == 4
    assert outcome["asked"]["/too-big"] == 1


def test_an_endless_redirect_is_left_after_ten(outcome: dict[str, Any]) -> None:
    turns = [path for path in outcome if path.startswith("/turn")]
    assert len(turns) == 11
    last = outcome[f"/turn?n={len(turns) - 1}"]
    assert last["outcome"] == "redirect"
    assert "max_redirects" in last["error"]


def test_links_of_a_page_are_counted_though_out_of_scope(outcome: dict[str, Any]) -> None:
    assert outcome["/many"]["links"] == 100_000
    assert outcome["/latin"]["links"] == 2


def test_robots_txt_is_obeyed_and_says_why(tmp_path: Path) -> None:
    pages = {"/": linked(["/private/x", "/open"]), "/private/x": "secret", "/open": "open"}
    with Site(pages, robots="User-agent: *\nDisallow: /private/\nCrawl-delay: 0.2\n") as site:
        found = crawl(tmp_path, site)
        assert found["/private/x"]["outcome"] == "excluded"
        assert "robots.txt" in found["/private/x"]["error"]
        assert found["/open"]["outcome"] == "fetched"
        assert site.count("/private/x") == 0
        assert site.count("/robots.txt") == 1
        asked = sorted(site.asked, key=lambda a: a.start)
        assert min(b.start - a.end for a, b in itertools.pairwise(asked)) >= 0.19


@pytest.mark.parametrize(("status", "expected"), [(404, "fetched"), (403, "fetched"), (500, "excluded")])
def test_a_robots_txt_that_is_not_there(tmp_path: Path, status: int, expected: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="no")

    with Site({"/": "page"}, robots=answer) as site:
        found = crawl(tmp_path, site)
        assert found["/"]["outcome"] == expected
        assert site.count("/robots.txt") == (4 if status == 500 else 1)
        assert found["exit"].code == (0 if expected == "fetched" else 1)


def test_429_with_retry_after_is_waited_for(tmp_path: Path) -> None:
    answers: list[int] = []

    async def busy(request: web.Request) -> web.StreamResponse:
        answers.append(1)
        if len(answers) < 3:
            return web.Response(status=429, headers={"Retry-After": "1"})
        return web.Response(text="at last", content_type="text/html")

    with Site({"/": busy}) as site:
        found = crawl(tmp_path, site)
        assert found["/"]["status"] == 200
        times = sorted(a.start for a in site.asked if a.path == "/")
        assert [later - earlier >= 1.0 for earlier, later in itertools.pairwise(times)] == [True, True]


def test_503_for_ever_is_a_fetched_page_of_that_status(tmp_path: Path) -> None:
    async def down(request: web.Request) -> web.StreamResponse:
        return web.Response(status=503, text="down")

    with Site({"/": linked(["/down"]), "/down": down}) as site:
        found = crawl(tmp_path, site)
        assert (found["/down"]["outcome"], found["/down"]["status"]) == ("fetched", 503)
        assert site.count("/down") == 4


def test_a_500_that_passes_is_asked_again(tmp_path: Path) -> None:
    async def flaky(request: web.Request) -> web.StreamResponse:
        return web.Response(status=500 if site.count("/flaky") < 2 else 200, text="x", content_type="text/html")

    with Site({"/": linked(["/flaky"]), "/flaky": flaky}) as site:
        found = crawl(tmp_path, site)
        assert found["/flaky"]["status"] == 200
        assert site.count("/flaky") == 3


def test_a_seeds_redirect_widens_the_scope_and_says_so(tmp_path: Path) -> None:
    async def moved(request: web.Request) -> web.StreamResponse:
        raise web.HTTPMovedPermanently(site.url("/home", 1))

    async def away(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(site.url("/not-followed", 2))

    pages: dict[str, Any] = {"/": moved, "/home": linked(["/inside", "/away"]), "/inside": "in", "/away": away}
    with Site(pages, ports=3) as site:
        found = crawl(tmp_path, site)
        assert found["/"]["outcome"] == "redirect"
        assert found["/"]["location"] == site.url("/home", 1)
        assert found[site.url("/home", 1)]["outcome"] == "fetched"
        assert found[site.url("/inside", 1)]["outcome"] == "fetched"
        assert "scope widened" in found["exit"].err
        assert found[site.url("/away", 1)]["outcome"] == "redirect"
        assert site.count("/not-followed") == 0, "only a seed's redirect widens the scope"


def test_private_addresses_are_refused_unless_allowed(tmp_path: Path) -> None:
    with Site({"/": "page"}) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        ran = crawler(tmp_path / "seeds.txt", "--job", tmp_path / "job", "--ignore-robots")
        assert ran.code == 1
        assert "--allow-private" in ran.err
        row = json.loads((tmp_path / "job" / "pages.jsonl").read_text())
        assert row["outcome"] == "excluded"
        assert site.asked == []


def test_other_types_are_not_read_and_nofollow_is_respected(tmp_path: Path) -> None:
    async def picture(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"\x89PNG" * 100_000, content_type="image/png")

    pages = {
        "/": linked(["/picture", "/quiet"]),
        "/picture": picture,
        "/quiet": '<meta name="robots" content="noindex, nofollow"><a href="/hidden">x</a>',
    }
    with Site(pages) as site:
        found = crawl(tmp_path, site)
        assert found["/picture"]["outcome"] == "fetched"
        assert found["/picture"]["content_type"] == "image/png"
        assert found["/picture"]["bytes"] is None
        assert "/hidden" not in found
