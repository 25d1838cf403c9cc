"""``crawl.max_pages``: exactly so many pages, and no host that does not answer keeps the last places from others."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import CrawlSettings, RobotsSettings, Settings
from crawler.engine.lifecycle import Stop
from tests.laboratory import SETTINGS, START, Laboratory, links

PAGES = 30
NO_ANSWER = 30.0  # seconds until a host that does not answer is given up
DEAD = "http://dead.test/"
SITE = {f"http://live.test/{number}": "" for number in range(1, PAGES)} | {
    "http://live.test/0": links([DEAD, *(f"/{number}" for number in range(1, PAGES))])
}


def limited(most: int, *, robots: bool = True, concurrency: int = 8) -> Settings:
    crawl = CrawlSettings(concurrency=concurrency, scope="any", max_pages=most)
    return replace(SETTINGS, crawl=crawl, robots=RobotsSettings(ignore=not robots))


def pages_asked(laboratory: Laboratory) -> list[str]:
    return [each.href for each in laboratory.asked if not each.href.endswith("/robots.txt")]


@pytest.mark.parametrize(("per_host", "most"), [(1, 1), (8, 20)])
def test_a_robots_txt_that_never_comes_holds_no_place(tmp_path: Path, most: int, per_host: int) -> None:
    lab = Laboratory(tmp_path / "job", dict(SITE), limited(most), slow={"dead.test": NO_ANSWER})
    lab.with_politeness(delay=0.1, per_host=per_host)
    assert lab.run(DEAD, "http://live.test/0") is Stop.MAX_PAGES
    assert lab.now - START < 0.4 + most * 0.31, "robots.txt, and then pages one after the other"
    assert len(lab.of("live.test")) == len(lab.records()) == len(pages_asked(lab)) == most
    lab.settings = replace(lab.settings, crawl=replace(lab.settings.crawl, max_pages=None))
    assert lab.run() is Stop.FINISHED
    assert len(lab.of("live.test")) == PAGES
    assert len(lab.of("dead.test")) == 1, "the URL whose robots.txt was broken off is not lost"


@pytest.mark.parametrize(("concurrency", "most"), [(1, 7), (64, 1), (64, 39)])
def test_never_more_pages_than_that_are_asked_for(tmp_path: Path, most: int, concurrency: int) -> None:
    web = {f"http://h{number}.test/": links(["/more"]) for number in range(20)}
    web |= {f"http://h{number}.test/more": "" for number in range(20)}
    slow = {f"h{number}.test": 0.1 + number % 7 for number in range(20)}
    lab = Laboratory(tmp_path / "job", web, limited(most, concurrency=concurrency), slow=slow)
    lab.with_politeness(delay=0.1)
    assert lab.run(*(href for href in web if href.endswith("/"))) is Stop.MAX_PAGES
    assert len(lab.records()) == len(pages_asked(lab)) == most
