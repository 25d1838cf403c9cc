"""What belongs: each question, its order, and what is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from crawler.base.settings.load import settings_from
from crawler.url.scope.boundary import Boundary, Outside
from crawler.url.scope.modes import Scope


@dataclass(frozen=True)
class Link:
    href: str


def boundary(seed: str = "http://h.test/", mode: str = "host", **tables: dict[str, Any]) -> Boundary:
    scope = Scope(mode)
    scope.widen(seed)
    return Boundary(scope, settings_from(tables))


def asked(made: Boundary, *hrefs: str, depth: int = 1, seed: bool = False) -> tuple[list[str], dict[Outside, int]]:
    outside: Counter[Outside] = Counter()
    inside = made.inside([Link(href) for href in hrefs], depth, outside, seed=seed)
    assert len(inside) + outside.total() == len(hrefs), "each link is inside or counted once"
    return [link.href for link in inside], dict(+outside)


def test_each_link_is_counted_by_the_first_question_that_says_no() -> None:
    made = boundary(
        scope={"include": ["/docs/*"], "exclude": ["*.pdf"]}, links={"max_url_length": 30}, crawl={"max_depth": 3}
    )
    inside, outside = asked(
        made,
        "http://h.test/docs/a",
        "http://other.test/docs/a",
        "http://other.test/a.pdf",
        "http://h.test/a.pdf",
        "http://h.test/docs/a.pdf",
        "http://h.test/docs/" + "a" * 30,
    )
    assert inside == ["http://h.test/docs/a"]
    assert outside == {
        Outside.OFF_SCOPE: 2,
        Outside.NOT_INCLUDED: 1,
        Outside.EXCLUDED_BY_PATTERN: 1,
        Outside.TOO_LONG: 1,
    }
    assert asked(made, "http://other.test/a.pdf", depth=4) == ([], {Outside.TOO_DEEP: 1})


def test_where_a_seed_redirects_to_needs_match_no_pattern() -> None:
    made = boundary(scope={"include": ["/docs/*"], "exclude": ["*/start"]})
    assert asked(made, "http://h.test/start", seed=True) == (["http://h.test/start"], {})
    assert asked(made, "http://h.test/start") == ([], {Outside.NOT_INCLUDED: 1})


def test_it_explains_what_it_decides() -> None:
    made = boundary(
        scope={"include": ["/docs/*"], "exclude": ["*.pdf"]}, links={"max_url_length": 30}, crawl={"max_depth": 3}
    )
    assert made.explain("http://h.test/docs/a", 3) == [
        "In scope: its host h.test is one of the seeds'.",
        "Included: it matches /docs/*.",
        "Not excluded: it matches no scope.exclude.",
        "Not too deep: depth 3, crawl.max_depth is 3.",
    ]
    assert made.explain("http://o.test/a.pdf?" + "b" * 20, 4) == [
        "Out of scope: its host o.test is not among h.test.",
        "Not included: it matches no scope.include.",
        "Not excluded: it matches no scope.exclude.",
        "Too deep: depth 4, crawl.max_depth is 3.",
        "Too long: 40 characters, links.max_url_length is 30.",
    ]
    assert "Excluded by scope.exclude: *.pdf." in made.explain("http://h.test/a.pdf", None)


def test_it_does_not_explain_a_hop_off_the_site_by_patterns_that_are_about_the_site() -> None:
    made = boundary(scope={"include": ["/docs/*"]}, crawl={"hops_outside": 1})
    assert made.explain("http://o.test/a", 1) == [
        "Out of scope: its host o.test is not among h.test.",
        "If a page links to it, it is followed up to 1 hop outside the scope (crawl.hops_outside).",
    ]
    assert made.explain("http://h.test/a", 1)[1:] == ["Not included: it matches no scope.include."]
