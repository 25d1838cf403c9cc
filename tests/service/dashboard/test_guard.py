"""The dashboard asked by those who should not get what they want."""

from __future__ import annotations

import asyncio
import hmac
import io
import json
import socket
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from crawler.base.settings.parts import DashboardSettings, Settings
from crawler.cli.launches import Launches
from crawler.job.metrics.events import Events
from crawler.service.api import Api
from crawler.service.commands import performing
from crawler.service.dashboard import access
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.event_stream import MOST_LISTENERS
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.guard import MOST_BODY, json_body
from crawler.service.dashboard.http_server import Limits
from crawler.service.dashboard.job_list import JobList, Routes
from crawler.service.dashboard.live_server import Dashboard, JobPage, LiveServer
from crawler.service.dashboard.token import TOKEN, access_of, keep_token
from crawler.service.job_survey import JobSurvey
from crawler.service.run_view import RunView
from crawler.service.survey_api import SurveyApi
from crawler.service.watched_jobs import WatchedJobs
from tests.job.metrics.samples import statistics
from tests.program import ROOT

SECRET = "correct-horse-battery"
RIGHT = {"Authorization": f"Bearer {SECRET}"}
LOOKS = ["/", "/page/main.js", "/metrics", "/api/stats", "/api/events"]
HERE = Access(SECRET)  # on loopback
ANYWHERE = Access(SECRET, any_host=True)
COOKIE = access.cookie_name("localhost:80")


