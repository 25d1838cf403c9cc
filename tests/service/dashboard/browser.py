"""A real browser, Debian's Chromium without a window, and a crawl that is only statistics."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from crawler.base.settings.parts import DashboardSettings
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.service.dashboard.access import Access, cookie_name
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.guard import json_body
from crawler.service.dashboard.live_server import Dashboard
from tests.job.metrics.samples import statistics
from tests.needs import need
from tests.program import PATIENCE

TOKEN = "a-token-for-these-tests"
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@contextmanager
def chromium(profile: Path, *flags: str) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = need("chromium", "chromium")
    driver = need("chromedriver", "chromium-driver")
    for flag in (*FLAGS, *flags):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    if os.geteuid() == 0:
        # Chromium refuses to run its sandbox as root, which is what containers give.
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Service(driver))
    chrome.set_script_timeout(PATIENCE)
    try:
        yield chrome
    finally:
        chrome.quit()


class Crawl:
    """Statistics that go on by 20 pages a second of their clock."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.seconds = itertools.count(1_700_000_000)
        self.pages = itertools.count(10_000, 20)
        self.hosts = [host(number) for number in range(250)]
        self.asked: list[Any] = []
        self.survey: dict[str, Any] = survey()
        self.fault = ""  # why there is no survey
        self.news: dict[str, Any] = {}  # what the ticks tell besides
        self.requests: Counter[str] = Counter()  # by path
        self.read = asyncio.Event()  # the hosts were read
        self.read.set()

    def clock(self) -> float:
        return float(next(self.seconds))

    def stats(self) -> dict[str, Any]:
        pages = next(self.pages)
        by_outcome = {**statistics()["urls_by_outcome"], "fetched": pages}
        by_status = {**statistics()["pages_by_status"], "2xx": pages}
        return statistics(pages_fetched=pages, urls_by_outcome=by_outcome, pages_by_status=by_status) | self.changes

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/job", self.job),
            web.get("/api/survey", self.surveyed),
            web.post("/api/retry", self.retry),
            web.get("/api/hosts", self.table),
            web.get("/api/hosts/{host}", self.host),
            web.get("/api/explain", self.explain),
            web.post("/api/control", self.control),
        ]

    async def table(self, request: web.Request) -> web.Response:
        self.requests[request.path] += 1
        await self.read.wait()
        key, backwards = request.query["sort"], request.query["order"] == "desc"
        rows = [row for row in self.hosts if request.query["q"] in row["host"]]
        if key == "work":
            key = "pending"
        values = {row["host"]: sum(row[key].values()) if key == "errors" else row[key] for row in rows}
        rows.sort(
            key=lambda row: ((values[row["host"]] is None) != backwards, values[row["host"]] or 0), reverse=backwards
        )
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        return web.json_response({"total": len(rows), "hosts": rows[offset : offset + limit]})

    async def host(self, request: web.Request) -> web.Response:
        (row,) = [row for row in self.hosts if row["host"] == request.match_info["host"]]
        queue = [{"url": f"http://{row['host']}/<i>{number}</i>", "depth": 2, "class": 3} for number in range(3)]
        recent = [{"url": "http://h.test/", "status": 200, "bytes": 512, "fetched_at": "2026-01-01T00:00:00.000Z"}]
        robots = {
            "status": None,
            "asked_at": 1_700_000_000.0,
            "error": "cut_off: connection closed before the response",
        }
        return web.json_response(row | {"robots": robots, "queue": queue, "recent": recent})

    async def job(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "name": "docs",
                "seeds": ["http://h.test/", *(f"http://h{number:03}.test/" for number in range(1, 20))],
                "seed_count": 20,
                "contact": "me@h.test",
                "user_agent": "crawler/1",
                "scope": "host",
                "began_at": 1_700_000_000.0,
                "token_file": "dashboard-token",
                "several": False,
            }
        )

    async def surveyed(self, request: web.Request) -> web.Response:
        self.requests[request.path] += 1
        if self.fault:
            return web.json_response({"error": self.fault}, status=503)
        return web.json_response(self.survey)

    async def retry(self, request: web.Request) -> web.Response:
        self.asked.append(await json_body(request))
        return web.json_response({"queued": 3, "pending": 0})

    async def explain(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"lines": [{"what": "href", "text": request.query["url"]}, {"what": "seen", "text": "no"}]}
        )

    async def control(self, request: web.Request) -> web.Response:
        asked = await json_body(request)
        self.asked.append(asked)
        if asked["do"] == "checkpoint":
            return web.json_response({"error": "the disk is full"}, status=409)
        if asked["do"] in ("pause", "resume"):
            self.changes = {"state": "paused", "paused": "paused by user"} if asked["do"] == "pause" else {}
        return web.json_response({"done": True})


def host(number: int) -> dict[str, Any]:
    """A row as ``/api/hosts`` has it."""
    states = ("ready", "waiting", "leased", "snoozed", "retired", "idle", "paused", "blocked", "robots", "queued")
    return {
        "host": f"h{number:03}.test",
        "state": states[number % 10],
        "pending": 7 * number % 100,
        "in_flight": 0,
        "fetched": number,
        "failed": 13 * number % 250,
        "next_time": None if number % 5 == 0 else 1_700_000_000.0 + number,
        "wait_seconds": (0.0, 7.0, 87.0, 5_700.0, 100_000.0)[number % 5],
        "rule": "gap",
        "reason": "the gap between two requests",
        "gap_seconds": 1.0,
        "latency_seconds": None if number % 3 == 0 else number / 100,
        "errors": {"timeout": number % 4},
        "share": number / 250,
        "no_page": None,
    }


