"""Whole crawls in virtual time with settings by site, judged by what the servers were asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from crawler.settings import settings_from
from tests.laboratory import SETTINGS, Asked, Laboratory, links

HOSTS = [f"h{number}.many.test" for number in range(5)]


def laboratory(directory: Path, names: Iterable[str], pages: int, **settings: Any) -> tuple[Laboratory, list[str]]:
    """A web of hosts that each link to all of their pages; and its seeds."""
    web: dict[str, Any] = {}
    for name in names:
        hrefs = [f"http://{name}/{number}" for number in range(pages)]
        web[f"http://{name}/"] = links(hrefs)
        web.update({href: f"<p>{href}" for href in hrefs})
    stated = settings_from(settings)
    changed: dict[str, Any] = {table: getattr(stated, table) for table in settings}
    return Laboratory(directory / "job", web, replace(SETTINGS, **changed)), [f"http://{name}/" for name in names]


def gaps(asked: Iterable[Asked]) -> list[float]:
    """Seconds from the end of each request to the start of the next."""
    return [
        round(after.begin - before.end, 3) for before, after in pairwise(sorted(asked, key=lambda each: each.begin))
    ]


def test_each_site_has_its_own_delay(tmp_path: Path) -> None:
    lab, seeds = laboratory(
        tmp_path,
        ["slow.test", "www.slow.test", "quick.test"],
        5,
        politeness={"delay": 1.0},
        site=[{"match": "*.slow.test", "delay": 3.0}, {"match": "www.slow.test", "delay": 2.0}],
    )
    lab.run(*seeds)
    for name, least in (("slow.test", 3.0), ("www.slow.test", 2.0), ("quick.test", 1.0)):
        found = gaps(lab.requests_to(name))
        assert len(found) == 5
        assert min(found) >= least - 0.01
        assert max(found) <= least + 0.1, f"{name} is not held longer than its own delay"


def test_hosts_of_a_site_share_its_rate(tmp_path: Path) -> None:
    lab, seeds = laboratory(
        tmp_path,
        [*HOSTS, "free.test"],
        6,
        politeness={"delay": 0.1},
        robots={"ignore": False},
        site=[{"match": "*.many.test", "rate": 2.0}],
    )
    lab.run(*seeds)
    starts = sorted(asked.begin for asked in lab.requests_to(*HOSTS))
    between = [after - before for before, after in pairwise(starts)]
    assert len(starts) == len(HOSTS) * 8
    assert min(between) >= 0.499, "robots.txt counts too"
    assert starts[-1] - starts[0] <= 0.5 * len(starts) + 1.0, "no turn is lost"
    first = {name: min(asked.begin for asked in lab.requests_to(name)) for name in HOSTS}
    last = {name: max(asked.begin for asked in lab.requests_to(name)) for name in HOSTS}
    assert max(first.values()) < min(last.values()), "hosts take turns"
    free = lab.requests_to("free.test")
    assert max(asked.begin for asked in free) - min(asked.begin for asked in free) < 5.0


def test_robots_and_budget_of_a_site(tmp_path: Path) -> None:
    lab, seeds = laboratory(
        tmp_path,
        ["ours.test", "small.test", "other.test"],
        4,
        politeness={"delay": 0.1},
        robots={"ignore": False},
        site=[{"match": "ours.test", "ignore_robots": True}, {"match": "small.test", "host_pages": 2}],
    )
    lab.run(*seeds)
    robots = {asked.href for asked in lab.asked if asked.href.endswith("/robots.txt")}
    assert robots == {"http://small.test/robots.txt", "http://other.test/robots.txt"}
    outcomes = [record["outcome"] for record in lab.of("small.test")]
    assert (outcomes.count("fetched"), outcomes.count("excluded")) == (2, 3)
    assert all(record["outcome"] == "fetched" for record in lab.of("ours.test") + lab.of("other.test"))


def test_a_site_may_be_asked_several_things_at_once(tmp_path: Path) -> None:
    lab, seeds = laboratory(
        tmp_path,
        ["wide.test", "other.test"],
        9,
        politeness={"delay": 0.0},
        site=[{"match": "wide.test", "per_host": 3}],
    )
    lab.run(*seeds)

    def most_at_once(name: str) -> int:
        asked = lab.requests_to(name)
        return max(sum(other.begin <= each.begin < other.end for other in asked) for each in asked)

    assert (most_at_once("wide.test"), most_at_once("other.test")) == (3, 1)


def test_excluded_paths_and_classes_of_a_site(tmp_path: Path) -> None:
    lab, seeds = laboratory(
        tmp_path,
        ["a.test", "b.test"],
        6,
        politeness={"delay": 0.1},
        site=[{"match": "a.test", "exclude": ["/3"]}, {"match": "*/5", "priority": 0}, {"match": "/4", "priority": 7}],
        priority={"rules": [{"class": 4}]},
    )
    lab.run(*seeds)
    pages = [asked.href for asked in lab.requests_to("a.test") if not asked.href.endswith("robots.txt")]
    assert pages == [f"http://a.test/{page}" for page in ("", 5, 0, 1, 2, 4)]
    assert "http://b.test/3" in {asked.href for asked in lab.requests_to("b.test")}
