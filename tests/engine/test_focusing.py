"""Code of the user about links and pages, in virtual time: what it changes, what is counted, what it costs a host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import CrawlSettings, HookSettings, OutputSettings, Settings
from crawler.engine.handed_page import HandedPage
from crawler.engine.link_judge import Link
from crawler.engine.run import Run
from crawler.job.job import Job
from tests.laboratory import SETTINGS, Laboratory
from tests.outputs import edges_of
from tests.simulated_web import Answer, redirect

A = "http://a.test"


class Judge:
    """Scores links by what their texts say, and pages by their paths; takes ``seconds`` each time."""

    filters = scores = rates = True

    def __init__(
        self, seconds: float = 0.0, wants: Callable[[Link], bool] = lambda _: True, page: float | None = 0.1
    ) -> None:
        self.seconds = seconds
        self.wants = wants
        self.page = page
        self.met: list[Link] = []
        self.now = self.most = 0

    async def wanted(self, links: Sequence[Link]) -> Sequence[bool]:
        return [self.wants(link) for link in links]

    async def score_links(self, links: Sequence[Link]) -> Sequence[float]:
        self.met += links
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        return [float(link.text) if link.text else 0.5 for link in links]

    async def score_page(self, page: HandedPage) -> float | None:
        good = page.record.entry.href.endswith("good")
        return 1.0 if good else self.page


def settings(**changes: Any) -> Settings:
    hooks = HookSettings(score_links="x:links", score_page="x:page", filter_link="x:wanted")
    crawl = CrawlSettings(concurrency=1, scope="any")
    return replace(SETTINGS, hooks=hooks, crawl=crawl, **changes)


def links(*scored: tuple[str, float | str]) -> str:
    """A page that links to these paths, each with its score for a text."""
    return "".join(f'<a href="{path}">{score}</a>' for path, score in scored)


def crawled(directory: Path, pages: dict[str, Answer], judge: Judge | None = None, **changes: Any) -> Laboratory:
    lab = Laboratory(directory / "job", pages, settings(**changes), link_judge=judge or Judge())
    lab.run(f"{A}/")
    return lab


def paths(lab: Laboratory) -> list[str]:
    return [asked.href.removeprefix(A) for asked in lab.asked]


@pytest.mark.parametrize("scores", [True, False])
def test_links_that_are_refused_are_counted_shown_and_come_back_without_the_filter(
    tmp_path: Path, scores: bool
) -> None:
    pages: dict[str, Answer] = {
        f"{A}/": links(("/a", 0.5), ("/b", 0.5), ("/moved", 0.5)),
        f"{A}/a": links(("/b", 0.5)),
        f"{A}/b": "<p>b",
        f"{A}/moved": redirect(f"{A}/b"),
    }
    judge = Judge(wants=lambda link: not link.url.endswith("/b"))
    judge.scores = scores
    lab = crawled(tmp_path, pages, judge, output=OutputSettings(("links",)))
    assert paths(lab) == ["/", "/a", "/moved"]
    why = {
        (url.removeprefix(A), row["to"].removeprefix(A)): row.get("why")
        for url, rows in edges_of(lab.directory).items()
        for row in rows
    }
    scored = {row["to"].removeprefix(A): row.get("score") for rows in edges_of(lab.directory).values() for row in rows}
    assert scored == {"/a": 0.5 if scores else None, "/b": None, "/moved": 0.5 if scores else None}
    assert why == {
        ("/", "/a"): None,
        ("/", "/b"): "filtered",
        ("/", "/moved"): None,
        ("/a", "/b"): "filtered",
        ("/moved", "/b"): "filtered",
    }
    lab.link_judge, lab.settings = None, replace(lab.settings, hooks=HookSettings())
    seen: list[dict[str, Any]] = []

    async def during(run: Run, _: Job) -> None:
        seen.append(run.stats())

    lab.run(during=during)
    assert seen[0]["links_filtered"] == 3
    assert seen[0]["links_left_out"]["hooks.filter_link"] == 3
    assert "/b" in paths(lab)


def test_code_that_is_slow_is_no_time_of_the_host(tmp_path: Path) -> None:
    pages: dict[str, Answer] = {f"{A}/": links(*((f"/{number}", 0.5) for number in range(12)))}
    pages |= {f"{A}/{number}": links((f"/{number}/below", 0.1)) for number in range(12)}
    judge = Judge(30.0)
    lab = Laboratory(tmp_path / "job", pages, replace(settings(), crawl=SETTINGS.crawl), link_judge=judge)
    lab.with_politeness(delay=1.0)
    in_flight: list[int] = []

    async def during(run: Run, _: Job) -> None:
        await asyncio.sleep(41.0)
        in_flight.append(run.stats()["urls_in_flight"])

    lab.run(f"{A}/", during=during)
    first = [asked.begin for asked in lab.asked if asked.href.count("/") == 3][1:]
    assert len(first) == 12
    waits = [later - earlier for earlier, later in pairwise(first)]
    assert max(waits) < 1.3, "the page before still waits for the code"
    assert min(waits) >= 1.2 - 1e-6, "the gap, from the end of a response"
    assert judge.most > 1
    assert in_flight[0] > 1, "until the links have their scores"
