"""Focused crawls of the program: killed, their order is what it would have been; and what is said of their links."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.frontier.order import class_of_score
from tests.jobs import rows
from tests.program import crawler
from tests.site import Site

MODULE = """
import os, signal

def of_links(links):
    return [0.5 if "NEUTRAL" in os.environ else float(link.text) for link in links]

def of_page(page):
    if page.url.endswith(os.environ.get("KILL_AT", "nowhere")):
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0 if "good" in page.text else 0.0

def wanted(link):
    return not link.url.endswith("/never")
"""
CONFIG = '[hooks]\nscore_links = "topic:of_links"\nscore_page = "topic:of_page"\nfilter_link = "topic:wanted"\n'
SCORES = [0.3, 0.95, 0.1, 0.7, 0.45, 0.2, 0.6, 0.05, 0.8, 0.35, 0.15, 0.55]
RAISED = {2: 0.85, 7: 0.65, 6: 0.1}  # by the page that is fetched second; the last is no better than before
PAGES = {
    "/": "".join(f'<a href="/{number}">{score}</a>' for number, score in [("never", 1.0), *enumerate(SCORES)]),
    **{f"/{number}": f"<p>{'good' if number % 3 else 'bad'} {number}" for number in range(len(SCORES))},
}
PAGES["/1"] += "".join(f'<a href="/{number}">{score}</a>' for number, score in RAISED.items())


@pytest.fixture
def site() -> Iterator[Site]:
    with Site(PAGES) as served:
        yield served


def crawl(here: Path, job: str, *words: str, **environment: str) -> Any:
    (here / "topic.py").write_text(MODULE)
    (here / "crawl.toml").write_text(CONFIG)
    flags = ("--allow-private", "--delay", "0", "--concurrency", "1", "--capacity", "4096", "--config", "crawl.toml")
    return crawler("crawl", "seeds", *flags, "--job", job, *words, directory=here, env=environment)


def test_killed_again_and_again_a_crawl_keeps_its_order(tmp_path: Path, site: Site) -> None:
    (tmp_path / "seeds").write_text(site.url("/"))
    assert crawl(tmp_path, "job", "--max-pages", "2").code == 0
    for kill_at in ("/2", "/4", "nowhere"):
        ran = crawl(tmp_path, "job", KILL_AT=kill_at, NEUTRAL="1")
        assert ran.code == (0 if kill_at == "nowhere" else -signal.SIGKILL), ran.err
    found = [asked.path for asked in site.asked if asked.path != "/robots.txt"]
    best = [max(score, RAISED.get(number, 0.0)) for number, score in enumerate(SCORES)]
    ordered = sorted(range(len(SCORES)), key=lambda number: (class_of_score(best[number]), number))
    assert list(dict.fromkeys(found)) == ["/", *(f"/{number}" for number in ordered)]
    scores = {row["url"]: row["score"] for row in rows(tmp_path / "job")}
    assert scores == {site.url(path): float("good" in text) for path, text in PAGES.items()}
    stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
    assert (stats["harvest"]["rated"], stats["harvest"]["relevant"], stats["urls_raised"]) == (13, 8, 2)
    assert "harvest   8 of 13 pages relevant (61.5%)" in ran.err
    assert crawler("verify", tmp_path / "job").code == 0
