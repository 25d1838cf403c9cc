"""Take the pictures of the dashboard that stand in the documentation, or many of them to look for what is ugly.

    python benchmarks/dashboard/pictures.py SEEDS [--to DIR] [--at 10,60] [--widths 390,1366,3840] [--delay 0.5]
    python benchmarks/dashboard/pictures.py SEEDS --docs

It crawls the web of SEEDS, a file, and beside it hosts that are slow, dead, throttling or broken (``scene.py``). At
each of the given seconds, and after the end, it takes a picture of the whole page at each width, light and dark, and
prints what axe-core finds, how far things moved (CLS), and whether the page is wider than the screen. ``--docs`` takes
the three pictures of docs/ instead. Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from scene import scene
from selenium.webdriver import Chrome

from tests.service.dashboard.browser import chromium, complaints, faults, text

ROOT = Path(__file__).resolve().parents[2]
HEIGHTS = {390: 844, 1_366: 768, 3_840: 2_160}
LONGEST = 7_000  # pixels of a picture
MOVED = """window.moved = [];
    new PerformanceObserver(list => moved.push(...list.getEntries().filter(entry => !entry.hadRecentInput)
        .map(entry => entry.value))).observe({type: 'layout-shift', buffered: true});"""
# name, width, height, theme, seconds after the crawl began
DOCS = (
    ("dashboard", 1_366, 1_700, "light", 75.0),
    ("dashboard-phone", 390, 1_560, "light", 80.0),
    ("dashboard-dark", 1_366, 1_700, "dark", 85.0),
)


def size(browser: Chrome, width: int, height: int, theme: str) -> None:
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)


def look(browser: Chrome, url: str, width: int, theme: str, to: Path) -> None:
    height = HEIGHTS.get(width, 900)
    size(browser, width, height, theme)
    browser.get("about:blank")
    browser.get(url)
    browser.execute_script(MOVED)
    time.sleep(6)
    moved = sum(browser.execute_script("return moved"))
    wide, high = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    found = [*faults(browser, {"preload": False}), *complaints(browser)]
    print(f"{to.stem:<28} moved {moved:.3f}{'' if wide <= width else f', {wide} px WIDE'}", *found, sep="\n    ")
    browser.save_screenshot(str(to))
    size(browser, width, min(high, LONGEST), theme)
    time.sleep(2)
    browser.save_screenshot(str(to.with_stem(f"{to.stem}-whole")))


@contextmanager
def crawling(seeds: Path, job: Path, delay: str) -> Iterator[str]:
    """The address of the dashboard of a crawl, with its token. It stays when the crawl has ended."""
    words = [sys.executable, "-m", "crawler", str(seeds), "--job", str(job), "--quiet", "--dashboard", "0"]
    words += ["--allow-private", "--delay", delay, "--contact", "you@example.org", "--keep-open"]
    process = subprocess.Popen(words, cwd=ROOT)
    try:
        while not (job / "live.json").exists():
            assert process.poll() is None, "the crawl ended before it began"
            time.sleep(0.1)
        url = json.loads((job / "live.json").read_text())["dashboard"]
        yield f"{url}?token={(job / 'dashboard-token').read_text().strip()}"
    finally:
        process.terminate()
        process.wait()


def for_docs(browser: Chrome, url: str) -> None:
    began = time.monotonic()
    for name, width, height, theme, at in DOCS:
        size(browser, width, height, theme)
        browser.get("about:blank")
        browser.get(url)
        time.sleep(max(6.0, began + at - time.monotonic()))
        browser.save_screenshot(str(ROOT / "docs" / f"{name}.png"))


def at_times(browser: Chrome, url: str, arguments: argparse.Namespace) -> None:
    began = time.monotonic()
    arguments.to.mkdir(parents=True, exist_ok=True)
    for moment in [*(float(each) for each in arguments.at.split(",")), None]:
        if moment is None:
            while text(browser, "#state") not in ("ended", "stopped"):
                time.sleep(1)
        else:
            time.sleep(max(0.0, began + moment - time.monotonic()))
        name = "end" if moment is None else f"{moment:.0f}s"
        for width in (int(each) for each in arguments.widths.split(",")):
            for theme in ("light", "dark"):
                look(browser, url, width, theme, arguments.to / f"{name}-{width}-{theme}.png")


async def run(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as home:
        async with scene() as beside:
            seeds = Path(home) / "seeds.txt"
            seeds.write_text(arguments.seeds.read_text() + "".join(f"{url}\n" for url in beside))
            await asyncio.to_thread(take, seeds, Path(home), arguments)


def take(seeds: Path, home: Path, arguments: argparse.Namespace) -> None:
    with chromium(home / "profile") as browser, crawling(seeds, home / "docs-and-friends", arguments.delay) as url:
        if arguments.docs:
            for_docs(browser, url)
        else:
            at_times(browser, url, arguments)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=Path)
    parser.add_argument("--to", type=Path, default=Path("pictures"))
    parser.add_argument("--at", default="10,60")
    parser.add_argument("--widths", default="390,1366,3840")
    parser.add_argument("--delay", default="0.5")
    parser.add_argument("--docs", action="store_true")
    asyncio.run(run(parser.parse_args(words)))


if __name__ == "__main__":
    main()
