"""Pages of strangers in the browser of somebody whose dashboard is open on this machine."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from selenium.webdriver import Chrome

from crawler.service.dashboard.live_server import Dashboard
from tests.asked import enters
from tests.inspect.export.hostile_report import hostile_report
from tests.program import crawler, running, wait_until
from tests.service.dashboard.browser import AXE, TOKEN, Crawl, chromium, complaints, faults, shown, text, with_cookie
from tests.site import Site, linked

# Every way in which a page can send something to another site, and what became of each.
ATTACK = """
const [target, token, done] = arguments;
const control = target + "api/control", order = JSON.stringify({ do: "stop" });
const asked = (url, options) =>
    fetch(url, options).then(async (answer) => [answer.type, answer.status, await answer.text()], () => ["refused"]);
const loaded = (name, attributes) => new Promise((resolve) => {
    const node = Object.assign(document.createElement(name), attributes);
    node.onload = () => resolve(["loaded"]);
    node.onerror = () => resolve(["refused"]);
    document.body.append(node);
});
const listened = new Promise((resolve) => {
    const source = new EventSource(target + "api/events");
    source.onmessage = source.onopen = () => resolve(["heard"]);
    source.onerror = () => resolve(["refused"]);
});
const form = document.createElement("form");
Object.assign(form, { method: "post", action: control, enctype: "text/plain", target: "hidden" });
const field = document.createElement("input");
Object.assign(field, { name: '{"do": "stop", "x": "', value: '"}' });
form.append(field);
const frame = document.createElement("iframe");
frame.name = "hidden";
document.body.append(frame, form);
Promise.all([
    asked(target + "api/stats"),
    asked(target + "api/stats", { credentials: "include" }),
    asked(target + "api/explain?url=x", { mode: "no-cors" }),
    asked(control, { method: "POST", body: order }),
    asked(control, { method: "POST", body: order, mode: "no-cors", credentials: "include" }),
    asked(control, { method: "POST", body: order, headers: {
        "Content-Type": "application/json", Authorization: "Bearer " + token } }),
    navigator.sendBeacon(control, order),
    listened,
    loaded("script", { src: target + "api/stats" }),
    loaded("img", { src: target + "api/events" }),
    new Promise((resolve) => { frame.onload = () => resolve(["answered"]); form.submit(); }),
]).then(done, (error) => done(String(error)));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One in which a name of the attacker's leads to this machine."""
    with chromium(tmp_path_factory.mktemp("profile"), "--host-resolver-rules=MAP evil.test 127.0.0.1") as chrome:
        yield chrome


