"""The list of several jobs as a browser shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from selenium.webdriver import Chrome

from crawler.base.settings.parts import DashboardSettings
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.guard import json_body
from crawler.service.dashboard.job_list import JobList, Routes
from crawler.service.dashboard.live_server import LiveServer
from tests.service.dashboard.browser import AXE, TOKEN, complaints, faults, text, until, with_cookie


def job(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": "running",
        "running": True,
        "pages": 12_345,
        "pending": 2_064,
        "failed": 81,
        "hosts": 7,
        "paused_by": None,
        "seconds_left": 5_400.0,
        "at_least": True,
        "working": {"mark": "good", "text": "Working: 9.8 pages/s over the last minute, about 1 h 30 min to go."},
        "needs": [],
    } | changes


STOPPED: dict[str, Any] = {
    "state": "stopped",
    "running": False,
    "seconds_left": None,
    "working": {"mark": "over", "text": "Stopped with 2,064 URLs pending: run the same command to resume."},
}


class Jobs:
    """A list that changes, and what the page asked for."""

    def __init__(self) -> None:
        need = {"kind": "disk-full", "text": "disk full: No space left on device; it resumes by itself"}
        self.jobs = [
            job("docs-of-a-site-with-quite-a-long-name-that-breaks"),
            job("<b>news</b>", **STOPPED),
            job("full", state="paused", paused_by="disk", needs=[need]),
            job("damaged", **STOPPED | {"state": "unreadable", "pages": None, "pending": None, "failed": None}),
        ]
        self.asked: list[tuple[str, Any]] = []
        self.refuses = ""

    def rows(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "left_out": 0, "new_jobs": True, "token_file": "jobs/dashboard-token"}

    def routes(self, name: str) -> Routes | None:
        raise KeyError(name)

    def tick(self) -> None: ...

    def end(self) -> None: ...

    async def take(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, await json_body(request)))
        if self.refuses:
            return web.json_response({"error": self.refuses}, status=409)
        return web.json_response({"name": "x", "text": "Started."})


@asynccontextmanager
async def shown(jobs: Jobs) -> AsyncIterator[str]:
    listed = JobList(jobs, Routes([]))
    routes = [
        web.post(path, jobs.take) for path in ("/api/jobs", "/api/jobs/{job:.*}/{what}", "/jobs/{job}/api/control")
    ]
    settings = DashboardSettings(listen="127.0.0.1:0", interval=0.2)
    server = LiveServer(settings, listed, [*listed.routes(), *routes], Access(TOKEN))
    url = await server.start()
    try:
        yield url
    finally:
        await server.stop()


async def opened(browser: Chrome, url: str) -> None:
    await asyncio.to_thread(with_cookie, browser, url, TOKEN)
    await asyncio.to_thread(browser.get, "about:blank")
    await asyncio.to_thread(browser.get_log, "browser")
    await asyncio.to_thread(browser.get, url)
    await until(browser, lambda: names(browser))


def names(browser: Chrome) -> list[str]:
    return list(
        browser.execute_script("return [...document.querySelectorAll('#jobs h2')].map(each => each.textContent)")
    )


def press(browser: Chrome, label: str) -> None:
    browser.execute_script("document.querySelector(`button[aria-label='${arguments[0]}']`).click()", label)


def size(browser: Chrome, width: int, theme: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


async def test_jobs_that_need_somebody_come_first_and_names_are_text(browser: Chrome) -> None:
    jobs = Jobs()
    async with shown(jobs) as url:
        await opened(browser, url)
        assert await asyncio.to_thread(names, browser) == [
            "full",
            *(each["name"] for each in jobs.jobs if each["name"] != "full"),
        ]
        assert await asyncio.to_thread(text, browser, "#sum") == "4 jobs, 2 running, 1 needs attention"
        link = await asyncio.to_thread(
            browser.execute_script,
            "return [...document.querySelectorAll('#jobs a')].map(a => a.getAttribute('href'))[2]",
        )
        assert link == "jobs/%3Cb%3Enews%3C%2Fb%3E/"
        jobs.jobs[2]["needs"] = []
        jobs.jobs[1] = job("<b>news</b>", pages=12_346)
        await until(browser, lambda: text(browser, "#sum") == "4 jobs, 3 running")
        assert await asyncio.to_thread(names, browser) == [each["name"] for each in jobs.jobs]
        assert await asyncio.to_thread(complaints, browser) == []


async def test_a_job_that_cannot_be_started_from_the_page_says_why_and_offers_no_button(browser: Chrome) -> None:
    jobs = Jobs()
    why = "it is a demo, whose pages are served by crawler demo: resume it with that command"
    jobs.jobs = [job("demo", **STOPPED, start_fault=why), job("docs", **STOPPED, start_fault=None)]
    async with shown(jobs) as url:
        await opened(browser, f"{url}?token={TOKEN}")
        buttons = "[...document.querySelectorAll('button[aria-label^=Start]')]"
        off = f"return {buttons}.map(each => [each.disabled, each.title])"
        assert await asyncio.to_thread(browser.execute_script, off) == [[True, why], [False, ""]]
        assert f"It cannot be started here: {why}." in await asyncio.to_thread(text, browser, "#jobs > li .said-of")


async def test_without_the_token_nothing_can_be_pressed_and_the_page_says_where_it_is(browser: Chrome) -> None:
    async with shown(Jobs()) as url:
        await opened(browser, url)
        await asyncio.to_thread(browser.execute_script, "sessionStorage.clear()")
        await opened(browser, url)
        enabled = """return [...document.querySelectorAll('header button, .job button')]
            .filter(each => !each.disabled && !each.hidden).map(each => each.textContent)"""
        assert await asyncio.to_thread(browser.execute_script, enabled) == ["Unlock…"]
        assert await asyncio.to_thread(text, browser, "#token-file") == "jobs/dashboard-token"


async def test_jobs_are_stopped_resumed_duplicated_and_begun(browser: Chrome) -> None:
    jobs = Jobs()
    async with shown(jobs) as url:
        await opened(browser, f"{url}?token={TOKEN}")
        await asyncio.to_thread(press, browser, "Start again <b>news</b>")
        await until(browser, lambda: jobs.asked)
        await asyncio.to_thread(press, browser, "Stop… docs-of-a-site-with-quite-a-long-name-that-breaks")
        await asyncio.to_thread(browser.execute_script, "document.querySelector('#stop-dialog [value=stop]').click()")
        await until(browser, lambda: len(jobs.asked) == 2)
        await asyncio.to_thread(press, browser, "Duplicate… full")
        await asyncio.to_thread(browser.execute_script, "document.querySelector('#new-start').click()")
        await until(browser, lambda: len(jobs.asked) == 3)
        jobs.refuses = "a directory of that name already exists: choose another name"
        await until(browser, lambda: not browser.execute_script("return document.querySelector('#new-dialog').open"))
        await asyncio.to_thread(browser.execute_script, "document.querySelector('#new').click()")
        fill = "for (const [id, value] of Object.entries(arguments[0])) document.getElementById(id).value = value"
        content = {"new-name": "blog", "new-seeds": " https://h.test/ \n\nhttps://g.test/", "new-settings": "[crawl]"}
        await asyncio.to_thread(browser.execute_script, fill, content)
        await asyncio.to_thread(browser.execute_script, "document.querySelector('#new-start').click()")
        await until(browser, lambda: text(browser, "#new-error") == jobs.refuses)
        assert await asyncio.to_thread(browser.execute_script, "return document.querySelector('#new-seeds').value"), (
            "kept"
        )
    assert jobs.asked == [
        ("/api/jobs/<b>news</b>/resume", {}),
        ("/jobs/docs-of-a-site-with-quite-a-long-name-that-breaks/api/control", {"do": "stop"}),
        ("/api/jobs/full/duplicate", {"name": "full-2"}),
        ("/api/jobs", {"name": "blog", "seeds": ["https://h.test/", "https://g.test/"], "settings": "[crawl]"}),
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1_366])
async def test_axe_finds_no_fault_and_nothing_is_cut(browser: Chrome, width: int, theme: str) -> None:
    async with shown(Jobs()) as url:
        await asyncio.to_thread(size, browser, width, theme)
        await opened(browser, f"{url}?token={TOKEN}")
        assert await asyncio.to_thread(faults, browser, AXE[theme]) == []
        wide = "return [document.documentElement.scrollWidth, innerWidth]"
        scroll, inner = await asyncio.to_thread(browser.execute_script, wide)
        assert scroll <= inner
        cut = """return [...document.querySelectorAll('.job dd, .job p, .job h2')]
            .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"""
        assert await asyncio.to_thread(browser.execute_script, cut) == []
        await asyncio.to_thread(browser.execute_script, "document.querySelector('#new').click()")
        assert await asyncio.to_thread(faults, browser, AXE[theme]) == []
