"""Whole crawls in virtual time with settings by site, judged by what the servers were asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.settings.load import settings_from
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


def test_other_settings_hold_in_the_middle_of_a_crawl(tmp_path: Path) -> None:
    lab, seeds = laboratory(
        tmp_path,
        ["a.test", "b.test", "c.test"],
        30,
        politeness={"delay": 1.0},
        site=[{"match": "c.test", "delay": 5_000.0}],
    )
    changed = settings_from(
        {
            "politeness": {"delay": 0.1},
            "scope": {"exclude": ["/29"]},
            "site": [{"match": "b.test", "delay": 3.0}, {"match": "c.test", "per_host": 2}],
        }
    )

    async def change(run: Any, _: Any) -> None:
        await asyncio.sleep(10.5)
        politeness, scope, site = changed.politeness, changed.scope, changed.site
        run.change(replace(lab.settings, politeness=politeness, scope=scope, site=site))
        await asyncio.Event().wait()

    began = lab.now
    lab.run(*seeds, during=change)

    def starts(name: str) -> list[float]:
        return [asked.begin - began for asked in lab.requests_to(name)]

    a, b, c = starts("a.test"), starts("b.test"), starts("c.test")
    assert sum(at < 10.5 for at in a) in range(8, 11)
    assert min(after - before for before, after in pairwise(a)) > 0.29
    assert a[-1] < 18.0, "the rest at the new pace"
    slow = [round(after - before, 1) for before, after in pairwise(b) if before > 10.5]
    assert len(slow) > 15
    assert set(slow) == {3.2}
    assert [at for at in c if at < 10.5] == [0.0], "its delay was 5,000 s"
    assert c[1] < 11.0, "its hold is cut to the new gap"
    assert all(not asked.href.endswith("/29") for asked in lab.asked)
    assert len([record for record in lab.of("b.test") if record["outcome"] == "excluded"]) == 1


def test_a_limit_that_is_lifted_while_a_crawl_runs_brings_its_links_back(tmp_path: Path) -> None:
    lab, seeds = laboratory(
        tmp_path, ["a.test", "b.test"], 10, politeness={"delay": 1.0}, scope={"exclude": ["*//a.test/5"]}
    )

    async def change(run: Any, _: Any) -> None:
        await asyncio.sleep(5.0)
        run.change(replace(lab.settings, scope=settings_from({}).scope))
        await asyncio.Event().wait()

    lab.run(*seeds, during=change)
    assert [record["outcome"] for record in lab.of("a.test") if record["url"].endswith("/5")] == ["fetched"]