class Changed:
    """Something that a request can change."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def change(self, request: web.Request) -> web.Response:
        self.bodies.append(await json_body(request))
        return web.json_response({"done": True})


@asynccontextmanager
async def dashboard(
    who: Access, limits: Limits | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Changed, aiohttp.ClientSession, Dashboard]]:
    """``headers``: what the client sends with each request."""
    changed = Changed()
    routes = [web.post("/api/change", changed.change)]
    settings = DashboardSettings(listen="127.0.0.1:0", interval=0.01)
    board = Dashboard(settings, Feed(statistics, iter(range(10**9)).__next__), routes, who, limits)
    async with client_of(board, headers) as client:
        yield changed, client, board


@asynccontextmanager
async def client_of(
    server: LiveServer, headers: Mapping[str, str] | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    url = await server.start()
    try:
        jar, connector = aiohttp.DummyCookieJar(), aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(url, cookie_jar=jar, connector=connector, headers=headers) as client:
            yield client
    finally:
        await server.stop()


async def answer(client: aiohttp.ClientSession, method: str, path: str, **request: Any) -> tuple[int, str]:
    async with client.request(method, path, **request) as response:
        endless = response.status == 200 and response.content_type == "text/event-stream"
        return response.status, "" if endless else await response.text()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 (what is waited for is on the other side of a socket)
            await asyncio.sleep(0.005)


# -- which routes need the token -------------------------------------------------------------------------------

# By what they need, of the page of one job and of a list of jobs.
PAGE = {
    "nothing": ["/", "/page/{name}", "/metrics", "/healthz"],
    "token or cookie": [
        *("/api/stats", "/api/log", "/api/events", "/api/hosts", "/api/hosts/{host}", "/api/explain", "/api/changes"),
        *("/api/job", "/api/survey", "/api/download/records.jsonl", "/api/download/records.csv"),
        *("/api/download/hosts.csv", "/api/download/report.html"),
    ],
    "token": ["/api/control", "/api/urls", "/api/retry", "/api/priority"],
}
LIST = {
    "nothing": ["/", "/page/{name}", "/healthz", *(f"/jobs/{{job}}{path}" for path in PAGE["nothing"])],
    "token or cookie": ["/api/jobs", "/api/jobs/events", "/jobs/{job}"]
    + [f"/jobs/{{job}}{path}" for path in PAGE["token or cookie"]],
    "token": ["/api/jobs", "/api/jobs/{job}/resume", "/api/jobs/{job}/duplicate"]
    + [f"/jobs/{{job}}{path}" for path in PAGE["token"]],
}


@asynccontextmanager
async def whole(kind: str, who: Access, directory: Path) -> AsyncIterator[LiveServer]:
    """All that a crawl serves, or all that a list of jobs does."""
    view = RunView(lambda: None, performing(lambda: None, Events(), float), Settings(), float)
    feed, survey = Feed(statistics, float), JobSurvey(directory, lambda: None)
    about, api, settings = SurveyApi(view, survey, feed), Api(view), DashboardSettings(listen="127.0.0.1:0")
    if kind == "page":
        yield Dashboard(settings, feed, [*api.routes(), *about.routes()], who)
    else:
        jobs = WatchedJobs([directory], float)
        listed = JobList(jobs, Routes([*JobPage(feed).routes(), *api.routes(), *about.routes()]))
        yield LiveServer(settings, listed, [*listed.routes(), *Launches(jobs, directory, None).routes()], who)
    await about.close()
    await view.close()


@pytest.mark.parametrize(("kind", "table"), [("page", PAGE), ("list", LIST)])
@pytest.mark.parametrize(("who", "host"), [(HERE, "localhost:80"), (ANYWHERE, "crawl.example:80")])
async def test_every_route_needs_what_the_table_says(
    tmp_path: Path, kind: str, table: dict[str, list[str]], who: Access, host: str
) -> None:
    wrong = [{}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{COOKIE}={SECRET}"}, {"Cookie": f"{COOKIE}=wrong"}]
    wrong.append({"Cookie": f"crawler_dashboard_81={who.cookie}"})
    words = (f"Bearer {SECRET[:-1]}", f"Bearer {SECRET}x", f"Basic {SECRET}", "Bearer")
    wrong += [{"Authorization": each} for each in words]
    methods = {"nothing": ("GET", "HEAD"), "token or cookie": ("GET", "HEAD"), "token": ("POST",)}
    needs = {(method, path): need for need, paths in table.items() for path in paths for method in methods[need]}
    needs = {route: need for route, need in needs.items() if route[0] != "HEAD" or not route[1].endswith("/events")}
    async with whole(kind, who, tmp_path) as server, client_of(server) as client:
        routes = server.server.app.router.routes()
        assert {(each.method, each.resource.canonical) for each in routes if each.resource} == needs.keys()
        for (method, path), need in needs.items():
            there = path.replace("{name}", "main.js").replace("{host}", "h.test").replace("{job}", "x")

            async def status(method: str = method, there: str = there, **given: str) -> int:
                return (await answer(client, method, there, headers={"Host": host, **given}))[0]

            assert {await status(**each) == 401 for each in wrong} == {need != "nothing"}, path
            assert (await status(there=f"{there}?token={SECRET}") == 401) == (need != "nothing"), path
            assert (await status(Cookie=f"{COOKIE}={who.cookie}") == 401) == (need == "token"), path
            assert await status(**RIGHT) not in (401, 403), path


@pytest.mark.parametrize("who", [HERE, ANYWHERE], ids=["here", "anywhere"])
async def test_the_printed_link_is_exchanged_for_a_cookie(tmp_path: Path, who: Access) -> None:
    async with whole("list", who, tmp_path) as server, client_of(server) as client:
        for path in ("/", "/jobs/x/"):
            async with client.get(who.link(path), headers={"Host": "localhost:80"}, allow_redirects=False) as response:
                assert (response.status, response.headers["Location"]) == (303, f"./#token={SECRET}")
                assert response.headers["Set-Cookie"] == f"{COOKIE}={who.cookie}; HttpOnly; Path=/; SameSite=Strict"
                assert SECRET not in response.headers["Set-Cookie"]
        async with client.get("/?token=wrong") as response:
            assert "Set-Cookie" not in response.headers
            assert SECRET not in await response.text()


@pytest.mark.parametrize("who", [HERE, ANYWHERE], ids=["here", "anywhere"])
async def test_the_token_in_the_header_changes_something(who: Access) -> None:
    async with dashboard(who) as (changed, client, board):
        ours = {"Origin": "http://{}:{}".format(*board.server.address), "Sec-Fetch-Site": "same-origin"}
        assert await answer(client, "POST", "/api/change", json=[1], headers=RIGHT) == (200, '{"done": true}')
        assert (await answer(client, "POST", "/api/change", json=[2], headers=RIGHT | ours))[0] == 200
        assert changed.bodies == [[1], [2]]


@pytest.mark.parametrize("who", [HERE, ANYWHERE], ids=["here", "anywhere"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://[evil"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
    ids=str,
)
async def test_a_page_of_another_site_is_refused_even_with_the_token(who: Access, headers: dict[str, str]) -> None:
    async with dashboard(who) as (changed, client, board):
        assert (await answer(client, "POST", "/api/change", json=[1], headers=RIGHT | headers))[0] == 403
        for path in LOOKS:
            status, text = await answer(client, "GET", path, headers=RIGHT | headers)
            assert status == 403, path
            assert "pages_fetched" not in text
        assert changed.bodies == []
        assert len(board.feed.listeners) == 0


async def test_a_link_on_another_site_leads_to_the_page() -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with dashboard(HERE) as (changed, client, _):
        assert (await answer(client, "GET", "/", headers=followed))[0] == 200
        assert (await answer(client, "POST", "/api/change", data={"a": "b"}, headers=followed))[0] == 401
        assert changed.bodies == []


@pytest.mark.parametrize("host", ["evil.example", "", "[::1]evil"])
async def test_on_loopback_a_foreign_name_is_refused_even_with_the_token(host: str) -> None:
    async with dashboard(HERE) as (changed, client, _):
        for path in [*LOOKS, "/healthz", "/nothing"]:
            assert (await answer(client, "GET", path, headers=RIGHT | {"Host": host}))[0] == 403
        assert (await answer(client, "POST", "/api/change", json=[1], headers=RIGHT | {"Host": host}))[0] == 403
        assert changed.bodies == []


async def test_with_a_token_asked_of_all_the_name_may_be_any_but_not_the_origin() -> None:
    async with dashboard(ANYWHERE) as (changed, client, _):
        names = {"Host": "crawl.example", "Origin": "https://crawl.example"}
        assert (await answer(client, "POST", "/api/change", json=[1], headers=RIGHT | names))[0] == 200
        names["Origin"] = "https://evil.example"
        assert (await answer(client, "POST", "/api/change", json=[2], headers=RIGHT | names))[0] == 403
        assert changed.bodies == [[1]]


async def test_bodies_that_are_too_large_or_no_json_are_answered_in_one_line() -> None:
    async with dashboard(HERE) as (changed, client, _):
        kind = {"Content-Type": "application/json"}

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b" " * (MOST_BODY // 2)

        for status, body in (
            (413, io.BytesIO(b" " * (MOST_BODY + 1))),
            (413, pieces()),  # no Content-Length says so beforehand
            (400, b"{"),
            (400, b""),
            (400, b"\xff\xfe\xff"),
            *((400, "[1]".encode(other)) for other in ("utf-16", "utf-16-le", "utf-32-be")),
            (200, "[1]".encode("utf-8-sig")),
            (400, b"[" * 100_000),
        ):
            got, text = await answer(client, "POST", "/api/change", data=body, headers=RIGHT | kind)
            assert got == status
            assert "\n" not in json.loads(text).get("error", "")
        assert (await answer(client, "POST", "/api/change", data="[1]", headers=RIGHT))[0] == 415
        assert changed.bodies == [[1]]
        assert (await answer(client, "POST", "/api/change", data=b"[1]".rjust(MOST_BODY), headers=RIGHT | kind))[
            0
        ] == 200


PROBES = [
    "/page/../server.py",
    "/page/%2e%2e/server.py",
    "/page/..%2fserver.py",
    "/page/%2fetc%2fpasswd",
    "/page/..%5cserver.py",
    "/page/main.js%00",
    "/page/",
    "/page",
    "//etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/api/",
    "/api/nothing",
    "/dashboard-token",
    "/job.json",
    "/.git/config",
    "/" + "x" * 7_000,
]


async def raw(board: Dashboard, request: bytes) -> bytes:
    """What comes back for these bytes, sent as they are."""
    reader, writer = await asyncio.open_connection(*board.server.address)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


async def test_no_path_of_the_machine_is_in_an_answer() -> None:
    async with dashboard(HERE) as (_, _, board):
        answers = []
        for path in PROBES:
            line = (
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {SECRET}\r\n\r\n"
            )
            answers.append(await raw(board, line.encode()))
            assert answers[-1].startswith(b"HTTP/1.1 404 "), path
        answers.append(await raw(board, b"GET / HTTP/1.1\r\n\r\n"))
        answers.append(await raw(board, b"\x16\x03\x01\x02\x00 no HTTP\r\n\r\n"))
        answers.append(await raw(board, b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"))
        assert all(each.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) for each in answers)
        for text in answers:
            for word in (str(ROOT), str(Path.home()), "site-packages", "Traceback", ".py"):
                assert word.encode() not in text.replace(b"/page/../server.py", b"")


async def test_a_bug_is_told_in_the_log_and_not_to_who_asks(caplog: pytest.LogCaptureFixture) -> None:
    class Bug(Changed):
        async def change(self, request: web.Request) -> web.Response:
            raise TypeError(f"a secret of {__file__}")

    routes = [web.post("/api/change", Bug().change)]
    settings = DashboardSettings(listen="127.0.0.1:0")
    board = Dashboard(settings, Feed(statistics, float), routes, HERE)
    url = await board.start()
    async with aiohttp.ClientSession(url) as client:
        status, text = await answer(client, "POST", "/api/change", json=[], headers=RIGHT)
    await board.stop()
    assert status == 500
    assert "secret" not in text
    assert ["a secret" in record.exc_text for record in caplog.records if record.exc_text] == [True]


async def test_a_thousand_listeners_leave_the_dashboard_its_limits() -> None:
    async with dashboard(HERE, headers=RIGHT) as (_, client, board):
        crowd = await asyncio.gather(*(client.get("/api/events") for _ in range(1_000)))
        assert sorted({response.status for response in crowd}) == [200, 503]
        assert sum(response.status == 200 for response in crowd) == len(board.feed.listeners) == MOST_LISTENERS
        assert json.loads(await next(each for each in crowd if each.status == 503).text())["error"]
        assert (await answer(client, "GET", "/api/stats"))[0] == 200
        for response in crowd:
            response.close()
        await until(lambda: not len(board.feed.listeners))
        assert (await answer(client, "GET", "/api/events"))[0] == 200


async def test_connections_beyond_the_limit_are_told_so() -> None:
    async with dashboard(HERE, Limits(connections=1), RIGHT) as (_, client, board):
        listening = [await client.get("/api/events")]
        assert (await raw(board, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
        for response in listening:
            response.close()
        await until(lambda: not board.server.runner.server.connections)
        assert (await answer(client, "GET", "/healthz"))[0] == 200


async def test_connections_that_ask_nothing_give_way_to_those_that_do() -> None:
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with dashboard(HERE, Limits(connections=4), RIGHT) as (_, client, board):
        listening = await client.get("/api/events")
        slow = [await asyncio.open_connection(*board.server.address) for _ in range(40)]
        for at, (_, writer) in enumerate(slow):
            writer.write(b"" if at % 2 else b"GET /healthz HTTP/1.1\r\nHost: loc")
        for _ in range(3):
            got = await raw(board, health)
            assert got.startswith(b"HTTP/1.1 200 ")
            assert len(board.server.runner.server.connections) <= 4
        assert not listening.content.at_eof(), "one that is answered keeps its place"
        # A connection that is kept after an answer waits too: the next one gets its place.
        assert (await answer(client, "GET", "/healthz"))[0] == 200
        again = [await asyncio.open_connection(*board.server.address) for _ in range(8)]
        assert (await raw(board, health)).startswith(b"HTTP/1.1 200 ")
        for _, writer in (*slow, *again):
            writer.close()
        listening.close()


@pytest.mark.parametrize("begun", [b"", b"GET /api/stats HTTP/1.1\r\nHost: loc"])
async def test_a_connection_that_brings_no_whole_request_is_closed(begun: bytes) -> None:
    async with dashboard(HERE, Limits(idle_timeout=0.05)) as (_, _, board):
        assert await raw(board, begun) == b""


async def test_a_listener_that_takes_nothing_is_cut_off() -> None:
    padding = "x" * 1_000_000
    feed = Feed(lambda: statistics(state=padding), float)
    board = Dashboard(DashboardSettings(listen="0", interval=0.001), feed, [], HERE, Limits(write_timeout=0.05))
    await board.start()
    with socket.create_connection(board.server.address) as deaf:
        deaf.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\n\r\n".encode())
        await until(lambda: bool(len(feed.listeners)))
        await until(lambda: not len(feed.listeners) and not board.server.runner.server.connections)
    await board.stop()


# -- the token -------------------------------------------------------------------------------------------------


def test_secrets_are_compared_in_constant_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    cookies = {COOKIE: "wrong cookie"}
    headers = {"Host": "localhost:80", "Authorization": "Bearer wrong header"}
    assert ANYWHERE.refusal("GET", "/api/stats", headers, cookies) is not None
    assert ANYWHERE.refusal("POST", "/api/change", headers, cookies) is not None
    assert [other for _, other in compared] == [b"wrong header", b"wrong cookie", b"wrong header"]


def test_the_job_keeps_its_token_for_its_owner_only(tmp_path: Path) -> None:
    settings = DashboardSettings(listen="8080")
    made = access_of(settings, tmp_path)
    assert not made.any_host
    assert access_of(settings, tmp_path).token != made.token, "nothing was kept yet"
    keep_token(settings, tmp_path, made.token)
    assert stat.S_IMODE((tmp_path / TOKEN).stat().st_mode) == 0o600
    assert access_of(settings, tmp_path) == made
    assert access_of(DashboardSettings(listen="0.0.0.0:8080"), tmp_path) == Access(made.token, any_host=True)
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN]


def test_a_token_that_was_given_is_asked_of_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(f"{SECRET}\n")
    from_file = DashboardSettings(listen="8080", token_file=str(tmp_path / "file"))
    for settings in (from_file, DashboardSettings(listen="8080", token=SECRET)):
        assert access_of(settings, tmp_path) == ANYWHERE
        (tmp_path / TOKEN).write_text("that of an earlier run")
        keep_token(settings, tmp_path, SECRET)
        assert [path.name for path in tmp_path.iterdir()] == ["file"], "it has its place already"
    own = DashboardSettings(listen="8080", token_file=str(tmp_path / TOKEN))
    (tmp_path / "file").rename(tmp_path / TOKEN)
    keep_token(own, tmp_path, SECRET)
    assert access_of(own, tmp_path) == ANYWHERE, "a file of the user's in that place is left alone"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"token": "short"}, "dashboard.token must be 16"),
        ({"token": "with a space in it"}, "dashboard.token must be 16"),
        ({"token": "with-\x01-control-characters"}, "dashboard.token must be 16"),
        ({"token_file": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"token_file": "/"}, "cannot read"),
        ({"token_file": "/dev/null"}, "/dev/null: it is not a regular file"),
        ({"token": SECRET, "token_file": "/dev/null"}, "both given"),
    ],
)
def test_a_token_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        access_of(DashboardSettings(listen="8080", **given), tmp_path)
    assert "\n" not in str(caught.value)
    assert given.get("token", "?") not in str(caught.value)
