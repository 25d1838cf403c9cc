"""Priority rules: which decides, and which can never match."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import PriorityRule
from crawler.url.scope.priority_rules import PriorityRules, Rule
from crawler.url.scope.rule_faults import rule_faults


def rules(*stated: dict[str, Any]) -> PriorityRules:
    return PriorityRules(settings_from({"priority": list(stated)}).priority.rules)  # type: ignore[dict-item]


def test_the_first_rule_of_which_everything_holds_decides() -> None:
    made = rules(
        {"class": 1, "seed": True},
        {"class": 2, "pattern": "/news/*", "max_depth": 2},
        {"class": 3, "min_sitemap_priority": 0.8},
        {"class": 4, "max_sitemap_priority": 0.2},
        {"class": 5, "min_depth": 5, "max_depth": 6, "seed": False},
    )
    news, other = "http://h.test/news/1", "http://h.test/1"
    assert made.of(news, 0, seed=True) == 1
    assert made.of(news, 2, seed=False) == 2
    assert made.of(news, 3, seed=False) is None
    assert made.of(news, 3, seed=False, sitemap_priority=0.8) == 3
    assert made.of(other, 1, seed=False, sitemap_priority=0.5) is None
    assert made.of(other, 1, seed=False, sitemap_priority=0.0) == 4
    assert [made.of(other, depth, seed=False) for depth in (4, 5, 6, 7)] == [None, 5, 5, None]
    assert rules().of(news, 0, seed=True) is None
    assert made.explain(news, 2, seed=False) == "Class 2 by priority rule 2 (like /news/*, depth 2 or less)."
    assert made.explain(other, 6, seed=False) == "Class 5 by priority rule 5 (no seeds, depth 5 to 6)."
    assert made.explain(other, 3, seed=False) == (
        "Class by the crawl's order: no priority rule matches, apart from those about sitemaps."
    )


@pytest.mark.parametrize(
    ("stated", "others", "place"),
    [
        ([{"class": 1, "pattern": "news/*"}], {}, (0, "pattern")),
        ([{"class": 1, "min_depth": 3, "max_depth": 2}], {}, (0, "min_depth")),
        ([{"class": 1, "min_depth": 3}], {"crawl": {"max_depth": 2}}, (0, "min_depth")),
        ([{"class": 1, "seed": True, "min_depth": 1}], {}, (0, "min_depth")),
        ([{"class": 1, "max_sitemap_priority": 0.4}], {"links": {"sitemaps": False}}, (0, "max_sitemap_priority")),
        ([{"class": 1, "max_depth": 0, "min_sitemap_priority": 0.5}], {}, (0, "max_depth")),
        ([{"class": 1}, {"class": 2, "pattern": "/a"}], {}, (1,)),
        ([{"class": 1, "pattern": "/a/b*", "seed": False}], {"scope": {"exclude": ["/a/*"]}}, (0, "pattern")),
    ],
)
def test_rules_that_can_never_match_are_named_with_their_place(
    stated: list[dict[str, Any]], others: dict[str, Any], place: tuple[str | int, ...]
) -> None:
    (fault,) = rule_faults(settings_from({"priority": stated, **others}))  # type: ignore[dict-item]
    assert fault.place == ("priority", *place)


numbers = st.one_of(st.none(), st.integers(0, 3))
shares = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]))
patterns = st.one_of(st.none(), st.sampled_from(["*", "/a*", "/a", "/*a", "http://h.test/*", "*.b"]))
stated_rules = st.builds(
    PriorityRule, st.integers(0, 7), patterns, numbers, numbers, st.sampled_from([None, True, False]), shares, shares
)


@given(
    stated_rules,
    stated_rules,
    st.sampled_from(["http://h.test/a", "http://h.test/ba", "http://o.test/a.b"]),
    st.integers(0, 4),
    st.booleans(),
    shares,
)
def test_a_rule_that_covers_another_matches_whatever_it_does(
    one: PriorityRule, other: PriorityRule, href: str, depth: int, seed: bool, listed: float | None
) -> None:
    if Rule(one).covers(Rule(other)) and Rule(other).matches(href, depth, seed, listed):
        assert Rule(one).matches(href, depth, seed, listed)
