"""The time to the end, the pace of a host and what the crawl says of it, when hosts refuse, err or do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from crawler.engine.run import Run
from crawler.inspect.host_table import table_row
from crawler.job.job import Job
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.web.fetch import Failure, Response
from crawler.web.fetch.outcome import FailureKind
from tests.laboratory import Laboratory, links
from tests.simulated_web import page

BUSY = Response(429, {}, None, None, b"", None, "20", 0.2, 0)
BROKEN = page("<p>oops", status=500)
ALL = [f"/{n}" for n in range(40)]


def erring(name: str, urls: int = 20) -> dict[str, Any]:
    """All pages but the first answer 500."""
    return {f"http://{name}/": links(ALL[:urls])} | {f"http://{name}{path}": BROKEN for path in ALL[:urls]}


def busy(name: str) -> dict[str, Any]:
    """Two of three requests are answered with 429."""
    number = 0

    def answer(_: Mapping[str, str]) -> Response:
        nonlocal number
        number += 1
        return page(links(ALL)) if number % 3 == 0 else BUSY

    return {f"http://{name}{path}": answer for path in ("/", *ALL)}


def dead(name: str) -> dict[str, Any]:
    return {f"http://{name}/": Failure(FailureKind.REFUSED, "nobody listens", 0.0)}


def fine(name: str) -> dict[str, Any]:
    return {f"http://{name}/": links(ALL)} | {f"http://{name}{path}": "<p>page" for path in ALL}


@dataclass
class Watched:
    """What a crawl told each second, from its begin to its end."""

    began: float
    lasted: float = 0.0
    told: list[tuple[float, dict[str, Any], dict[str, Any]]] = field(default_factory=list)  # second, stats, words
    rows: dict[str, list[tuple[float, dict[str, Any]]]] = field(default_factory=dict)

    def between(self, first: float, last: float) -> Iterator[tuple[float, dict[str, Any], dict[str, Any]]]:
        """What was told between two shares of the crawl."""
        return (each for each in self.told if first * self.lasted < each[0] < last * self.lasted)


def watched(lab: Laboratory, *seeds: str) -> Watched:
    """Run the job to its end."""
    history, seen = CrawlHistory(), Watched(lab.now)

    async def look(crawl: Run, job: Job) -> None:
        while True:
            await asyncio.sleep(1)
            now, stats = lab.now + asyncio.get_running_loop().time(), crawl.stats()
            history.observe(now, stats)
            seen.told.append((now - seen.began, stats, history.words(stats)))
            for seed in seeds:
                name = seed.split("/")[2] + ":80"
                row = job.frontier.describe(name, now, crawl.serving)
                if row is not None:
                    seen.rows.setdefault(name, []).append((now - seen.began, table_row(row)))

    lab.run(*seeds, during=look)
    seen.lasted = lab.now - seen.began
    return seen


HOSTS: dict[str, Callable[[str], dict[str, Any]]] = {"errs": erring, "busy": busy, "dead": dead, "fine": fine}


@pytest.mark.parametrize("kind", ["errs", "busy"])
def test_tries_and_holds_count_in_the_time_left(tmp_path: Path, kind: str) -> None:
    pages = HOSTS[kind](f"{kind}.test") | fine("fine.test")
    lab = Laboratory(tmp_path / "job", pages).with_politeness(delay=0.3)
    seen = watched(lab, f"http://{kind}.test/", "http://fine.test/")
    assert seen.lasted > 600
    right, retried = list[bool](), list[int]()
    for second, stats, _ in seen.between(0.1, 0.75):
        left, slowest = stats["time_left"], stats["slowest_host"]
        assert left is not None, "a number, as long as the crawl runs"
        assert slowest["name"] == f"{kind}.test:80"
        assert left["seconds"] >= slowest["seconds"] - 1e-6
        assert left["seconds"] <= 1.5 * (seen.lasted - second) + 90
        near = 0.9 * (seen.lasted - second) if kind == "errs" else 0.5 * (seen.lasted - second) - 90
        right.append(left["seconds"] >= near or (left["at_least"] and kind == "busy"))
        retried.append(stats["urls_retrying"])
    assert sum(right) > 0.9 * len(right), (
        "it is a bound while the host waits after failures, and a close one if it has only errors"
    )
    assert 0 < max(retried) <= 40


def test_of_a_host_that_never_answers_the_crawl_says_when_it_gives_up(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path / "job", dead("dead.test") | fine("fine.test")).with_politeness(delay=0.3)
    seen = watched(lab, "http://dead.test/", "http://fine.test/")
    assert {row["share"] for _, row in seen.rows["dead.test:80"]} <= {None, 0.0}, "to fail is no share of the work"
    alone = [each for each in seen.between(0.5, 0.95) if each[1]["hosts_pending"] == 1]
    assert len(alone) > 20
    told: list[str] = []
    for second, stats, words in alone:
        assert stats["time_left"]["host"] == "dead.test:80"
        assert stats["time_left"]["seconds"] == pytest.approx(seen.lasted - second, rel=0.3, abs=15)
        if not stats["urls_in_flight"] and stats["slowest_host"]["wait_seconds"] >= 1:
            told.append(words["working"]["text"])
    assert any("Waits for dead.test:80" in text and "next request in" in text for text in told)
