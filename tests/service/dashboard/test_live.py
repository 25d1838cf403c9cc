"""The page during a real crawl: what it shows is what the crawl says, it asks what it can be asked, and it finds the
crawl again after a restart."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.asked import free_port, knows, opened
from tests.program import running, wait_until
from tests.service.dashboard.browser import complaints, tab, text
from tests.site import Site, linked, tree

# On each page a link whose text and address carry markup, and a title that does.
HOSTILE = "/page/<img src=x onerror=alert(1)>"


def site_pages(pages: int) -> dict[str, str]:
    made = dict(tree(pages))
    made["/"] = made["/"] + f"<title><script>alert(1)</script></title><a href='{HOSTILE}'>x</a>"
    made["/page/%3Cimg%20src=x%20onerror=alert(1)%3E"] = linked(["/"])
    return made


@contextmanager
def crawl(directory: Path, site: Site, port: int) -> Iterator[Any]:
    seeds = directory / "seeds.txt"
    seeds.write_text(
        "".join(f"{site.url('/', host)}\n" for host in range(site.ports)) + f"http://127.0.0.1:{free_port()}/dead\n"
    )
    options = ("--allow-private", "--delay", "0.1", "--quiet", "--dashboard", str(port), "--capacity", "64")
    with running(seeds, "--job", directory / "job", *options) as process:
        wait_until((directory / "job" / "live.json").exists, "a crawl that says what it does")
        knows(f"http://127.0.0.1:{port}/", directory / "job")
        yield process


def asked(url: str, path: str) -> Any:
    with opened(url + path) as answer:
        return json.load(answer)


def numbers(browser: Chrome) -> dict[str, str]:
    script = "return [...document.querySelectorAll('[data-show]')].map(node => [node.dataset.show, node.textContent])"
    return dict(browser.execute_script(script))


def figure(text: str) -> int:
    return int(text.replace(",", ""))


def see(true: Callable[[], bool], what: str) -> None:
    wait_until(true, what)


def agree_on_numbers(browser: Chrome, stats: dict[str, Any]) -> None:
    """Every panel with numbers in it."""
    shown = numbers(browser)
    assert text(browser, "#hosts-at-work") == "0", "it is paused"
    for key in ("urls_pending", "hosts"):
        assert figure(shown[key]) == stats[key], key
    by_outcome = stats["urls_by_outcome"]
    assert figure(shown["urls_by_outcome.failed"]) == by_outcome["failed"]
    assert figure(shown["pages_by_status.2xx"]) == stats["pages_by_status"]["2xx"]
    tab(browser, "seen-set")
    see(lambda: bool(browser.find_elements(By.CSS_SELECTOR, "#slices tr")), "the slices")
    kept = f"URLs{stats['seen']['count']:,}Kind {stats['seen']['kind']}"
    see(lambda: kept in text(browser, "#explained"), "the seen-set")
    slices = [node.text for node in browser.find_elements(By.CSS_SELECTOR, "#slices tr td:nth-child(2)")]
    assert slices == [f"{part['count']:,} of {part['capacity']:,}" for part in stats["seen"]["slices"]]
    links = bars(browser, "links")
    assert sum(links.values()) == 2 * links["all"], "the parts are all of it"
    assert links["seen before"] == stats["urls_duplicate"]
    assert links["new: admitted"] == stats["urls_admitted"] - stats["seeds"]
    outcomes = {"fetched": "fetched", "redirected": "redirect", "failed": "failed"}
    told = {name: by_outcome[key] for name, key in outcomes.items() if by_outcome[key]}
    assert bars(browser, "outcomes") == told


def bars(browser: Chrome, name: str) -> dict[str, int]:
    rows = [
        row.find_elements(By.CSS_SELECTOR, "*")[:2] for row in browser.find_elements(By.CSS_SELECTOR, f"#{name} li")
    ]
    return {row[0].get_attribute("textContent"): figure(row[1].get_attribute("textContent")) for row in rows}


def agree_on_records(browser: Chrome, records: list[dict[str, Any]]) -> None:
    """What the page tells of the records is what pages.jsonl says."""
    last = records[-1]["url"]
    see(lambda: (shown := titles(browser, "#ticker")) != [] and shown[0] == last, "the last record")
    newest = [record["url"] for record in reversed(records[-60:])]
    see(lambda: titles(browser, "#visits") == newest, "those before it")
    statuses = Counter(record["status"] for record in records if record["status"])
    see(lambda: sum(bars(browser, "statuses").values()) == sum(statuses.values()), "all answers")
    assert {int(name.split()[0]): number for name, number in bars(browser, "statuses").items()} == statuses
    bad = [record for record in records if record["outcome"] == "failed" or (record["status"] or 0) >= 400]
    assert titles(browser, "#failures button > .cut") == [record["url"] for record in reversed(bad)]
    sites = Counter(urlsplit(record["url"]).netloc for record in records if record["outcome"] != "excluded")
    tab(browser, "map")
    areas = "return [...document.querySelectorAll('#map > button')].map(node => node.ariaLabel.split(' URL')[0])"
    told_sites = sorted(f"{name}: {number:,}" for name, number in sites.items())
    see(lambda: sorted(browser.execute_script(areas)) == told_sites, "the map")


def titles(browser: Chrome, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(`${arguments[0]}`)].map(node => node.title)"
    return list(browser.execute_script(script, selector if selector.endswith(".cut") else f"{selector} .cut"))


def agree_on_hosts(browser: Chrome, rows: list[dict[str, Any]]) -> None:
    """Those of the crawl, in the order that was asked for."""
    tab(browser, "hosts")
    browser.find_element(By.CSS_SELECTOR, "[data-sort=host]").click()
    names = "return [...document.querySelectorAll('#hosts th')].map(cell => cell.textContent)"
    see(lambda: browser.execute_script(names) == [row["host"] for row in rows], "the hosts in order")
    assert len(rows) == 4


def test_a_crawl_is_watched_asked_stopped_and_found_again(browser: Chrome, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    with Site(site_pages(3_000), ports=3) as site:
        with crawl(tmp_path, site, port) as process:
            browser.get_log("browser")
            token = (tmp_path / "job" / "dashboard-token").read_text().strip()
            browser.get(f"{url}?token={token}")
            see(lambda: text(browser, "#state") == "running", "the page")
            see(lambda: text(browser, "#working-words").startswith("Working. "), "that it works")

            # Held still, the page and the statistics are of the same moment.
            see(browser.find_element(By.ID, "pause").is_enabled, "controls")
            browser.find_element(By.ID, "pause").click()
            see(lambda: text(browser, "#pause") == "Resume", "the pause")
            see(lambda: asked(url, "api/stats")["urls_in_flight"] == 0, "nothing in flight")
            stats = asked(url, "api/stats")
            see(lambda: numbers(browser)["urls_in_flight"] == "0", "the same on the page")
            good = stats["pages_by_status"]["2xx"]
            see(lambda: figure(numbers(browser)["pages_by_status.2xx"]) == good, "the last page")
            agree_on_numbers(browser, stats)
            agree_on_hosts(browser, asked(url, "api/hosts?sort=host&order=asc")["hosts"])
            agree_on_records(
                browser, [json.loads(line) for line in (tmp_path / "job" / "pages.jsonl").read_bytes().splitlines()]
            )

            # A URL with markup in it is explained, as text.
            field = browser.find_element(By.ID, "search")
            field.send_keys(site.url(HOSTILE), Keys.ENTER)
            see(lambda: "%3Cimg%20src=x%20onerror=alert(1)%3E" in text(browser, "#explanation"), "the answer")
            assert "seen" in text(browser, "#explanation")
            assert browser.find_elements(By.TAG_NAME, "img") == []

            browser.find_element(By.CSS_SELECTOR, "[data-do=checkpoint]").click()
            see(lambda: text(browser, "#notice") == "Checkpoint written.", "a checkpoint")
            see(lambda: numbers(browser)["checkpoint.generation"] not in ("\N{EN DASH}", ""), "its number")
            see(lambda: "checkpoint" in text(browser, "#events") and "started" in text(browser, "#events"), "events")
            browser.find_element(By.ID, "pause").click()
            see(lambda: asked(url, "api/stats")["pages_fetched"] > stats["pages_fetched"], "pages again")
            assert complaints(browser) == []
            process.send_signal(signal.SIGKILL)
            process.wait()
        see(lambda: text(browser, "#state") == "no answer", "that nobody answers")
        stale = "return [document.querySelector('#stale-words').hidden, document.body.classList.contains('stale')]"
        assert browser.execute_script(stale) == [False, True]
        (tmp_path / "job" / "live.json").unlink()
        with crawl(tmp_path, site, port) as process:
            see(lambda: text(browser, "#state") == "running", "the crawl found again")
            assert browser.execute_script(stale) == [True, False]
            see(lambda: "resumed" in text(browser, "#events"), "its events")
            see(lambda: figure(numbers(browser)["pages_by_status.2xx"]) > good, "its numbers")
            # The token is still good: the page was not reloaded.
            browser.find_element(By.ID, "stop").click()
            browser.find_element(By.CSS_SELECTOR, "#stop-dialog [value=stop]").click()
            assert process.wait() == 130
        see(lambda: text(browser, "#working-words").startswith("Stopped with "), "its end")
        # What the browser says of an address where nobody answers any more is not the page's. How it words that depends
        # on the moment at which the connection ends.
        gone = ("503", "net::ERR_")
        assert [line for line in complaints(browser) if not any(word in line for word in gone)] == []


def test_the_page_of_a_job_that_is_deleted_says_so(tmp_path: Path, browser: Chrome) -> None:
    """It keeps the last numbers, grey, and does not tell anybody to resume what is not there."""
    with Site(site_pages(200)) as site, crawl(tmp_path, site, port := free_port()) as process:
        token = (tmp_path / "job" / "dashboard-token").read_text().strip()
        browser.get(f"http://127.0.0.1:{port}/?token={token}")
        see(lambda: text(browser, "#state") == "running", "the page")
        # What the crawl writes at that moment may come in between.
        shutil.rmtree(tmp_path / "job", ignore_errors=True)
        see(lambda: text(browser, "#state") == "gone", "that the job is gone")
        assert process.wait() == 1
        said = [text(browser, f"#{name}") for name in ("working-words", "gaps")]
        assert "resume" not in " ".join(said)
        assert "gone" in said[0]
        assert browser.execute_script("return document.body.classList.contains('stale')")
