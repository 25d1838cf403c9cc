"""The page in a real browser."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from crawler.base.settings.parts import CrawlSettings
from crawler.engine.lifecycle import Lifecycle, Stop
from crawler.engine.run import stop_text
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.events import Kind
from crawler.job.metrics.sentences import working
from tests.base.test_figures import PROBABILITIES
from tests.examples import TIMES
from tests.job.metrics.samples import statistics
from tests.service.dashboard.browser import (
    AXE,
    TOKEN,
    Crawl,
    complaints,
    faults,
    open_page,
    record,
    shown,
    tab,
    text,
    until,
)


async def test_the_page_shows_what_the_statistics_say(browser: Chrome) -> None:
    crawl = Crawl(pages_by_status={**statistics()["pages_by_status"], "2xx": 1_234_567})
    async with shown(crawl) as (_, url):
        await open_page(browser, url)

        def read() -> dict[str, Any]:
            return dict(
                browser.execute_script(
                    """const texts = selector => [...document.querySelectorAll(selector)].map(node => node.textContent);
                    const bars = id => Object.fromEntries([...document.querySelectorAll(`#${id} > li`)]
                        .map(node => [node.children[0].textContent, node.children[1].textContent]));
                    return {
                        shown: Object.fromEntries([...document.querySelectorAll('[data-show]')]
                            .map(node => [`${node.dataset.show} ${node.dataset.as ?? ''}`.trim(), node.textContent])),
                        slices: [...document.querySelectorAll('#slices tr')]
                            .map(row => [...row.cells].map(cell => cell.textContent)),
                        explained: Object.fromEntries([...document.querySelectorAll('#explained > div')]
                            .map(row => [row.children[0].textContent, row.children[1].textContent])),
                        outcomes: bars('outcomes'),
                        links: bars('links'),
                        outputs: [...document.querySelectorAll('#outputs > div')]
                            .map(row => [...row.children].map(cell => cell.textContent)),
                        chain: document.querySelector('#chain').ariaLabel,
                        forecast: document.querySelector('#forecast').textContent,
                        states: texts('#host-states li'),
                        only: [...document.querySelectorAll('[data-if]')].filter(node => !node.hidden)
                            .map(node => node.dataset.if),
                        lost: texts('#lost li'),
                        left: texts('#left-out li'),
                        gaps: document.querySelector('#gaps').textContent,
                        work: document.querySelector('#hosts-at-work').textContent,
                        far: texts('.now dd, .far > *'),
                        title: document.title,
                    }"""
                )
            )

        await until(browser, lambda: text(browser, "#job-name") == "docs")
        page = await asyncio.to_thread(read)
        say = "const done = arguments[1]; import('/page/format.js').then((m) => done(arguments[0].map(m.probability)))"
        said = await asyncio.to_thread(browser.execute_async_script, say, [value for value, _ in PROBABILITIES])
        assert said == [words for _, words in PROBABILITIES], "as on the terminal"
        await asyncio.to_thread(tab, browser, "seen-set")
        await until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#chart-fpp .u-legend"))  # two points
        await until(browser, lambda: "1 in 5,300" in text(browser, "#chart-fpp .u-legend"))
        assert await asyncio.to_thread(complaints, browser) == []
    assert {"83%", "done: 10,280 of 12,344 known URLs", "1,234,567 with status 2xx"} <= set(page["far"])
    assert [line[:9] for line in page["left"][:6]] == [
        "284URLs a", "244links ", "31links o", "23links o", "12links t", "12links t",
    ]  # fmt: skip
    assert page["chain"] == "slice 1 holds 8,000 of 8,000 URLs, slice 2 holds 4,345 of 16,000 URLs"
    assert "62,345" in page["forecast"]
    assert {"12,324", "30,000", "357,643"} <= set(page["links"].values())
    assert [line[:4] for line in page["lost"]] == ["2,06", "81UR", "80pa", "20pa", "9URL", "8pag", "2URL", "1lin"]
    assert page["only"] == ["harvest"]
    assert page["outcomes"]["soft 404"] == "8"
    assert page["outputs"] == [["pages", "49.6 MiB"], ["links", "1.4 GiB in 2 files"]]
    assert all(page["shown"].values()), "whatever is to be shown is there"
    # One of each form.
    assert page["shown"].items() >= {
        ("bytes_fetched bytes", "352.9 MiB"),
        ("checkpoint.age_seconds ago", "3 s ago"),
        ("checkpoint.seconds seconds", "200 ms"),
        ("harvest.rate percent", "20.0%"),
        ("pages_by_status.2xx", "1,234,567"),
        ("seen.expected_urls_skipped expected", "2.3"),
    }
    assert page["explained"].items() >= {
        ("Estimated now", "1 in 5,300"),
        ("Measured", "1 in 5,000"),
        ("Target", "1 in 1,000"),
        ("Bound", "1 in 1,300"),
        ("Ledger", "2 caught"),
        ("URLs", "12,345"),
    }
    assert page["slices"] == [
        ["1", "8,000 of 8,000", "48.8%", "1 in 5,300", "1 in 5,000", "16.0 KiB"],
        ["2", "4,345 of 16,000", "17.0%", "1 in 10 billion", "1 in 6,200", "34.0 KiB"],
    ]
    assert page["states"] == ["given up 1", "at work 8", "finished 1", "not answering 1", "on hold 1"]
    assert page["work"] == "8", "as in the tab"
    assert page["title"] == "83% docs · running"
    assert page["gaps"].startswith("Missed so far: 259 left out by limits, 81 failed, 80 answered 4xx, ")
    assert page["gaps"].endswith("; 2,064 pending")


async def test_numbers_move_and_the_charts_with_them(browser: Chrome) -> None:
    async with shown(Crawl(), interval=0.1) as (_, url):
        await open_page(browser, url)
        before = await asyncio.to_thread(text, browser, PAGES)
        await until(browser, lambda: text(browser, PAGES) != before)
        await until(browser, lambda: text(browser, "[data-show=pages_per_second]") == "30.0")
        await until(browser, lambda: "20.0" in text(browser, "#chart-pages .u-legend"))
        await until(browser, lambda: text(browser, "#working-words").startswith("Working. Ends in about 1 min 43 s"))
        await asyncio.to_thread(browser.find_element(By.CSS_SELECTOR, "[data-span=all]").click)
        pressed = await asyncio.to_thread(
            browser.execute_script,
            "return [...document.querySelectorAll('[data-span]')].map(button => button.ariaPressed)",
        )
        assert pressed == ["false", "false", "true"]
        await until(browser, lambda: "20.0" in text(browser, "#chart-pages .u-legend"))


PAGES = "[data-show='pages_by_status.2xx']"
MARKUP = "<img src=x onerror=\"document.title='owned'\">"


async def test_the_keys_lead_to_the_tabs_and_to_the_search(browser: Chrome) -> None:
    tab_shown = "return [...document.querySelectorAll('main > section:not(.off)')].map(node => node.dataset.tab)"
    async with shown(Crawl()) as (_, url):
        await open_page(browser, f"{url}#/failures/5xx")
        pressed = "return document.querySelector('[data-failures][aria-pressed=true]').dataset.failures"
        assert await asyncio.to_thread(browser.execute_script, pressed) == "5xx"
        body = await asyncio.to_thread(browser.find_element, By.TAG_NAME, "body")
        await asyncio.to_thread(body.send_keys, "5")
        await until(browser, lambda: set(browser.execute_script(tab_shown)) == {"map"})
        assert browser.current_url == f"{url}#/map"
        await asyncio.to_thread(body.send_keys, "?")
        assert await asyncio.to_thread(browser.find_element(By.ID, "keys-dialog").is_displayed)
        await asyncio.to_thread(browser.switch_to.active_element.send_keys, Keys.ESCAPE)
        await asyncio.to_thread(body.send_keys, "/")
        await asyncio.to_thread(browser.switch_to.active_element.send_keys, "h.test/a?b=/", Keys.ENTER)
        await until(browser, lambda: text(browser, "#explanation").startswith("href: h.test/a?b=/"))
        assert set(await asyncio.to_thread(browser.execute_script, tab_shown)) == {"pages"}
        await asyncio.to_thread(browser.back)
        await until(browser, lambda: set(browser.execute_script(tab_shown)) == {"map"})


async def test_markup_from_the_web_is_text(browser: Chrome) -> None:
    seen = statistics()["seen"] | {"kind": MARKUP}
    crawl = Crawl(seen=seen, state=MARKUP, status={MARKUP: 3})
    crawl.hosts = [crawl.hosts[0] | {"host": MARKUP, "reason": MARKUP, "state": MARKUP, "errors": {MARKUP: 1}}]
    strange = record(1, url=f"http://h.test/{MARKUP}", outcome="failed", status=None, words=MARKUP, via=MARKUP)
    crawl.survey |= {"recent": [strange], "failures": [strange], "types": [{"type": MARKUP, "records": 1, "bytes": 1}]}
    crawl.survey["hosts"][0]["host"] = crawl.survey["map"][0]["name"] = MARKUP
    history = CrawlHistory()
    history.events.add(1_700_000_000.0, Kind.ERROR, MARKUP, MARKUP)
    async with shown(crawl, history=history) as (_, url):
        await open_page(browser, url)
        assert MARKUP in await asyncio.to_thread(text, browser, "#explained")
        assert await asyncio.to_thread(text, browser, "#state") == MARKUP
        await until(browser, lambda: MARKUP in text(browser, "#events"))
        await asyncio.to_thread(tab, browser, "hosts")
        await until(browser, lambda: text(browser, "#hosts").count(MARKUP) == 2)
        await asyncio.to_thread(tab, browser, "map")
        for part in ("#ticker", "#failures", "#answers", "#types", "#map"):
            await until(browser, lambda part=part: MARKUP in text(browser, part))
        await asyncio.to_thread(fill, browser, "#search", f"http://h.test/{MARKUP}")
        await until(browser, lambda: MARKUP in text(browser, "#explanation"))
        images = await asyncio.to_thread(browser.find_elements, By.TAG_NAME, "img")
        assert images == []
        assert await asyncio.to_thread(lambda: browser.title) != "owned"


def fill(browser: Chrome, selector: str, words: str) -> None:
    field = browser.find_element(By.CSS_SELECTOR, selector)
    field.clear()
    field.send_keys(words, Keys.ENTER)


# In one round trip: the rows are made anew every few seconds.
OPEN_FIRST = "document.querySelector('#hosts tr button').click()"


def click(browser: Chrome, selector: str) -> None:
    # By keyboard: a pointer presses where the button was, and on a busy machine the page can still move below it.
    browser.find_element(By.CSS_SELECTOR, selector).send_keys(Keys.ENTER)


def column(browser: Chrome, number: int) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(cell => cell.textContent)"
    return list(browser.execute_script(script, f"#hosts tr > :nth-child({number})"))


async def test_hosts_are_sorted_searched_and_turned_over(browser: Chrome) -> None:
    crawl = Crawl()
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}#/hosts")
        most = sorted((row["pending"] for row in crawl.hosts), reverse=True)
        await until(browser, lambda: column(browser, 3) == [str(number) for number in most[:50]])
        await asyncio.to_thread(click, browser, "[data-sort=failed]")
        worst = sorted((row["failed"] for row in crawl.hosts), reverse=True)
        await until(browser, lambda: column(browser, 5) == [str(number) for number in worst[:50]])
        assert await asyncio.to_thread(text, browser, "#hosts-count") == "1 to 50 of 250"
        cut = """return [...document.querySelectorAll('#hosts td')]
            .filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.textContent)"""
        assert await asyncio.to_thread(browser.execute_script, cut) == []
        await asyncio.to_thread(click, browser, "[data-sort=host]")
        names = [row["host"] for row in crawl.hosts]
        await until(browser, lambda: column(browser, 1) == names[:50])
        for at in (50, 100, 150, 200):
            await asyncio.to_thread(click, browser, "#hosts-after")
            await until(browser, lambda at=at: column(browser, 1) == names[at : at + 50])
        assert await asyncio.to_thread(text, browser, "#hosts-count") == "201 to 250 of 250"
        assert not await asyncio.to_thread(browser.find_element(By.ID, "hosts-after").is_enabled)
        await asyncio.to_thread(click, browser, "[data-sort=host]")
        await until(browser, lambda: column(browser, 1) == names[::-1][:50])
        order = "return document.querySelector('[data-sort=host]').parentElement.ariaSort"
        assert await asyncio.to_thread(browser.execute_script, order) == "descending"
        await asyncio.to_thread(fill, browser, "#search", "h12")
        await until(browser, lambda: column(browser, 1) == [f"h12{digit}.test" for digit in range(9, -1, -1)])
        assert await asyncio.to_thread(complaints, browser) == []


async def test_a_host_is_opened_in_place_by_keyboard_and_says_why_and_when(browser: Chrome) -> None:
    async with shown(Crawl()) as (_, url):
        await open_page(browser, f"{url}#/hosts")
        await until(browser, lambda: column(browser, 1))
        first = (await asyncio.to_thread(column, browser, 1))[0]
        focus = "document.querySelector('#hosts button').focus()"
        await asyncio.to_thread(browser.execute_script, focus)
        await asyncio.to_thread(browser.switch_to.active_element.send_keys, Keys.ENTER)
        detail = "#hosts tr:nth-child(2).detail"
        await until(browser, lambda: "/<i>2</i>" in text(browser, detail))
        told = await asyncio.to_thread(text, browser, detail)
        assert f"http://{first}" not in told, "the host is named above: its paths have the room"
        assert "200 · 512 B" in told
        blocked = await asyncio.to_thread(browser.find_element, By.CSS_SELECTOR, "[data-host-do=block-host]")
        assert not await asyncio.to_thread(blocked.is_enabled)
        # The table is filled again every few seconds: what is open stays open, and the focus where it was.
        again = "return performance.getEntriesByType('resource').filter(one => one.name.includes('/hosts?')).length"
        asked = await asyncio.to_thread(browser.execute_script, again)
        await until(browser, lambda: browser.execute_script(again) > asked + 1)
        assert await asyncio.to_thread(lambda: browser.switch_to.active_element.text) == first
        assert "200 · 512 B" in await asyncio.to_thread(text, browser, detail)
        await asyncio.to_thread(browser.switch_to.active_element.send_keys, Keys.ENTER)
        await until(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, ".detail"))


async def test_events_come_as_they_happen_and_kinds_can_be_hidden(browser: Chrome) -> None:
    history = CrawlHistory()
    for number in range(120):
        history.events.add(1_700_000_000.0, Kind.ERROR, f"failure {number}")
    history.events.add(1_700_000_001.0, Kind.RETIRED, "given up", "dead.test")

    def shown_events() -> list[str]:
        script = "return [...document.querySelectorAll('#events li')].map(line => line.innerText)"
        lines = [line.partition(":") for line in browser.execute_script(script)]
        # They are years old: their day is said too.
        assert {before for before, _, _ in lines} <= {"14 Nov 22"}
        return [rest.split(maxsplit=1)[1] for _, _, rest in lines]

    async with shown(Crawl(), history=history) as (_, url):
        await open_page(browser, f"{url}#/machines")
        await until(browser, lambda: len(shown_events()) == 121 and shown_events()[0] == "retired dead.test given up")
        await asyncio.to_thread(click, browser, "[data-kind=error]")
        await until(browser, lambda: shown_events() == ["retired dead.test given up"])
        # More at once than a message holds: the page asks for the rest.
        for number in range(70):
            history.events.add(1_700_000_002.0, Kind.BACKOFF, f"held {number}", "h.test")
        newest = [f"backoff h.test held {number}" for number in range(69, -1, -1)]
        await until(browser, lambda: shown_events() == [*newest, "retired dead.test given up"])
        counts = "return [...document.querySelectorAll('#kinds button')].map(button => button.innerText)"
        assert "error 120" in await asyncio.to_thread(browser.execute_script, counts)
        assert await asyncio.to_thread(complaints, browser) == []


async def test_without_the_token_nothing_can_be_pressed_until_it_is_given(browser: Chrome) -> None:
    crawl = Crawl()
    async with shown(crawl) as (_, url):
        await open_page(browser, url)
        assert not await asyncio.to_thread(browser.find_element(By.ID, "pause").is_enabled)
        await asyncio.to_thread(click, browser, "#unlock")
        await asyncio.to_thread(fill, browser, "#unlock-token", "wrong")
        await asyncio.to_thread(click, browser, "#pause")
        await until(browser, lambda: "send Authorization: Bearer TOKEN" in text(browser, "#notice"))
        assert not await asyncio.to_thread(browser.find_element(By.ID, "pause").is_enabled)
        await asyncio.to_thread(click, browser, "#unlock")
        await asyncio.to_thread(fill, browser, "#unlock-token", TOKEN)
        await asyncio.to_thread(click, browser, "#pause")
        await until(browser, lambda: text(browser, "#pause") == "Resume")
        assert crawl.asked == [{"do": "pause"}]


async def test_with_the_token_the_crawl_is_paused_resumed_and_stopped(browser: Chrome) -> None:
    crawl = Crawl()
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}?token={TOKEN}")
        assert await asyncio.to_thread(lambda: browser.current_url) == url
        await asyncio.to_thread(click, browser, "#pause")
        await until(browser, lambda: text(browser, "#pause") == "Resume")
        await asyncio.to_thread(click, browser, "#pause")
        await until(browser, lambda: text(browser, "#pause") == "Pause")
        await asyncio.to_thread(click, browser, "[data-do=checkpoint]")
        await until(browser, lambda: text(browser, "#notice") == "the disk is full")
        await asyncio.to_thread(click, browser, "#stop")
        await asyncio.to_thread(click, browser, "#stop-dialog [value='']")
        await asyncio.to_thread(click, browser, "#stop")
        await asyncio.to_thread(click, browser, "#stop-dialog [value='stop']")
        await until(browser, lambda: text(browser, "#notice") == "Stopping.")
        await asyncio.to_thread(tab, browser, "hosts")
        await until(browser, lambda: column(browser, 1))
        await asyncio.to_thread(browser.execute_script, OPEN_FIRST)
        await asyncio.to_thread(click, browser, "[data-host-do=pause-host]")
        await until(browser, lambda: text(browser, ".detail .notice") == "Done.")
        await asyncio.to_thread(click, browser, "[data-host-do=block-host]")
        await until(browser, lambda: "stay excluded" in text(browser, ".detail .notice"))
        assert crawl.asked[-1]["do"] == "pause-host"
        await asyncio.to_thread(click, browser, "[data-host-do=block-host]")
        await until(browser, lambda: text(browser, ".detail .notice") == "Done.")
        name = await asyncio.to_thread(text, browser, "#hosts [aria-expanded=true]")
        assert crawl.asked[-1]["host"] == name
        await asyncio.to_thread(click, browser, "[data-host-do=retry]")
        await until(browser, lambda: "3 failed URLs queued" in text(browser, ".detail .notice"))
        assert crawl.asked.pop() == {"host": name, "failed": True}
    words = [asked["do"] for asked in crawl.asked]
    assert words == ["pause", "resume", "checkpoint", "stop", "pause-host", "block-host"]


TABS = ("overview", "hosts", "failures", "pages", "map", "seen-set", "machines")
# How far things have moved since the page was opened.
SHIFTS = """const seen = [];
    new PerformanceObserver(list => seen.push(...list.getEntries()
        .filter(entry => !entry.hadRecentInput).map(entry => entry.value)))
        .observe({type: 'layout-shift', buffered: true});
    setTimeout(() => arguments[0](seen.reduce((sum, value) => sum + value, 0)), 300);"""


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_no_fault(browser: Chrome, theme: str) -> None:
    history = CrawlHistory()
    for kind in Kind:
        history.events.add(1_700_000_001.0, kind, "something", "h.test")
    crawl = Crawl()
    del crawl.hosts[8:]  # one of each state: looking at contrast takes its time
    async with shown(crawl, history=history) as (_, url):
        await asyncio.to_thread(size, browser, 1_440, theme)
        await open_page(browser, f"{url}?token={TOKEN}#/hosts")
        await until(browser, lambda: column(browser, 1) and "something" in text(browser, "#events"))
        await asyncio.to_thread(click, browser, "[data-do=checkpoint]")
        await until(browser, lambda: text(browser, "#notice") == "the disk is full")
        await asyncio.to_thread(browser.execute_script, OPEN_FIRST)
        await until(browser, lambda: "512 B" in text(browser, "#hosts .detail"))
        for name in (*TABS, "pages/http%3A%2F%2Fh.test%2F"):
            await asyncio.to_thread(tab, browser, name)
            assert await asyncio.to_thread(faults, browser, AXE[theme]) == [], name


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_no_fault_in_other_states_nor_does_the_page_move_as_they_change(
    browser: Chrome, theme: str
) -> None:
    worse = statistics()["seen"] | {"fpp_estimated": 0.002}
    states: dict[str, dict[str, Any]] = {
        "paused": {"state": "paused", "paused": "paused by user"},
        "running": {"seen": worse, "revisits": 5},
        "stopping": {"state": "stopping", "seen": None, "checkpoint": None},
        "ended": {"state": "ended", "urls_pending": 0},
    }
    crawl = Crawl()
    del crawl.hosts[8:]
    async with shown(crawl) as (_, url):
        await asyncio.to_thread(size, browser, 1_440, theme)
        await open_page(browser, f"{url}?token={TOKEN}")
        await asyncio.to_thread(tab, browser, "no-such-tab")
        await until(browser, lambda: browser.current_url == f"{url}#/overview")
        await until(browser, lambda: text(browser, "#attention"))
        for state, crawl.changes in states.items():
            await until(browser, lambda state=state: text(browser, "#state") == state)
            assert await asyncio.to_thread(faults, browser, AXE[theme]) == [], state
        assert await asyncio.to_thread(browser.execute_async_script, SHIFTS) < 0.1


async def test_the_token_opens_the_page_and_leaves_the_address(browser: Chrome) -> None:
    async with shown(Crawl()) as (_, url):
        await asyncio.to_thread(browser.get, url)
        await until(browser, lambda: text(browser, "#state") == "locked")
        assert "dashboard-token" in await asyncio.to_thread(lambda: browser.find_element(By.ID, "stale-words").text)
        assert await asyncio.to_thread(faults, browser, AXE["light"]) == []
        await asyncio.to_thread(click, browser, "#unlock")
        await asyncio.to_thread(fill, browser, "#unlock-token", TOKEN)
        await until(browser, lambda: text(browser, "#state") == "running")
        await asyncio.to_thread(browser.delete_all_cookies)
        # As from the file that --open gives to the browser: another site leads here.
        way_in = f"data:text/html,<meta http-equiv=refresh content='0; url={url}?token={TOKEN}'>"
        await asyncio.to_thread(browser.get_log, "browser")
        await asyncio.to_thread(browser.get, way_in)
        await until(browser, lambda: browser.current_url == url and text(browser, "#state") == "running")
        assert await asyncio.to_thread(lambda: browser.current_url) == url
        await asyncio.to_thread(browser.refresh)
        await until(browser, lambda: text(browser, "#state") == "running")
        assert await asyncio.to_thread(complaints, browser) == []


def size(browser: Chrome, width: int, theme: str) -> None:
    screen = {"width": width, "height": 900 if width < 2_000 else 2_160, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)


WIDTHS, THEMES = (390, 1_280, 1_366, 1_440, 1_920), ("light", "dark")
# The themes take turns; a long look takes each width in both.
TURNS = zip(WIDTHS, itertools.cycle(THEMES), strict=False)


@pytest.mark.parametrize(("width", "theme"), list(TURNS if TIMES == 1 else itertools.product(WIDTHS, THEMES)))
async def test_the_page_fits_every_screen_in_both_themes(browser: Chrome, width: int, theme: str) -> None:
    def look() -> dict[str, Any]:
        return dict(
            browser.execute_script(
                """const root = document.documentElement;
                const outside = [...document.querySelectorAll('section, canvas, dd, td, p, button')].filter(node => {
                    const box = node.getBoundingClientRect();
                    if (!box.width || node.closest('dialog')) return false;
                    const frame = node.closest('section')?.getBoundingClientRect() ?? {left: 0, right: innerWidth};
                    return box.left < frame.left - 1 || box.right > frame.right + 1;
                });
                // The page scrolls, never a part of it.
                const cut = [...document.querySelectorAll('section, section ul, section ol, table')]
                    .filter(node => /auto|scroll/.test(getComputedStyle(node).overflowY));
                const light = color => Math.max(...color.match(/\\d+/g).map(Number).slice(0, 3));
                const style = getComputedStyle(document.body);
                return {width: innerWidth, scroll: root.scrollWidth,
                        outside: [...outside, ...cut].map(node => node.outerHTML),
                        ground: light(style.backgroundColor), text: light(style.color)};"""
            )
        )

    # As large as numbers get, and an axis whose label is the longest.
    seen = statistics()["seen"] | {"fpp_estimated": 0.0, "count": 10**9}
    async with shown(Crawl(seen=seen, urls_pending=10**9, links_found=10**11, urls_admitted=10**9)) as (_, url):
        await asyncio.to_thread(size, browser, width, theme)
        await open_page(browser, url)
        await until(browser, lambda: browser.execute_script("return innerWidth") == width)
        for name in TABS:
            await asyncio.to_thread(tab, browser, name)
            page = await asyncio.to_thread(look)
            assert page["width"] == width
            assert (page["scroll"] <= width, page["outside"]) == (True, []), name
            assert (page["ground"] > page["text"]) == (theme == "light")


async def test_of_a_crawl_that_is_over_there_is_nothing_to_control(browser: Chrome) -> None:
    async with shown(Crawl(state="ended")) as (_, url):
        await open_page(browser, f"{url}?token={TOKEN}")
        await until(browser, lambda: browser.find_element(By.ID, "no-controls").is_displayed())
        buttons = browser.find_elements(By.CSS_SELECTOR, "header button")
        assert not any([await asyncio.to_thread(button.is_displayed) for button in buttons])
        await asyncio.to_thread(tab, browser, "hosts")
        await until(browser, lambda: column(browser, 1))
        await asyncio.to_thread(browser.execute_script, OPEN_FIRST)
        hosts = browser.find_elements(By.CSS_SELECTOR, "[data-host-do]")
        assert not any([await asyncio.to_thread(button.is_enabled) for button in hosts])


def stopped(by: Stop, **changes: Any) -> dict[str, Any]:
    life = Lifecycle(CrawlSettings(max_pages=20_000, max_time=5_400.0), 0.0)
    life.stop(by)
    pending = {"state": "stopped", "urls_admitted": 1_234_567, "urls_pending": 1_214_567, "urls_in_flight": 0}
    return pending | {"stopped_by": by, "stopped": stop_text(life)} | changes


OVER = {"state": "ended", "urls_pending": 0, "urls_in_flight": 0}
LONG = f"prices: {'wrong ' * 60}"
CODE = {"on_page": {"function": "shop:prices", "stopped": LONG}}
BOUND = {"seconds": 1_303.0, "at_least": True, "host": None, "why": "", "like": ""}
WAITS = {"name": "www.shop.test:8080", "pending": 5, "seconds_per_url": 6.0, "seconds": 30.5, "hosts": 1}
WAITS |= {"wait_seconds": 28.0, "reason": "the server's Retry-After"}
NAME = f"{'long-' * 12}name.{'d' * 63}.test:8080"
END_STATES: dict[str, dict[str, Any]] = {
    "running": {},
    "no end yet": {"time_left": BOUND | {"why": "each URL done adds 3.7 new ones"}},
    "one grows": {"time_left": BOUND | {"why": "the queue of www.shop.test:8080 still grows"}},
    "one waits": {"urls_in_flight": 0, "hosts_pending": 1, "time_left": BOUND, "slowest_host": WAITS},
    "finished": OVER,
    "nothing fetched": OVER | {"pages_fetched": 0, "urls_held_back": {}},
    **{by: stopped(by) for by in (Stop.MAX_PAGES, Stop.MAX_TIME, Stop.MIN_FREE, Stop.READER_LEFT, Stop.INTERRUPTED)},
    "code": stopped(Stop.CODE, hooks=CODE),
    "killed": stopped(Stop.INTERRUPTED, stopped_by="killed", stopped=None),
    "paused": {"state": "paused", "paused": "paused by user", "paused_by": "user"},
    "disk full": {"state": "paused", "paused": "disk full: [Errno 28] No space left on device", "paused_by": "disk"},
    "outage": {
        "state": "paused",
        "paused": f"outage: no host has answered since 12:00:00 ({LONG})",
        "paused_by": "outage",
    },
    "long name": {"time_left": {"seconds": 9e7, "at_least": True, "host": NAME, "why": f"{NAME} waits", "like": ""}},
}
ENDLESS = ("code", "outage", "long name")  # texts that are cut after three lines
SCREENS = ((390, 844), (1_280, 720), (1_366, 768), (1_440, 900), (1_920, 1_080))
GEOMETRY = """const box = node => node.getBoundingClientRect();
    const seen = selector => [...document.querySelectorAll(selector)].filter(node => box(node).width > 1);
    const words = document.getElementById('working'), faults = [];
    const lines = box(words).height / parseFloat(getComputedStyle(words).lineHeight);
    if (words.lastElementChild.scrollHeight > words.clientHeight + 1 && !arguments[0]) faults.push('cut');
    if (lines > 3.1) faults.push(`${lines} lines`);
    if (box(words).width < 300) faults.push(`${box(words).width} px for the headline`);
    if (document.documentElement.scrollWidth > innerWidth) faults.push('wider than the screen');
    const tiles = seen('.now .figures > div');
    if (tiles.some(tile => box(tile).bottom > innerHeight)) faults.push('tiles below the first screen');
    if (innerWidth > 1000 && seen('#attention, #ticker').some(list => box(list).bottom > innerHeight))
        faults.push('lists below the first screen');
    for (const node of seen('.now :is(dt, dd), #gaps, #state, #no-controls'))
        if (node.scrollWidth > node.clientWidth + 1) faults.push(`cut: ${node.outerHTML}`);
    const blocks = [...seen('header > :not(.controls):not(:empty), header .controls > *'), words, ...tiles,
        ...seen('#gaps, #progress, #stale-words')];
    blocks.forEach((one, index) => blocks.slice(index + 1).forEach(other => {
        const [a, b] = [box(one), box(other)];
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
            faults.push(`${one.outerHTML} over ${other.outerHTML}`);
    }));
    return faults;"""


async def test_the_headline_and_the_tiles_fit_in_every_end_state(browser: Chrome) -> None:
    crawl = Crawl()
    found, gaps = dict[str, list[str]](), dict[str, str]()
    # As it stands there once the server of a crawl that is over has gone.
    over = "document.getElementById('notice').textContent = 'The crawl is over. These are its final figures.'"

    def measure(state: str) -> None:
        for width, height in SCREENS:
            screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            if faults := browser.execute_script(GEOMETRY, state in ENDLESS):
                found[f"{state} at {width}"] = faults

    async with shown(crawl, interval=60.0) as (board, url):  # it is drawn when we say so
        await open_page(browser, f"{url}#token={TOKEN}")
        await until(browser, lambda: text(browser, "#job-name") == "docs")
        await asyncio.to_thread(browser.execute_script, over)
        for name, changes in END_STATES.items():
            urls = {**crawl.stats()["urls_by_outcome"], "fetched": 20_000}
            statuses = {**crawl.stats()["pages_by_status"], "2xx": 19_900}
            crawl.changes = {"pages_fetched": 20_000, "urls_by_outcome": urls, "pages_by_status": statuses} | changes
            said = working(crawl.stats())["text"]
            board.feed.tick()
            await until(browser, lambda said=said: text(browser, "#working-words") == said)
            await asyncio.to_thread(measure, name)
            ends = "killed" in await asyncio.to_thread(text, browser, "#flow-event")
            assert ends == (name == "killed"), "the charts say why they end"
            gaps[name] = await asyncio.to_thread(text, browser, "#gaps")
    await until(browser, lambda: text(browser, "#state") == "no answer")
    await asyncio.to_thread(measure, "no answer")
    assert found == {}
    assert "81 failed" in gaps["finished"]
    assert gaps["killed"].endswith("; 1,214,567 pending")
