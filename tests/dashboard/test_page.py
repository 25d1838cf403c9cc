"""The page in a real browser: Debian's Chromium, without a window."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from crawler.dashboard import Dashboard
from crawler.settings import DashboardSettings
from tests.metrics.samples import statistics
from tests.needs import need

FLAGS = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = need("chromium", "chromium")
    driver = need("chromedriver", "chromium-driver")
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    if os.geteuid() == 0:
        # Chromium refuses to run its sandbox as root, which is what containers give.
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


class Crawl:
    """Statistics that go on by 20 pages a second of their clock."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.seconds = itertools.count(1_700_000_000)
        self.pages = itertools.count(10_000, 20)

    def clock(self) -> float:
        return float(next(self.seconds))

    def stats(self) -> dict[str, Any]:
        return statistics(pages_fetched=next(self.pages)) | self.changes


@asynccontextmanager
async def shown(crawl: Crawl, port: int = 0, token: str | None = None) -> AsyncIterator[tuple[Dashboard, str]]:
    settings = DashboardSettings(listen=f"127.0.0.1:{port}", interval=0.05, token=token)
    board = Dashboard(settings, crawl.stats, crawl.clock)
    url = await board.start()
    try:
        yield board, url
    finally:
        await board.stop()


async def open_page(browser: Chrome, url: str) -> None:
    await asyncio.to_thread(browser.get_log, "browser")
    await asyncio.to_thread(browser.get, url)
    await until(browser, lambda: text(browser, "#state") != "connecting")


async def until(browser: Chrome, true: Callable[[], Any]) -> None:
    await asyncio.to_thread(WebDriverWait(browser, 15, poll_frequency=0.05).until, lambda _: true())


