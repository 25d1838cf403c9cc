"""Sites that send a visitor away and back until a cookie is set, and seeds that have moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.cookie_chain import is_chain, lengthened, link_of
from crawler.frontier.entry import Entry, decode_entry, encode_entry
from tests.jobs import rows, verify
from tests.program import crawler
from tests.site import Handler, Site, linked

CALM = ("--allow-private", "--ignore-robots", "--delay", "0")


def away(to: str, cookie: str = "", *, wants: str = "never") -> Handler:
    """Redirects, or refreshes if ``to`` says so, and sets a cookie, until the visitor has one."""

    async def answer(request: web.Request) -> web.Response:
        if wants in request.cookies:
            return web.Response(text=linked([f"{request.path}-in"]), content_type="text/html")
        if to.startswith("<"):
            response = web.Response(text=to, content_type="text/html")
        else:
            response = web.Response(status=302, headers={"Location": to})
        if cookie:
            response.set_cookie(cookie, str(request.query), path="/")
        return response

    return answer


SITE: dict[str, str | Handler] = {
    "/": linked(["/self", "/bounce", "/consent", "/reload", "/refresh", "/every", "/loop"]),
    "/self": away("/self", "a", wants="a"),
    "/bounce": away("/set", wants="b"),
    "/set": away("/bounce", "b"),
    "/consent": away("/ask?for=consent", "back", wants="c"),
    "/ask?for=consent": away("<meta http-equiv=refresh content='0; url=/consent'>", "c"),
    "/reload": away("<meta http-equiv=refresh content=0>", "d", wants="d"),
    "/refresh": away("<meta http-equiv=Refresh content='0;/refresh'>", "e", wants="e"),
    "/loop": away("/round"),
    "/round": away("/loop"),
    "/tail": linked([]),
} | {f"/{name}-in": linked([]) for name in ("self", "bounce", "consent", "reload", "refresh")}


async def every(request: web.Request) -> web.Response:
    response = web.Response(status=302, headers={"Location": "/every"})
    response.set_cookie("n", str(int(request.cookies.get("n", "0")) + 1), path="/every")
    return response


def outcomes(job: Path, path: str) -> list[str]:
    return [row["outcome"] for row in rows(job) if row["url"].endswith(path)]


def test_a_cookie_lets_the_crawl_in(tmp_path: Path) -> None:
    config, job = tmp_path / "c.toml", tmp_path / "job"
    config.write_text("[fetch]\ncookies = true\n")
    with Site({**SITE, "/every": every}) as site:
        ran = crawler("crawl", site.url("/"), "--job", job, "--config", config, *CALM)
        asked = {path: site.count(path) for path in ("/every", "/loop", "/round", "/set", "/tail")}
    assert ran.code == 0
    assert all(outcomes(job, f"/{name}-in") for name in ("self", "bounce", "consent", "reload", "refresh"))
    assert outcomes(job, "/self") == outcomes(job, "/reload") == outcomes(job, "/refresh") == ["fetched"]
    assert outcomes(job, "/bounce") == ["redirect", "fetched"], "its last visit counts"
    assert outcomes(job, "/every") == ["redirect"], "it comes to an end"
    assert asked == {"/every": 11, "/loop": 1, "/round": 1, "/set": 1, "/tail": 0}
    assert verify(job).code == 0


def test_without_cookies_the_record_names_the_setting(tmp_path: Path) -> None:
    with Site(SITE) as site:
        ran = crawler("crawl", site.url("/"), "--job", tmp_path / "job", *CALM)
    named = {row["url"].rpartition("/")[2] for row in rows(tmp_path / "job") if "fetch.cookies" in str(row["error"])}
    assert named == {"self", "set", "reload", "refresh", "ask?for=consent"}
    assert ran.err.count("fetch.cookies") == 1


@pytest.mark.parametrize(
    ("page", "header", "moves"),
    [
        ("<meta http-equiv=refresh content='0; url={to}'>", None, True),
        ("<meta http-equiv=refresh content='5; url={to}'>", None, True),
        ("x", "3; url={to}", True),
        ("<meta http-equiv=refresh content='600; url={to}'>", None, False),
        ("<a href='{to}'>x</a>", None, False),
    ],
)
def test_a_seed_moves_by_a_refresh(tmp_path: Path, page: str, header: str | None, moves: bool) -> None:
    async def seed(request: web.Request) -> web.Response:
        to = f"http://localhost:{request.host.rpartition(':')[2]}/new"
        headers = {"Refresh": header.format(to=to)} if header else {}
        return web.Response(text=page.format(to=to), content_type="text/html", headers=headers)

    with Site({"/old": seed, "/new": linked(["/more"]), "/more": linked([])}) as site:
        ran = crawler("crawl", site.url("/old"), "--job", tmp_path / "job", *CALM)
    assert (site.count("/new"), site.count("/more")) == (moves, moves)
    assert ("out of scope" in ran.err or "--scope" in ran.err) != moves


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2**32 - 1), st.integers(0, 7)), max_size=8))
def test_a_chain_keeps_the_last_visit_of_each_url(visits: list[tuple[str, int, int]]) -> None:
    chain = b""
    for url, cookies, kind in visits:
        chain = lengthened(chain, url, cookies, kind)
    last = {url: (cookies, kind) for url, cookies, kind in visits}
    for url in "abcd":
        link = link_of(chain, url)
        assert (None if link is None else (link.cookies, link.kind)) == last.get(url)
    assert is_chain(chain)
    entry = Entry("http://h.test/", 1, chain=chain)
    assert decode_entry(encode_entry(entry)) == entry
