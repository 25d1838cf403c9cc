"""The same label has the same value in all views: on the terminal, on the page, in the report, the API, the metrics."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web
from selenium.webdriver import Chrome

from crawler.service.progress.live_line import Progress
from tests.asked import asked, free_port
from tests.jobs import rows
from tests.program import crawler, running, wait_until
from tests.service.dashboard.browser import text
from tests.service.dashboard.test_live import bars, figure, numbers, see
from tests.site import Site, linked

OPTIONS = ("--allow-private", "--delay", "0", "--capacity", "64")
CONFIG = """
[retry]
tries = 2
first_wait = 0.05
max_wait = 0.05
[politeness]
patience = "endless"
backoff_first = 0.02
[robots]
ignore = true
"""


class Mending:
    """A URL without an answer, until it is mended."""

    mended = False

    async def __call__(self, request: web.Request) -> web.Response:
        if not self.mended:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="here")


async def _fails(request: web.Request) -> web.Response:
    return web.Response(status=500, text="no", content_type="text/html")


async def _moved(request: web.Request) -> web.Response:
    raise web.HTTPFound("/a")


def last_outcomes(job: Path) -> Counter[str]:
    """URLs by the outcome of their last records, with ``broken`` for pages with an error status."""
    last = {record["url"]: record for record in rows(job) if not record.get("probe")}
    found = Counter(record["outcome"] for record in last.values())
    found["broken"] = sum(record["outcome"] == "fetched" and record["status"] >= 400 for record in last.values())
    return found


def told(words: str) -> dict[str, int]:
    """The numbers of a line of words."""
    page = re.search(r"([\d,]+) pages? with status 2xx", words)
    failed = re.search(r"([\d,]+)(?: URLs?)? failed", words)
    return {"2xx": figure(page[1]) if page else 0, "failed": figure(failed[1]) if failed else 0}


def test_one_crawl_with_failures_and_revisits_has_the_same_figures_everywhere(browser: Chrome, tmp_path: Path) -> None:
    flaky, job, port = Mending(), tmp_path / "job", free_port()
    pages: dict[str, Any] = {"/": linked(["/a", "/gone", "/flaky", "/moved"]), "/a": "a", "/flaky": flaky}
    dead = f"http://127.0.0.1:{free_port()}"
    with Site(pages | {"/moved": _moved}) as site, Site({"/": _fails, "/b": _fails}, robots="") as broken:
        (tmp_path / "seeds.txt").write_text(
            "\n".join([site.url("/"), broken.url("/"), broken.url("/b"), *(f"{dead}/{number}" for number in range(3))])
        )
        (tmp_path / "crawl.toml").write_text(CONFIG)
        words = (tmp_path / "seeds.txt", "--job", job, "--config", tmp_path / "crawl.toml", *OPTIONS)
        assert crawler(*words).code == 0
        flaky.mended = True
        assert crawler("retry", job, "--failed").code == 0
        assert crawler("retry", job, "--host", site.hosts[0]).code == 0
        again = crawler(*words)
    assert again.code == 0
    expected = last_outcomes(job)
    figures = {"2xx": expected["fetched"] - expected["broken"], "failed": expected["failed"]}
    assert (expected["failed"], expected["broken"]) == (3, 3)
    assert Counter(record["outcome"] for record in rows(job))["failed"] == 7, "visits are more than URLs"

    stats = json.loads(crawler("stats", job, "--json").out)
    assert {key: number for key, number in stats["urls_by_outcome"].items() if number} == {
        key: number for key, number in expected.items() if key != "broken"
    }
    assert stats["pages_by_status"]["4xx"] + stats["pages_by_status"]["5xx"] == expected["broken"]
    log = io.StringIO()
    Progress(log).update({**stats, "elapsed_seconds": 1.0})
    line = next(each for each in again.err.splitlines() if each.startswith("URLs "))
    summary = next(each for each in crawler("stats", job).out.splitlines() if each.startswith("URLs "))
    assert told(log.getvalue()) == told(line) == told(summary) == figures

    assert crawler("report", job, "--out", tmp_path / "report.html").code == 0
    pairs = dict(re.findall(r"<dt>([\w ]+)</dt><dd>([\d,]+)</dd>", (tmp_path / "report.html").read_text()))
    assert (pairs["pages"], pairs["failed"]) == (str(expected["fetched"]), str(figures["failed"]))

    url = f"http://127.0.0.1:{port}/"
    with running("dashboard", job, "--listen", str(port)):
        wait_until(lambda: asked(f"{url}healthz")[0] != 0, "the dashboard")
        token = (job / "dashboard-token").read_text().strip()
        browser.get(f"{url}?token={token}")
        see(lambda: numbers(browser).get("urls_by_outcome.failed") == "3", "the page")
        shown = numbers(browser)
        assert {
            "2xx": figure(shown["pages_by_status.2xx"]),
            "failed": figure(shown["urls_by_outcome.failed"]),
        } == figures
        outcomes = bars(browser, "outcomes")
        assert (outcomes["fetched"], outcomes["failed"]) == (expected["fetched"], figures["failed"])
        assert told(text(browser, "#working-words")) == figures
        kinds = "return [...document.querySelectorAll('[data-failures]')].map(({ lastElementChild: e }) => e.innerText)"
        assert browser.execute_script(kinds) == ["6", "3", "2", "1", "0", "0"], "all, failed, 5xx, 4xx, 429, soft 404"
        see(lambda: len(browser.find_elements("css selector", "#failures li")) == 6, "the same URLs are listed")
        api = browser.execute_script("return fetch('api/stats').then((answer) => answer.json())")
        assert {key: api[key] for key in ("urls_by_outcome", "pages_by_status")} == {
            key: stats[key] for key in ("urls_by_outcome", "pages_by_status")
        }
        _, metrics = asked(f"{url}metrics")
        for key in ("fetched", "failed"):
            assert f'crawler_urls_by_outcome{{outcome="{key}"}} {expected[key]}.0' in metrics.decode()