def text(browser: Chrome, selector: str) -> str:
    # One round trip: the page changes between two.
    return str(browser.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def complaints(browser: Chrome) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


async def test_the_page_shows_what_the_statistics_say(browser: Chrome) -> None:
    crawl = Crawl(pages_fetched=1_234_567)
    async with shown(crawl) as (_, url):
        await open_page(browser, url)

        def read() -> dict[str, Any]:
            return dict(
                browser.execute_script(
                    """return {
                        shown: Object.fromEntries([...document.querySelectorAll('[data-show]')]
                            .map(node => [node.dataset.show, node.textContent])),
                        slices: [...document.querySelectorAll('#slices tr')].map(row => row.innerText.split(/\\t+/)),
                        status: [...document.querySelectorAll('#status tr')].map(row => row.innerText.split(/\\s+/)),
                        beyond: document.querySelector('#beyond').textContent,
                        trust: document.querySelector('#trust').textContent,
                        title: document.title,
                    }"""
                )
            )

        page = await asyncio.to_thread(read)
        lines = await asyncio.to_thread(
            browser.execute_script,
            "return [...document.querySelectorAll('#chart-fpp [data-line]')].map(line => line.getAttribute('d'))",
        )
        assert await asyncio.to_thread(complaints, browser) == []
    assert page["title"] == "running · crawl"
    assert page["trust"] == "Of 12,347 new URLs about 2 were taken for seen and skipped by mistake."
    assert page["shown"] == {
        "elapsed_seconds": "12 s",
        "seen.fpp_estimated": "0.00019",
        "seen.fpp_target": "0.001",
        "seen.fpp_bound": "0.0008",
        "seen.fpp_measured.value": "0.0002",
        "seen.fpp_measured.low": "0.0001",
        "seen.fpp_measured.high": "0.0003",
        "seen.expected_urls_skipped": "2.3",
        "pages_fetched": "1,234,567",
        "urls_pending": "2,000",
        "urls_in_flight": "64",
        "hosts": "7",
        "hosts_pending": "5",
        "seen.kind": "scalable",
        "seen.count": "12,345",
        "seen.bytes": "50.0 KiB",
        "seen.bits_per_url": "33.2",
        "pages_redirected": "150",
        "urls_excluded": "50",
        "pages_failed": "81",
        "retries": "9",
        "throttled": "5",
        "bytes_fetched": "352.9 MiB",
        "links_found": "400,000",
        "links_off_scope": "30,000",
        "links_rejected": "12",
        "urls_duplicate": "357,643",
        "urls_admitted": "12,345",
        "checkpoint.age_seconds": "3 s",
        "checkpoint.generation": "4",
        "checkpoint.seconds": "200 ms",
        "checkpoint.bytes": "50.1 KiB",
    }
    assert page["beyond"] == "43"
    assert page["slices"] == [
        ["1", "8,000 of 8,000", "48.8%", "12", "0.00019", "0.0002"],
        ["2", "4,345 of 16,000", "17.0%", "13", "1.0e-10", "0.00016"],
    ]
    assert page["status"] == [["2xx", "9,800"], ["3xx", "150"], ["4xx", "190"], ["5xx", "10"]]
    assert all(line.startswith("M") for line in lines)
    assert len(lines) == 4


async def test_numbers_move_and_the_charts_with_them(browser: Chrome) -> None:
    async with shown(Crawl()) as (_, url):
        await open_page(browser, url)
        before = await asyncio.to_thread(text, browser, "[data-show='pages_fetched']")
        await until(browser, lambda: text(browser, "[data-show='pages_fetched']") != before)
        # The clock goes a second a tick, in which 20 pages are fetched.
        await until(browser, lambda: text(browser, "[data-rate='pages_per_second']") == "20.0")
        path = "return document.querySelector('#chart-pages [data-line]').getAttribute('d')"
        await until(browser, lambda: browser.execute_script(path).count("L") >= 3)
        await asyncio.to_thread(browser.find_element(By.CSS_SELECTOR, "[data-span=all]").click)
        pressed = await asyncio.to_thread(
            browser.execute_script,
            "return [...document.querySelectorAll('[data-span]')].map(button => button.ariaPressed)",
        )
        assert pressed == ["false", "true"]
        await until(browser, lambda: browser.execute_script(path).count("L") >= 3)


async def test_axes_tell_zero_from_small_and_count_in_whole_urls(browser: Chrome) -> None:
    seen = statistics()["seen"] | {"fpp_estimated": 0.0, "fpp_measured": None}
    async with shown(Crawl(seen=seen, urls_in_flight=1)) as (_, url):
        await open_page(browser, url)

        def labels(chart: str) -> list[str]:
            script = "return [...document.querySelectorAll(arguments[0])].map(node => node.textContent)"
            return list(browser.execute_script(script, f"#{chart} > svg text[dominant-baseline]"))

        assert await asyncio.to_thread(labels, "chart-fpp") == ["≤ 1e-10", "1e-8", "1e-6", "0.0001", "0.01"]
        assert await asyncio.to_thread(labels, "chart-flight") == ["0", "1"]
        legend = await asyncio.to_thread(lambda: browser.find_element(By.CSS_SELECTOR, "#chart-fpp .legend").text)
        assert legend.split() == ["estimated", "0", "target", "0.001", "bound", "0.0008"]


async def test_what_does_not_exist_is_a_dash(browser: Chrome) -> None:
    async with shown(Crawl(seen=None, checkpoint=None, links_found=None)) as (_, url):
        await open_page(browser, url)
        for key in ("seen.fpp_estimated", "checkpoint.generation", "links_found"):
            assert await asyncio.to_thread(text, browser, f"[data-show='{key}']") == "\N{EN DASH}"
        assert await asyncio.to_thread(text, browser, "#trust") == "There is no seen-set yet."
        assert await asyncio.to_thread(complaints, browser) == []


async def test_the_end_is_told_and_a_crawl_carried_on_is_found_again(browser: Chrome) -> None:
    crawl = Crawl()
    async with shown(crawl) as (_, url):
        await open_page(browser, url)
        assert await asyncio.to_thread(text, browser, "#state") == "running"
        crawl.changes = {"state": "ended", "pages_fetched": 55_555}
    await until(browser, lambda: text(browser, "#notice").startswith("The crawl is over."))
    assert await asyncio.to_thread(text, browser, "#state") == "ended"
    assert await asyncio.to_thread(text, browser, "[data-show='pages_fetched']") == "55,555"
    port = int(url.rstrip("/").rpartition(":")[2])
    async with shown(Crawl(pages_fetched=77_777), port):
        await until(browser, lambda: text(browser, "#state") == "running")
        await until(browser, lambda: text(browser, "[data-show='pages_fetched']") == "77,777")
        assert await asyncio.to_thread(text, browser, "#notice") == ""


async def test_a_filter_worse_than_asked_for_is_called_so(browser: Chrome) -> None:
    seen = statistics()["seen"] | {"fpp_estimated": 0.002}
    async with shown(Crawl(seen=seen)) as (_, url):
        await open_page(browser, url)
        assert "worse than asked for" in await asyncio.to_thread(text, browser, "#trust")
        trusted = "return document.querySelector('.trust').dataset.trusted"
        assert await asyncio.to_thread(browser.execute_script, trusted) == "no"


async def test_markup_in_the_statistics_is_text(browser: Chrome) -> None:
    markup = "<img src=x onerror=\"document.title='owned'\">"
    seen = statistics()["seen"] | {"kind": markup}
    async with shown(Crawl(seen=seen, state=markup, status={markup: 3})) as (_, url):
        await open_page(browser, url)
        assert await asyncio.to_thread(text, browser, "[data-show='seen.kind']") == markup
        assert await asyncio.to_thread(text, browser, "#state") == markup
        images = await asyncio.to_thread(browser.find_elements, By.TAG_NAME, "img")
        assert images == []
        assert await asyncio.to_thread(lambda: browser.title) != "owned"


async def test_the_token_opens_the_page_and_leaves_the_address(browser: Chrome) -> None:
    async with shown(Crawl(), token="s3cret") as (_, url):
        await open_page(browser, f"{url}?token=s3cret")
        assert await asyncio.to_thread(lambda: browser.current_url) == url
        await asyncio.to_thread(browser.refresh)
        await until(browser, lambda: text(browser, "#state") == "running")
        assert await asyncio.to_thread(complaints, browser) == []


@pytest.mark.parametrize("width", [360, 1280, 3840])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_page_fits_every_screen_in_both_themes(browser: Chrome, width: int, theme: str) -> None:
    def look() -> dict[str, Any]:
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        )
        return dict(
            browser.execute_script(
                """const root = document.documentElement;
                const outside = [...document.querySelectorAll('section, figure, dd, .chart text')].filter(node => {
                    const box = node.getBoundingClientRect();
                    const frame = node.closest('svg')?.getBoundingClientRect() ?? {left: 0, right: innerWidth};
                    return !node.closest('.scroll') && (box.left < frame.left - 1 || box.right > frame.right + 1);
                });
                const light = color => Math.max(...color.match(/\\d+/g).map(Number).slice(0, 3));
                const style = getComputedStyle(document.body);
                return {width: innerWidth, scroll: root.scrollWidth, outside: outside.length,
                        ground: light(style.backgroundColor), text: light(style.color)};"""
            )
        )

    # As large as numbers get, and an axis whose label is the longest.
    seen = statistics()["seen"] | {"fpp_estimated": 0.0, "count": 10**9}
    async with shown(Crawl(seen=seen, urls_pending=10**9, links_found=10**11, urls_admitted=10**9)) as (_, url):
        await open_page(browser, url)
        await asyncio.to_thread(look)
        await until(browser, lambda: browser.execute_script("return innerWidth") == width)
        seen = await asyncio.to_thread(look)
    assert seen["width"] == width
    assert seen["scroll"] <= width
    assert seen["outside"] == 0
    assert (seen["ground"] > seen["text"]) == (theme == "light")
