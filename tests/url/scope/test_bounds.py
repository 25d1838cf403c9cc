"""Which limits a run lifts: never too few, and none if nothing more can come in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.settings.parts import SCOPES, CrawlSettings, LinkSettings, ScopeSettings, Settings
from crawler.frontier.entry import Entry
from crawler.job.left_out import LimitRow
from crawler.url.refusal.forbidden_targets import Rule
from crawler.url.scope.boundary import Boundary, Outside, Reach
from crawler.url.scope.bounds import Bounds, BoundsError, LeftOut, Lifted, Limit
from crawler.url.scope.modes import Scope

SEED = "http://www.a.test/x/"
BOUNDS = Bounds.of(Settings())
TRAPS = {rule for rule in Rule if rule.value.startswith(("traps.", "too-many-"))}


@dataclass(frozen=True)
class Link:
    href: str


patterns = st.lists(st.sampled_from(["*", "/a*", "/x/*", "/x/a*", "*b", "*a*", "http://www.a.test/*"]), max_size=3)
some_settings = st.builds(
    Settings,
    crawl=st.builds(
        CrawlSettings,
        max_depth=st.one_of(st.none(), st.integers(0, 4)),
        scope=st.sampled_from(SCOPES),
        hops_outside=st.integers(0, 2),
    ),
    scope=st.builds(ScopeSettings, patterns.map(tuple), patterns.map(tuple)),
    links=st.builds(LinkSettings, max_url_length=st.sampled_from([22, 24, 40]), max_links=st.integers(1, 3)),
)
links = st.builds(
    lambda host, path: Link(f"http://{host}/{path}"),
    st.sampled_from(["www.a.test", "b.a.test", "c.test"]),
    st.sampled_from(["", "a", "b", "x/", "x/a", "x/b", "x/ab/cccc", "x/a/bbbbbbbb"]),
)


def boundary(settings: Settings) -> Boundary:
    scope = Scope(settings.crawl.scope)
    scope.widen(SEED)
    return Boundary(scope, settings)


@given(some_settings, some_settings, links, st.integers(0, 5), st.booleans(), st.integers(0, 2))
def test_what_a_limit_left_out_comes_in_only_if_it_is_called_lifted(
    before: Settings, now: Settings, link: Link, depth: int, seed: bool, hops: int
) -> None:
    outside = Counter[Outside]()
    if boundary(before).inside([link], depth, outside, seed=seed, reach=Reach(hops)):
        return
    if boundary(now).inside([link], depth, Counter(), seed=seed, reach=Reach(hops)):
        left = LeftOut.of(outside, depth)
        lifted = Bounds.of(before).lifted(Bounds.of(now)).limits
        page = LimitRow(Entry(SEED, 0, reach=hops), depth=left.depth, counts=dict(left.counts))
        assert page.gains(lifted, now)
        assert set(left.counts) <= lifted | ({Limit.SCOPE} if Limit.HOPS_OUTSIDE in lifted else set())


@given(some_settings)
def test_the_same_limits_lift_nothing_and_are_stored(settings: Settings) -> None:
    bounds = Bounds.of(settings)
    assert bounds.lifted(bounds) == Lifted()
    assert Bounds.decode(bounds.encode()) == bounds


def changed(name: str, value: Any) -> Settings:
    table, key = name.split(".")
    return replace(Settings(), **{table: replace(getattr(Settings(), table), **{key: value})})


@pytest.mark.parametrize(
    ("name", "before", "now", "limits", "rules"),
    [
        ("hooks.filter_link", "site:a", None, {Limit.FILTER}, set()),
        ("hooks.filter_link", "site:a", "site:b", {Limit.FILTER}, set()),
        ("hooks.filter_link", None, "site:b", set(), set()),
        ("traps.max_hosts", 2, 0, {Limit.MAX_HOSTS}, TRAPS),
        ("traps.max_hosts", 0, 2, set(), TRAPS),
        ("traps.soft404", True, False, {Limit.SOFT404}, TRAPS),
        ("traps.duplicates", "skip-links", "record", {Limit.DUPLICATES}, TRAPS),
        ("fetch.max_body", 10, 20, {Limit.MAX_BODY}, set()),
        ("fetch.allow_ports", (), (25,), set(), {Rule.BLOCKED_PORT}),
        ("fetch.allow_private", False, True, set(), {Rule.PRIVATE_ADDRESS}),
        ("budget.host_pages", 5, None, set(), {rule for rule in Rule if rule.value.startswith("budget.")}),
    ],
)
def test_which_limits_a_setting_lifts(name: str, before: Any, now: Any, limits: set[Limit], rules: set[Rule]) -> None:
    lifted = Bounds.of(changed(name, before)).lifted(Bounds.of(changed(name, now)))
    assert (lifted.limits, lifted.rules) == (limits, rules)


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b"1", BOUNDS.encode()[:-1], BOUNDS.encode().replace(b'"host"', b'"hose"')]
)
def test_other_bytes_are_not_limits(value: bytes) -> None:
    with pytest.raises(BoundsError):
        Bounds.decode(value)