class Looked(Crawl):
    """Knows what it was made to answer, also where the browser keeps the answer from the page."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[str] = []

    async def explain(self, request: web.Request) -> web.Response:
        self.looks.append(request.path_qs)
        return await super().explain(request)


@asynccontextmanager
async def strangers(content: str = "<!doctype html><title>nice</title><body>") -> AsyncIterator[int]:
    """The port of a site with one page."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text=content, content_type="text/html")

    app = web.Application()
    app.add_routes([web.get("/", page)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


# evil.test is another site; localhost and 127.0.0.1 with another port are other origins, of the same cookies.
@pytest.mark.parametrize("name", ["evil.test", "localhost", "127.0.0.1"])
@pytest.mark.parametrize("any_host", [False, True], ids=["here", "anywhere"])
async def test_a_strangers_page_reads_nothing_and_changes_nothing(browser: Chrome, name: str, any_host: bool) -> None:
    crawl = Looked()
    async with strangers() as port, shown(crawl, any_host=any_host) as (board, url):
        # Whoever is attacked has been at the dashboard, and has its cookie.
        await asyncio.to_thread(with_cookie, browser, url)
        await asyncio.to_thread(browser.get, f"http://{name}:{port}/")
        got: Any = await asyncio.to_thread(browser.execute_async_script, ATTACK, url, TOKEN)
        assert isinstance(got, list), got
        *_, beacon, listened, script, image, form = got
        fetched = got[:6]
        # What is opaque was sent, and nothing of the answer can be read.
        assert [each[0] for each in fetched] == ["refused", "refused", "opaque", "refused", "opaque", "refused"] or [
            each[0] for each in fetched
        ] == ["refused"] * 6
        assert all(each[1:] in ([], [0, ""]) for each in fetched)
        assert beacon in (True, False)
        assert [listened, script, image] == [["refused"]] * 3
        assert form == ["answered"]
        assert crawl.asked == crawl.looks == []
        await nobody_listens(board)


async def nobody_listens(board: Dashboard) -> None:
    async with asyncio.timeout(10):
        while len(board.feed.listeners):  # noqa: ASYNC110 (the page that was left is on the other side of a socket)
            await asyncio.sleep(0.01)


async def test_a_name_that_is_made_to_lead_here_gets_nothing(browser: Chrome, tmp_path: Path) -> None:
    crawl = Crawl()
    async with shown(crawl) as (_, url):
        rebound = url.replace("127.0.0.1", "evil.test")
        await asyncio.to_thread(browser.get, rebound)
        # Of the same origin as the page: only the name stands in the way.
        got = await asyncio.to_thread(
            browser.execute_async_script,
            "const [url, done] = arguments;"
            "fetch(url + 'api/stats').then(async (a) => done([a.status, await a.text()]), (e) => done(String(e)));",
            rebound,
        )
        assert got[0] == 403
        assert "pages_fetched" not in got[1]


async def test_the_page_is_shown_in_no_frame(browser: Chrome) -> None:
    async with shown(Crawl()) as (board, url), strangers(f'<iframe src="{url}"></iframe>') as port:
        await asyncio.to_thread(browser.get, f"http://127.0.0.1:{port}/")
        await asyncio.to_thread(browser.switch_to.frame, 0)
        assert "data-show" not in browser.page_source
        await asyncio.to_thread(browser.switch_to.default_content)
        await nobody_listens(board)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report_runs_nothing_of_others_and_loads_nothing_and_axe_finds_no_fault(
    browser: Chrome, tmp_path: Path, theme: str
) -> None:
    """Whatever a page, a host or a directory is called."""
    path = tmp_path / "report.html"
    path.write_text(hostile_report())
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    complaints(browser)  # about what was open before
    browser.get(path.as_uri())
    assert complaints(browser) == []
    assert harmless(browser)
    # Only what the report has itself: no element of a stranger's, no address but those of pages.
    assert browser.execute_script(
        "return [...new Set([...document.querySelectorAll('[href]')].map((node) => node.protocol))].sort()"
    ) == ["file:"]
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    width = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert browser.execute_script(width)
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})  # for axe's own script
    browser.get(path.as_uri())
    assert faults(browser, AXE[theme]) == []


OWNING = '"><img src=x onerror="window.owned=1"><script>window.owned=1</script>'


def test_titles_addresses_seeds_and_names_of_directories_are_text_in_every_page(
    browser: Chrome, tmp_path: Path
) -> None:
    """A real crawl of pages that are made to own whoever looks at it, in a directory with such a name."""
    title = f"<!doctype html><title>{html.escape(OWNING)}</title>"
    pages = {"/": linked([html.escape(OWNING, quote=True), "/a", "javascript:window.owned=1"]) + title, "/a": title}
    with Site(pages) as site:
        jobs = [tmp_path / f"{name}<img src=x onerror=window.owned=1>" for name in "ab"]
        for job in jobs:
            (tmp_path / "seeds.txt").write_text(f"{site.url('/')}\n{site.url('/')}{OWNING}\njavascript:{OWNING}\n")
            ran = crawler(
                *(tmp_path / "seeds.txt", "--job", job, "--allow-private", "--delay", "0", "--quiet"),
                *("--contact", "x@example.org"),
            )
            assert ran.code == 0, ran.err
        report = tmp_path / "report.html"
        assert crawler("report", jobs[0], "--out", report).code == 0
        with running("dashboard", *jobs, "--listen", "127.0.0.1:0") as process:
            url = enters(process.stdout)
            complaints(browser)
            with_cookie(browser, url, (jobs[0] / "dashboard-token").read_text().strip())
            browser.get(url)
            wait_until(lambda: "a<img src=x" in text(browser, "body"), "the list has the job")
            assert harmless(browser)
            browser.get(f"{url}jobs/{quote(jobs[0].name, safe='')}/")
            wait_until(lambda: "%3Cimg%20src=x" in text(browser, "body").replace("%22", ""), "the page has the address")
            assert harmless(browser)
            assert complaints(browser) == []
            browser.get(report.as_uri())
            assert harmless(browser)


def harmless(browser: Chrome) -> bool:
    """Whether no element and no code of a stranger is in the page."""
    script = (
        "return [typeof window.owned, document.querySelectorAll('img, [onerror], script:not([src], [type])').length]"
    )
    return bool(browser.execute_script(script) == ["undefined", 0])
