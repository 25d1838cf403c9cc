"""The panels of the page in a real browser: what comes in, what went wrong, the map, what needs somebody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from crawler.job.metrics.crawl_history import CrawlHistory
from tests.job.metrics.samples import statistics
from tests.service.dashboard.browser import (
    TOKEN,
    Crawl,
    complaints,
    host,
    open_page,
    record,
    shown,
    survey,
    tab,
    text,
    until,
)

URLS = "return [...document.querySelectorAll(arguments[0])].map(node => node.title)"


def titles(browser: Chrome, selector: str) -> list[str]:
    return list(browser.execute_script(URLS, f"{selector} .cut"))


def press(browser: Chrome, *keys: str) -> None:
    browser.switch_to.active_element.send_keys(*keys)


def script(browser: Chrome, words: str) -> Callable[[], Any]:
    return lambda: browser.execute_script(words)


async def test_pages_appear_as_they_come_in_and_stand_still_under_the_pointer(browser: Chrome) -> None:
    crawl = Crawl()
    async with shown(crawl, interval=0.1) as (board, url):
        await open_page(browser, url)
        first = [one["url"] for one in crawl.survey["recent"]]
        await until(browser, lambda: titles(browser, "#ticker") == first)
        crawl.survey = survey(recent=[record(13, status=404), *crawl.survey["recent"]], records=131)
        await until(browser, lambda: text(browser, "#ticker .badge") == "404")
        await asyncio.to_thread(browser.execute_script, "document.querySelector('#ticker').focus()")
        crawl.survey = survey(recent=[record(14), *crawl.survey["recent"]], records=132)
        await until(browser, lambda: "paused, 1 more" in text(browser, "#ticker-words"))
        assert await asyncio.to_thread(text, browser, "#ticker .badge") == "404"
        await asyncio.to_thread(browser.execute_script, "document.activeElement.blur()")
        await until(browser, lambda: text(browser, "#ticker .badge") == "200")
        assert board.feed.listeners


async def test_the_survey_is_asked_for_again_only_when_records_came(browser: Chrome) -> None:
    crawl = Crawl()
    crawl.news = {"records": [], "records_new": 0}
    later = "const now = Date.now.bind(Date), by = arguments[0]; Date.now = () => now() + by"
    async with shown(crawl, interval=0.1) as (_, url):
        await open_page(browser, url)
        await until(browser, lambda: text(browser, "#failures .badge") == "failed")
        asked = []
        for _ in range(4):
            looked = crawl.requests["/api/hosts"]
            await asyncio.to_thread(browser.execute_script, later, 20_000)
            await until(browser, lambda looked=looked: crawl.requests["/api/hosts"] > looked)
            asked.append(crawl.requests["/api/survey"])
        # Once more than needed after the first answer, which may have been made before the last record.
        assert asked[1:] == [asked[-1]] * 3
        crawl.news = {"records": [], "records_new": 1}
        await until(browser, lambda: crawl.requests["/api/survey"] > asked[-1])


async def test_counts_of_failures_are_of_all_also_of_those_that_are_not_listed(browser: Chrome) -> None:
    crawl = Crawl(urls_by_outcome={"failed": 7}, pages_by_status={"2xx": 900, "4xx": 1_234, "5xx": 2})
    listed = [record(2_000 - number, status=404, url=f"http://h.test/{number}") for number in range(100)]
    crawl.survey = survey(failures=listed, statuses={"200": 900, "404": 1_230, "429": 3})
    crawl.news = {"records": [], "records_new": 0, "answered_429": 4}
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}#/failures")
        later = "; 7 more URLs failed and will be tried again: counted here if the last try fails"
        await until(browser, lambda: text(browser, "#failures-count") == f"100 of 1,243 URLs shown{later}")
        crawl.changes |= {"urls_retrying": 0}
        await until(browser, lambda: "4pages whose host asked for fewer requests" in text(browser, "#lost"))
        missed = await asyncio.to_thread(script(browser, "return document.querySelector('#gaps').textContent"))
        assert "1,234 answered 4xx (4 of them 429)" in missed, "also while the survey lacks the latest ones"
        kinds = (
            "return [...document.querySelectorAll('[data-failures]')].map(node => node.lastElementChild.textContent)"
        )
        assert await asyncio.to_thread(script(browser, kinds)) == ["1,243", "1,230", "7", "4", "2", "0"]
        for kind, count, rows in (
            ("4xx", "100 of 1,230 URLs shown", 100),
            ("429", "0 of 4 URLs shown", 0),
            ("failed", "0 of 7 URLs shown", 0),
            ("soft 404", "", 0),
        ):
            await asyncio.to_thread(browser.find_element(By.CSS_SELECTOR, f"[data-failures='{kind}']").click)
            await until(browser, lambda count=count: text(browser, "#failures-count") == count)
            found = "return document.querySelectorAll('#failures li').length"
            assert await asyncio.to_thread(script(browser, found)) == rows


async def test_a_failure_says_who_links_to_it_and_what_to_do(browser: Chrome) -> None:
    crawl = Crawl()
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}#/failures")
        await until(browser, lambda: len(titles(browser, "#failures")) == 7)
        badges = "return [...document.querySelectorAll('#failures .badge')].map(node => node.textContent)"
        assert await asyncio.to_thread(script(browser, badges)) == ["failed", "404", "503", "soft 404"]
        await asyncio.to_thread(browser.find_element(By.CSS_SELECTOR, "[data-failures='4xx']").click)
        await until(browser, lambda: titles(browser, "#failures") == ["http://h.test/gone", "http://h.test/"])
        await asyncio.to_thread(browser.find_element(By.CSS_SELECTOR, "#failures button").send_keys, Keys.ENTER)
        told = await asyncio.to_thread(text, browser, "#failures .facts")
        assert "linked fromhttp://h.test/" in told
        assert "correct the link on the page that contains it" in told
        linked = "return [...document.querySelectorAll('#failures a')].map(node => [node.href, node.rel])"
        assert ["http://h.test/gone", "noopener noreferrer"] in await asyncio.to_thread(script(browser, linked))
        await asyncio.to_thread(browser.find_element(By.CSS_SELECTOR, "#failures summary").click)
        await until(browser, lambda: "seen: no" in text(browser, "#failures .steps"))
        assert await asyncio.to_thread(complaints, browser) == []


async def test_the_map_is_walked_by_keyboard(browser: Chrome) -> None:
    areas = "return [...document.querySelectorAll('#map > button')].map(node => node.ariaLabel)"
    crawl = Crawl()
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}#/map")
        sites = ["h.test: 100 URLs, 10.7 KiB, 3 broken. Press Enter to open it", "h001.test: 30 URLs, 51.8 KiB"]
        await until(browser, lambda: browser.execute_script(areas) == sites)
        sizes = """return [...document.querySelectorAll('#map > button')]
            .map(node => (node.offsetWidth + 2) * (node.offsetHeight + 2))"""
        large, small = await asyncio.to_thread(script(browser, sizes))
        steps = "return [...document.querySelectorAll('#map > button')].map(node => Number(node.dataset.step))"
        coloured = []
        for colour in ("depth", "broken"):
            choose = f"document.querySelector('button[data-colour={colour}]').click()"
            await asyncio.to_thread(browser.execute_script, choose)
            coloured.append(await asyncio.to_thread(script(browser, steps)))
        assert coloured == [[0, 1], [2, 0]], "60 of 100, 60 of 30 links from a seed; 3%, none broken"
        assert abs(large / small - 100 / 30) < 0.05
        await asyncio.to_thread(script(browser, "document.querySelector('#map > button').focus()"))
        await asyncio.to_thread(press, browser, Keys.ARROW_RIGHT)
        focused = "return document.activeElement.ariaLabel"
        assert await asyncio.to_thread(script(browser, focused)) == sites[1]
        await asyncio.to_thread(press, browser, Keys.ARROW_LEFT)
        await asyncio.to_thread(press, browser, Keys.ENTER)
        inside = ["/docs/: 60 URLs, 8.8 KiB, 3 broken. Press Enter to open it", "/: 30 URLs, 1,000 B"]
        inside.append("everything else: 10 URLs, 1,000 B")
        await until(browser, lambda: browser.execute_script(areas) == inside)
        assert await asyncio.to_thread(text, browser, "#map-way [aria-current]") == "h.test"
        await asyncio.to_thread(press, browser, Keys.ESCAPE)
        await until(browser, lambda: browser.execute_script(areas) == sites)
        assert await asyncio.to_thread(script(browser, focused)) == sites[0]


async def test_what_costs_most_is_named_first_and_all_of_it_is_seen(browser: Chrome) -> None:
    crawl = Crawl(state="paused", paused="paused by user", paused_by="user", seen=None, proxies=None, text_failed=0)
    over = {"state": "idle", "pending": 0, "fetched": 0, "failed": 1, "errors": {"refused": 4}, "share": 1.0}
    held = {"state": "held", "rule": "errors", "failed": 0, "errors": {"server_error": 4}, "in_flight": 0}
    crawl.hosts = [host(number) | over | {"failed": 5} for number in range(14)]
    crawl.hosts += [host(number) | over | {"no_page": "refused"} for number in range(30, 50)]
    crawl.changes |= {"hosts": 60, "hosts_without_page": {"refused": 20}}
    crawl.hosts += [host(14) | held | {"pending": 3}, host(15) | held | {"pending": 58}]
    tried = held | {
        "state": "waiting",
        "rule": "gap",
        "pending": 2,
        "share": 0.5,
    }  # its URLs answer with 500, and wait for their next try
    crawl.hosts += [host(16) | tried | {"fetched": 80}, host(17) | tried | {"fetched": 8_000}]
    heads = "return [...document.querySelectorAll('#attention > li > .link')].map(node => node.textContent)"
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}?token={TOKEN}")
        await until(browser, lambda: "on hold" in text(browser, "#attention"))
        found = await asyncio.to_thread(script(browser, heads))
        assert found[0] == "The crawl is paused"
        assert found.index("h015.test and h014.test are on hold") < found.index(
            "h000.test, h001.test and 10 more failed on some tries"
        )
        assert [each for each in found if each.startswith("h016")] == ["h016.test failed on some tries"]
        said = await asyncio.to_thread(text, browser, "#attention")
        assert "61 pending URLs" in said
        assert said.count("20 of 60 hosts") == 1
        assert "h030.test, h031.test and 18 more gave no page" in found
        assert await asyncio.to_thread(text, browser, "#attention-count") == str(len(found))
        press = """[...document.querySelectorAll('#attention > li')].find(node => node.innerText.startsWith('h015'))
            .querySelectorAll('.acts button')[1].click()"""
        await asyncio.to_thread(browser.execute_script, press)
        await until(browser, lambda: len(crawl.asked) == 2)
    assert [(asked["do"], asked["host"]) for asked in crawl.asked] == [
        ("pause-host", "h015.test"),
        ("pause-host", "h014.test"),
    ]


async def test_a_host_on_hold_when_the_crawl_stopped_still_needs_attention_but_not_at_its_end(browser: Chrome) -> None:
    crawl = Crawl()
    held = {"state": "held", "rule": "robots_retry", "failed": 0, "errors": {"refused": 2}, "pending": 2}
    crawl.hosts = [host(14) | held]
    async with shown(crawl, interval=0.1) as (_, url):
        await open_page(browser, url)
        await until(browser, lambda: "h014.test is on hold" in text(browser, "#attention"))
        crawl.read.clear()  # a crawl that has ended answers no more requests
        crawl.changes = {"state": "stopped"}
        await until(browser, lambda: "h014.test was on hold" in text(browser, "#attention"))
        assert "connection refused; 2 pending URLs" in await asyncio.to_thread(text, browser, "#attention")
        crawl.read.set()
        crawl.hosts = [host(14) | held | {"state": "ready"}]  # as the job's directory has it
        await open_page(browser, url)
        await until(browser, lambda: "h014.test was on hold" in text(browser, "#attention"))
        crawl.hosts = [host(14) | held | {"state": "idle", "pending": 0}]
        crawl.changes = {"state": "running"}
        await until(browser, lambda: text(browser, "#state") == "running")
        crawl.changes = {"state": "ended", "urls_pending": 0}
        await until(browser, lambda: text(browser, "#state") == "ended")
        assert "pending URL" not in await asyncio.to_thread(text, browser, "#attention")


async def test_nothing_can_be_unlocked_or_downloaded_once_nobody_answers(browser: Chrome) -> None:
    reach = "return [document.querySelector('#unlock').disabled, document.querySelector('.downloads').inert]"
    async with shown(Crawl()) as (_, url):
        await open_page(browser, url)
        assert await asyncio.to_thread(script(browser, reach)) == [False, False]
    await until(browser, lambda: browser.execute_script(reach) == [True, True])
    assert "no answer" in await asyncio.to_thread(text, browser, "#no-controls")


async def test_nothing_needs_somebody_while_all_is_well(browser: Chrome) -> None:
    calm = {"internal_failures": 0, "pages_code_failed": 0, "proxies": None, "text_failed": 0, "seen_warning": None}
    calm |= {"calls_code_failed": {}, "hosts_by_state": {}, "hosts_without_page": {}}
    crawl = Crawl(**calm)
    crawl.hosts = []
    async with shown(crawl) as (_, url):
        await open_page(browser, url)
        visible = "return document.querySelector('#attention-none').offsetHeight > 0"
        await until(browser, script(browser, visible))
        assert await asyncio.to_thread(titles, browser, "#attention") == []


async def test_a_host_that_answers_429_gets_the_advice_to_wait_and_not_that_its_owner_must_mend_it(
    browser: Chrome,
) -> None:
    crawl = Crawl()
    done = {"state": "idle", "pending": 0, "failed": 0, "fetched": 90}
    crawl.hosts = [
        host(1) | done | {"host": "busy.test", "errors": {"throttled": 8, "server_error": 1}},
        host(2) | done | {"host": "bad.test", "errors": {"server_error": 9}},
    ]
    crawl.survey = survey(hosts=[survey()["hosts"][0] | {"host": f"{name}.test", "ok": 80, "server_errors": 9}
                                 for name in ("busy", "bad")])  # fmt: skip
    items = """return Object.fromEntries([...document.querySelectorAll('#attention > li')].map(node =>
        [node.querySelector('.link').textContent, node.querySelector('.act').textContent]))"""
    async with shown(crawl) as (_, url):
        await open_page(browser, url)
        await until(browser, lambda: "busy.test answers with errors" in browser.execute_script(items))
        acts = await asyncio.to_thread(script(browser, items))
        assert "politeness.delay" in acts["busy.test answers with errors"]
        assert "owner" in acts["bad.test answers with errors"]


async def test_a_host_whose_robots_txt_cannot_be_fetched_gets_the_command_that_visits_it_again(browser: Chrome) -> None:
    crawl = Crawl()
    done = {"state": "idle", "pending": 0, "failed": 0, "fetched": 0, "errors": {"throttled": 3}}
    crawl.hosts = [host(1) | done | {"no_page": "robots_unreachable"}]
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}#/hosts")
        await until(browser, lambda: len(titles(browser, "#hosts")) == 1)
        await asyncio.to_thread(browser.execute_script, "document.querySelector('#hosts tr button').click()")
        await until(browser, lambda: "crawler retry --excluded robots" in text(browser, "#hosts .act"))
        assert "429" not in await asyncio.to_thread(text, browser, "#hosts .act")


async def test_visits_of_partitions_are_in_the_order_of_their_times(browser: Chrome) -> None:
    crawl = Crawl()
    times = {1: 10.0, 2: 30.0, 3: 20.0, 4: 40.0}
    crawl.survey = survey(recent=[record(number, at=at) for number, at in times.items()])
    async with shown(crawl) as (_, url):
        await open_page(browser, url)
        await until(browser, lambda: titles(browser, "#ticker") == [record(number)["url"] for number in (4, 2, 3, 1)])


async def test_a_page_of_reports_from_elsewhere_shows_no_buttons_and_says_why_it_has_no_records(
    browser: Chrome,
) -> None:
    crawl = Crawl(partitions=[{"partition": 0, "state": "running", "machine": "m0", "directory": "/d", "process": 7}])
    crawl.fault = "An engine has only statistics"
    buttons = "return ['#pause', '#stop', '[data-do=checkpoint]'].map(each => document.querySelector(each).hidden)"
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}?token={TOKEN}")
        for words in ("#ticker + .empty", "#visits + .empty", "#map-title + [data-behind]"):
            content = f"return document.querySelector('{words}').textContent"
            await until(browser, lambda content=content: browser.execute_script(content) == crawl.fault)
        assert await asyncio.to_thread(script(browser, buttons)) == [True, True, True]


async def test_errors_by_host_count_every_try_and_hosts_without_a_good_answer_come_first(browser: Chrome) -> None:
    crawl = Crawl()
    crawl.hosts = [
        host(1) | {"host": "silent.test", "errors": {"refused": 4, "timeout": 1}},
        host(2) | {"host": "busy.test", "errors": {"throttled": 6}},
        host(3) | {"host": "h.test", "errors": {"server_error": 9}},
        host(4) | {"host": "h004.test", "errors": {}},
    ]
    rows = "return [...document.querySelectorAll('#answers tr')].map(row => [...row.cells].map(cell => cell.innerText))"
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}#/hosts")
        await until(browser, lambda: len(browser.execute_script(rows)) == 3)
        found = await asyncio.to_thread(script(browser, rows))
    none = "\N{EN DASH}"
    assert [(row[0], row[2], row[6], row[7]) for row in found] == [
        ("busy.test", none, "6", none),
        ("silent.test", none, none, "5"),
        ("h.test", "125", "9", "1"),
    ]


async def test_a_crawl_that_stopped_missed_what_is_pending_and_what_it_made_up_is_not_counted(browser: Chrome) -> None:
    some = {"urls_admitted": 110, "soft404_probes": 10, "urls_pending": 30, "urls_in_flight": 0, "hosts": 1}
    seen = statistics()["seen"] | {"fpp_estimated": 1e-20}
    crawl, history = Crawl(**some, state="stopped", seen=seen), CrawlHistory()
    for now in (1.0, 2.0):
        history.figures.observe(now, crawl.stats())
    async with shown(crawl, history=history) as (_, url):
        await open_page(browser, f"{url}#/failures")
        await until(browser, lambda: "30URLs not finished yet" in text(browser, "#lost"))
        assert await asyncio.to_thread(text, browser, "#progress-words") == "done: 70 of 100 known URLs"
        assert await asyncio.to_thread(text, browser, "#hosts-noun") == "host"
        tab(browser, "seen-set")
        await until(browser, lambda: "practically 0" in text(browser, "#chart-fpp .u-legend"))


async def test_hosts_are_found_by_the_names_that_people_read(browser: Chrome) -> None:
    crawl = Crawl()
    crawl.hosts = [host(1), host(2) | {"host": "xn--bcher-kva.test"}]
    async with shown(crawl) as (_, url):
        await open_page(browser, f"{url}#/hosts/b\u00fccher")
        await until(browser, lambda: titles(browser, "#hosts") == ["xn--bcher-kva.test"])