def record(number: int, **changes: Any) -> dict[str, Any]:
    """A record as ``/api/survey`` and the events have it."""
    return {
        "number": number,
        "url": f"http://h.test/pages/a-rather-long-name-of-a-directory/page-{number}.html",
        "host": "h.test",
        "status": 200,
        "outcome": "fetched",
        "words": "",
        "bytes": 512 * number,
        "seconds": 0.004,
        "at": 1_700_000_000.0 + number,
        "via": "http://h.test/",
    } | changes


def survey(**changes: Any) -> dict[str, Any]:
    """What the records tell, as ``/api/survey`` answers."""
    failures = [
        record(9, status=None, outcome="failed", words="refused: connection refused", via=None),
        record(8, status=404, url="http://h.test/gone"),
        record(7, status=503),
        record(6, outcome="soft404"),
    ]
    leaf = {"records": 20, "bytes": 1_000, "broken": 0, "depth": 60, "at": 34_000_000_000, "parts": []}
    docs = {"name": "/docs/", "records": 60, "bytes": 9_000, "broken": 3, "depth": 60, "at": 102_000_000_000}
    parts = [
        docs | {"parts": [leaf | {"name": "/docs/a/"}]},
        leaf | {"name": "/", "records": 30},
        leaf | {"name": "", "records": 10},
    ]
    return {
        "records": 130,
        "complete": True,
        "read": 1.0,
        "fault": None,
        "recent": [record(number) for number in (12, 11, 10)],
        "failures": failures,
        "urls": 130,
        "statuses": {"200": 125, "404": 1, "503": 1},
        "hosts": [
            {
                "host": "h.test",
                "ok": 125,
                "redirects": 2,
                "client_errors": 1,
                "server_errors": 1,
                "soft404": 1,
                "blocked": 0,
                "failed": 1,
                "excluded": 0,
                "bytes": 64_000,
            }
        ],
        "types": [{"type": "text/html", "records": 128, "bytes": 64_000}],
        "map": [
            docs | {"name": "h.test", "records": 100, "bytes": 11_000, "parts": parts},
            leaf | {"name": "h001.test", "records": 30, "bytes": 53_000},
        ],
        "map_missed": 0,
    } | changes


@asynccontextmanager
async def shown(
    crawl: Crawl,
    port: int = 0,
    any_host: bool = False,
    history: CrawlHistory | None = None,
    interval: float = 0.5,
) -> AsyncIterator[tuple[Dashboard, str]]:
    """``interval``: seconds between updates. Drawing them is what the tests of the page spend their time on."""
    settings = DashboardSettings(listen=f"127.0.0.1:{port}", interval=interval)
    feed = Feed(crawl.stats, crawl.clock, history, lambda: crawl.news)
    board = Dashboard(settings, feed, crawl.routes(), Access(TOKEN, any_host))
    url = await board.start()
    try:
        yield board, url
    finally:
        await board.stop()


def with_cookie(browser: Chrome, url: str, token: str = TOKEN) -> None:
    """Let the browser look at the dashboard, as if the printed link had been opened in another tab."""
    cookie = {"url": url, "name": cookie_name(urlsplit(url).netloc), "value": Access(token).cookie}
    browser.execute_cdp_cmd("Network.setCookie", cookie | {"httpOnly": True, "sameSite": "Strict"})


async def open_page(browser: Chrome, url: str) -> None:
    await asyncio.to_thread(with_cookie, browser, url)
    # The page of the test before must not complain that its dashboard has gone.
    await asyncio.to_thread(browser.get, "about:blank")
    await asyncio.to_thread(browser.get_log, "browser")
    await asyncio.to_thread(browser.get, url)
    await until(browser, lambda: text(browser, "#state") != "connecting")


def tab(browser: Chrome, name: str) -> None:
    browser.execute_script("location.hash = `#/${arguments[0]}`", name)


async def until(browser: Chrome, true: Callable[[], Any]) -> None:
    await asyncio.to_thread(WebDriverWait(browser, PATIENCE, poll_frequency=0.05).until, lambda _: true())


def text(browser: Chrome, selector: str) -> str:
    # One round trip: the page changes between two.
    return str(browser.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def complaints(browser: Chrome) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def faults(browser: Chrome, only: dict[str, Any]) -> list[str]:
    """What axe-core finds on the page as it stands."""
    browser.execute_script(resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8"))
    found = browser.execute_async_script("axe.run(arguments[0]).then(arguments[arguments.length - 1])", only)
    return [f"{fault['id']}: {node['html']}" for fault in found["violations"] for node in fault["nodes"]]


# In the dark only the colours are others.
AXE: dict[str, dict[str, Any]] = {
    "light": {"preload": False},
    "dark": {"preload": False, "runOnly": ["color-contrast"]},
}
