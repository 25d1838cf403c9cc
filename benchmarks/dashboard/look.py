"""Watch a crawl of real pages in Chromium, and compare what the page shows with the other interfaces.

    python benchmarks/dashboard/look.py SEEDS [--job DIR] [--shots DIR] [--delay 0.3] [--capacity 100] [--for 60]

The crawl is slow (``--delay``) and its filter small (``--capacity``), so that slices grow while it is watched. It is
paused, given a checkpoint, resumed, stopped, and finally run to its end. Each line of the report is a comparison:
page against ``/api/stats`` and ``/metrics`` while paused, page against ``crawler stats`` when stopped, that
against ``pages.jsonl`` at the end. Then other observations: how far things moved (CLS), faults that axe-core
finds, complaints of the browser, and the screenshots. Needs Debian's chromium and chromium-driver. Exit code 1 where
something differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from pictures import HEIGHTS, size
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.asked import knows, opened
from tests.service.dashboard.browser import chromium, complaints, text

ROOT = Path(__file__).resolve().parents[2]
# On the page, in the statistics, among the metrics.
COUNTS = {
    "urls_by_outcome.fetched": 'crawler_urls_by_outcome{outcome="fetched"}',
    "urls_by_outcome.failed": 'crawler_urls_by_outcome{outcome="failed"}',
    "urls_pending": "crawler_urls_pending",
    "urls_in_flight": "crawler_urls_in_flight",
    "hosts": "crawler_hosts",
    "hosts_pending": "crawler_hosts_pending",
    "seen.count": "crawler_seen_urls",
}
MOVED = """window.moved = [];
    new PerformanceObserver(list => moved.push(...list.getEntries().filter(entry => !entry.hadRecentInput)
        .map(entry => entry.value))).observe({type: 'layout-shift', buffered: true});"""


class Report:
    def __init__(self) -> None:
        self.differs = False

    def same(self, what: str, *found: Any) -> None:
        agree = all(one == found[0] for one in found)
        self.differs |= not agree
        print(f"{'same   ' if agree else 'DIFFERS'}  {what}: {' / '.join(map(str, found if not agree else found[:1]))}")


def at(stats: Any, path: str) -> Any:
    for key in path.split("."):
        stats = None if stats is None else stats[key]
    return stats


def on_page(browser: Chrome) -> dict[str, int | None]:
    script = "return [...document.querySelectorAll('[data-show]')].map(node => [node.dataset.show, node.textContent])"
    shown = dict(browser.execute_script(script))
    return {key: int(shown[key].replace(",", "")) if shown[key][0].isdigit() else None for key in COUNTS}


def until(true: Callable[[], Any], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited in vain for: {what}")
        time.sleep(0.2)


@contextmanager
def crawling(words: Sequence[str]) -> Any:
    process = subprocess.Popen([sys.executable, "-m", "crawler", *words], cwd=ROOT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


class Page:
    """The dashboard of a crawl in a browser."""

    def __init__(self, browser: Chrome, job: Path) -> None:
        self.browser = browser
        until((job / "live.json").exists, "a crawl that says what it does")
        self.url = knows(json.loads((job / "live.json").read_text())["dashboard"], job)
        size(browser, 1_280, 800, "light")
        browser.get(f"{self.url}?token={(job / 'dashboard-token').read_text().strip()}")
        until(lambda: text(browser, "#state") == "running", "the page")
        browser.execute_script(MOVED)

    def ask(self, path: str) -> Any:
        with opened(self.url + path) as answer:
            return answer.read().decode() if path == "metrics" else json.load(answer)

    def click(self, selector: str) -> None:
        self.browser.find_element(By.CSS_SELECTOR, selector).click()

    def look_around(self, seed: str) -> None:
        """Explain, sort, search, open: as somebody does who wants to know."""
        browser = self.browser
        browser.find_element(By.ID, "explain-url").send_keys(seed, Keys.ENTER)
        until(lambda: "seen" in text(browser, "#explanation"), "the explanation")
        heads = [head for head in browser.find_elements(By.CSS_SELECTOR, "[data-sort]") if head.is_displayed()]
        for key in [head.get_attribute("data-sort") for head in heads]:
            self.click(f"[data-sort={key}]")
            order = browser.find_element(By.CSS_SELECTOR, f"th:has([data-sort={key}])").get_attribute("aria-sort")
            rows = self.ask(f"api/hosts?limit=50&sort={key}&order={'asc' if order == 'ascending' else 'desc'}")["hosts"]
            self._see_hosts(len(rows))
        until(lambda: browser.execute_script("return document.querySelector('#hosts button') !== null"), "a host")
        browser.execute_script("document.querySelector('#hosts button').click()")
        until(lambda: "robots.txt" in text(browser, "#hosts .detail .lists"), "the host opened")
        browser.execute_script("document.querySelector('#hosts button').click()")

    def _see_hosts(self, number: int) -> None:
        until(lambda: len(self.browser.find_elements(By.CSS_SELECTOR, "#hosts tr")) == number, "the hosts")

    def pictures(self, directory: Path | None, name: str) -> None:
        rules = resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
        for width in HEIGHTS:
            for theme in ("light", "dark"):
                size(self.browser, width, HEIGHTS.get(width, 900), theme)
                time.sleep(1)
                self.browser.execute_script(rules)
                run = "axe.run({preload: false}).then(arguments[arguments.length - 1])"
                for fault in self.browser.execute_async_script(run)["violations"]:
                    node = fault["nodes"][0]["html"][:120]
                    print(f"axe      {width} {theme}: {fault['id']} ({fault['impact']}): {node}")
                if directory is not None:
                    self.browser.save_screenshot(str(directory / f"{name}-{width}-{theme}.png"))
        size(self.browser, 1_280, 800, "light")


def watch(page: Page, report: Report, seed: str, seconds: float, shots: Path | None) -> None:
    browser = page.browser
    until(lambda: page.ask("api/stats")["pages_per_second"] is not None, "its pace")
    began = page.ask("api/stats")["seen"]
    page.look_around(seed)
    time.sleep(seconds)
    print(f"moved    {sum(browser.execute_script('return moved')):.4f} (CLS; a tenth is called good)")
    stats = page.ask("api/stats")
    grown = (len(began["slices"]), began["compactions"]), (len(stats["seen"]["slices"]), stats["seen"]["compactions"])
    print(f"slices, compactions: {grown[0]} -> {grown[1]}; {text(browser, '#forecast')}")
    page.pictures(shots, "running")
    page.click("#pause")
    until(lambda: page.ask("api/stats")["urls_in_flight"] == 0, "nothing in flight")
    page.click("[data-do=checkpoint]")
    until(lambda: text(browser, "#notice") == "Checkpoint written.", "a checkpoint")
    stats = page.ask("api/stats")
    until(lambda: on_page(browser)["urls_by_outcome.fetched"] == stats["pages_fetched"], "the last page", 10)
    shown, metrics = (
        on_page(browser),
        dict(line.rsplit(" ", 1) for line in page.ask("metrics").splitlines() if line[0] != "#"),
    )
    for key, metric in COUNTS.items():
        report.same(f"paused, {key}", shown[key], at(stats, key), int(float(metrics[metric])))
    page.pictures(shots, "paused")
    page.click("#pause")
    until(lambda: page.ask("api/stats")["pages_fetched"] > stats["pages_fetched"], "pages again")
    page.click("#stop")
    page.click("#stop-dialog [value=stop]")
    until(lambda: text(browser, "#state") == "stopped", "the end")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=Path)
    parser.add_argument("--job", type=Path)
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--delay", default="0.3")
    parser.add_argument("--capacity", default="100")
    parser.add_argument("--for", type=float, default=60.0, dest="seconds")
    arguments = parser.parse_args(words)
    report = Report()
    if arguments.shots is not None:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    seed = next(line for line in arguments.seeds.read_text().splitlines() if line.strip() and line[0] != "#")
    with tempfile.TemporaryDirectory() as home:
        job = arguments.job or Path(home) / "job"
        command = [str(arguments.seeds.resolve()), "--job", str(job), "--quiet", "--allow-private"]
        command += ["--capacity", arguments.capacity]
        with chromium(Path(home) / "profile") as browser:
            with crawling([*command, "--delay", arguments.delay, "--dashboard", "0"]) as process:
                watch(Page(browser, job), report, seed, arguments.seconds, arguments.shots)
                process.wait()
            shown, stats = on_page(browser), told(job)
            for key in COUNTS:
                report.same(f"stopped, {key}", shown[key], at(stats, key))
            for line in complaints(browser):
                if "ERR_CONNECTION_REFUSED" not in line:  # nobody listens there any more
                    report.same("a complaint of the browser", line, None)
        with crawling([*command, "--delay", "0", "--per-host", "8"]) as process:
            process.wait()
        stats, records = told(job), [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]
        report.same("state at the end", stats["state"], "ended")
        done = ("pages_fetched", "pages_failed", "pages_redirected", "urls_excluded")
        report.same("records", len(records), len({row["url"] for row in records}), sum(stats[key] for key in done))
        report.same("admitted", stats["urls_admitted"], len(records))
    return int(report.differs)


def told(job: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "crawler", "stats", str(job), "--json"]
    return dict(json.loads(subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout))


if __name__ == "__main__":
    sys.exit(main())
