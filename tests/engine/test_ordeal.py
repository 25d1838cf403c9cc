"""A crawl through all that befalls one, in its small form; ``benchmarks/frontier/ordeal.py`` has the long one."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from crawler.engine.lifecycle import Stop
from tests.ordeal import Ordeal, Run, runs_of


def test_outages_deaths_restarts_and_revisits_break_no_rule(tmp_path: Path) -> None:
    ordeal = Ordeal(tmp_path / "job", seed=5, hosts=16, pages=9, slots=4, rate=20.0, wild=12)
    ends = [ordeal.go(run) for run in runs_of(6.0)]
    assert ends == [Stop.MAX_TIME, Stop.MAX_TIME, None, Stop.MAX_TIME, None, Stop.MAX_TIME, None, Stop.FINISHED]
    assert ordeal.judge().broken == 0, ordeal.servers.verdict
    servers = ordeal.servers
    assert servers.requests["no answer"] > 20
    assert servers.requests["pages"] > 200
    assert 24 < len(servers.by_name) <= 16 + 1 + 12, "a seed is no host too many"
    assert 0.0 < servers.longest <= 2.0


def test_a_crawler_that_breaks_the_rules_is_told(tmp_path: Path) -> None:
    ordeal = Ordeal(tmp_path / "job", seed=5, hosts=8, pages=10, slots=4, wild=4)
    ordeal.settings = replace(ordeal.settings, politeness=replace(ordeal.settings.politeness, delay=0.05, per_host=3))
    ordeal.go(Run(10.0))
    verdict = ordeal.judge()
    assert verdict.gaps > 5
    assert verdict.overlaps > 0
    assert verdict.lost > 5, "the crawl is not at its end"
