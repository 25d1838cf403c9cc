"""The settings of one URL: patterns, classes and intervals that a [[site]] gives it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import Settings
from crawler.frontier.page import first_interval
from crawler.url.scope.boundary import Boundary, Outside
from crawler.url.scope.modes import Scope
from crawler.url.scope.priority_rules import PriorityRules
from crawler.url.scope.url_sites import UrlSites


@dataclass(frozen=True)
class Link:
    href: str


def settings(*tables: dict[str, Any], **others: dict[str, Any]) -> Settings:
    return settings_from({"crawl": {"scope": "any"}, "site": list(tables)} | others)


def test_patterns_of_a_site_hold_instead_of_those_of_the_scope() -> None:
    stated = settings(
        {"match": "*.a.org", "exclude": ["/search/*"]},
        {"match": "https://b.org/deep/*", "exclude": []},
        {"match": "c.org", "include": ["/docs/*"]},
        scope={"exclude": ["*.pdf"]},
    )
    boundary = Boundary(Scope("any"), stated)
    links = [
        "https://a.org/search/x",
        "https://www.a.org/y.pdf",
        "https://b.org/y.pdf",
        "https://b.org/deep/y.pdf",
        "https://c.org/y",
        "https://c.org/docs/y",
    ]
    outside = Counter[Outside]()
    inside = boundary.inside([Link(href) for href in links], 0, outside)
    assert [link.href for link in inside] == [links[1], links[3], links[5]]
    assert outside[Outside.EXCLUDED_BY_PATTERN] == 2
    assert outside[Outside.NOT_INCLUDED] == 1
    assert boundary.excluded(links[0]) == "site.exclude: /search/*"
    assert boundary.excluded(links[2]) == "scope.exclude: *.pdf"
    assert boundary.excluded(links[3]) is None
    assert "Excluded by site.exclude: /search/*." in boundary.explain(links[0], 0)
    assert len(boundary.inside([Link(links[0])], 0, outside, seed=True)) == 1


def test_a_class_of_a_site_goes_before_the_rules() -> None:
    stated = settings({"match": "/news/*", "priority": 1}, priority={"rules": [{"class": 5}]})
    rules = PriorityRules.of_settings(stated)
    assert rules.of("http://a.org/news/x", 0, seed=False) == 1
    assert rules.of("http://a.org/x", 0, seed=False) == 5
    assert rules.explain("http://a.org/news/x", 0, seed=False) == "Class 1 by [[site]] 1 (configuration)."


def test_intervals_of_a_site() -> None:
    sites = UrlSites(
        settings(
            {"match": "a.org", "interval": 60},
            {"match": "/slow/*", "min_interval": 7_200},
            {"match": "b.org", "max_interval": 100},
        )
    )
    always = sites.recrawl_of("http://a.org/x")
    assert (always.min_interval, first_interval(always), always.max_interval) == (60.0, 60.0, 60.0)
    assert sites.recrawl_of("http://a.org/slow/x").min_interval == 7_200.0
    short = sites.recrawl_of("http://b.org/x")
    assert (short.min_interval, first_interval(short), short.max_interval) == (100.0, 100.0, 100.0)
    assert sites.recrawl_of("http://c.org/x") == Settings().recrawl
