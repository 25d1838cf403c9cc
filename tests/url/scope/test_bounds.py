"""Which limits a run lifts: never too few, and none if nothing more can come in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.settings.parts import SCOPES, CrawlSettings, LinkSettings, ScopeSettings, Settings
from crawler.frontier.entry import Entry
from crawler.job.border import BorderPage
from crawler.url.scope.boundary import Boundary, Outside, Reach
from crawler.url.scope.bounds import Bounds, BoundsError, LeftOut, Limit, budgets_of
from crawler.url.scope.modes import Scope

SEED = "http://www.a.test/x/"
BOUNDS = Bounds(2, "host", ("*/b*",), ("*.pdf", "/c*"), 50, 10, 1_000)


@dataclass(frozen=True)
class Link:
    href: str


patterns = st.lists(st.sampled_from(["*", "/a*", "/x/*", "/x/a*", "*b", "*a*", "http://www.a.test/*"]), max_size=3)
some_bounds = st.builds(
    Bounds,
    st.one_of(st.none(), st.integers(0, 4)),
    st.sampled_from(SCOPES),
    patterns.map(tuple),
    patterns.map(tuple),
    st.sampled_from([22, 24, 40]),
    st.integers(1, 3),
    st.integers(1, 3),
    max_sitemap_bytes=st.integers(1, 3),
    hops_outside=st.integers(0, 2),
    filter_link=st.sampled_from([None, "site:wanted"]),
)
links = st.builds(
    lambda host, path: Link(f"http://{host}/{path}"),
    st.sampled_from(["www.a.test", "b.a.test", "c.test"]),
    st.sampled_from(["", "a", "b", "x/", "x/a", "x/b", "x/ab/cccc", "x/a/bbbbbbbb"]),
)


def boundary(bounds: Bounds) -> Boundary:
    scope = Scope(bounds.scope)
    scope.widen(SEED)
    settings = Settings(
        crawl=CrawlSettings(max_depth=bounds.max_depth, hops_outside=bounds.hops_outside),
        scope=ScopeSettings(bounds.include, bounds.exclude),
        links=LinkSettings(max_url_length=bounds.max_url_length),
    )
    return Boundary(scope, settings)


@given(some_bounds, some_bounds, links, st.integers(0, 5), st.booleans(), st.integers(0, 2))
def test_what_a_limit_left_out_comes_in_only_if_it_is_called_lifted(
    before: Bounds, now: Bounds, link: Link, depth: int, seed: bool, hops: int
) -> None:
    outside = Counter[Outside]()
    if boundary(before).inside([link], depth, outside, seed=seed, reach=Reach(hops)):
        return
    if boundary(now).inside([link], depth, Counter(), seed=seed, reach=Reach(hops)):
        left = LeftOut.of(outside, depth)
        lifted = before.lifted(now)
        page = BorderPage(Entry(SEED, 0, reach=hops), 1, 1, left.depth, left.counts)
        assert page.gains(lifted, now)
        assert set(left.counts) <= lifted | ({Limit.SCOPE} if Limit.HOPS_OUTSIDE in lifted else set())


@given(some_bounds)
def test_the_same_limits_lift_nothing_and_are_stored(bounds: Bounds) -> None:
    assert bounds.lifted(bounds) == frozenset()
    assert Bounds.decode(bounds.encode()) == bounds


def test_a_function_that_refuses_links_is_lifted_by_none_and_by_another() -> None:
    before = replace(BOUNDS, filter_link="site:wanted")
    assert before.lifted(before) == set()
    assert before.lifted(replace(before, filter_link=None)) == {Limit.FILTER}
    assert before.lifted(replace(before, filter_link="site:other")) == {Limit.FILTER}


def test_the_limits_are_those_of_the_settings() -> None:
    settings = Settings(
        crawl=CrawlSettings(max_depth=7, scope="any"),
        scope=ScopeSettings(("/a*",), ("/b*",)),
        links=LinkSettings(max_url_length=99, max_links=5),
    )
    bounds = Bounds(7, "any", ("/a*",), ("/b*",), 99, 5, settings.fetch.max_body, budgets=budgets_of(settings))
    assert Bounds.of(settings) == bounds


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b"1", BOUNDS.encode()[:-1], BOUNDS.encode().replace(b"host", b"hose")]
)
def test_other_bytes_are_not_limits(value: bytes) -> None:
    with pytest.raises(BoundsError):
        Bounds.decode(value)
