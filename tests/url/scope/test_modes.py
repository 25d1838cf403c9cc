"""What belongs to a crawl, in each mode."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import SCOPES
from crawler.url.scope.modes import Scope


def scope(mode: str, *seeds: str) -> Scope:
    made = Scope(mode)
    for seed in seeds:
        made.widen(seed)
    return made


INSIDE = [
    ("host", "http://example.com/a", "http://example.com/b"),
    ("host", "http://example.com/a", "https://example.com/b"),
    ("host", "http://example.com/a", "http://user@example.com/b"),
    ("host", "http://example.com:8080/", "http://example.com:8080/b"),
    ("host", "http://[::1]:8080/", "http://[::1]:8080/b"),
    ("domain", "http://www.example.co.uk/", "https://other.example.co.uk:8080/"),
    ("domain", "http://example.co.uk/", "http://example.co.uk./"),
    ("domain", "http://127.0.0.1/", "http://127.0.0.1:81/"),
    ("domain", "http://localhost/", "http://localhost/"),
    ("domain", "http://co.uk/", "http://co.uk/a"),
    ("domain", "http://me.github.io/", "http://www.me.github.io/"),
    ("domain", "http://xn--bcher-kva.example/", "http://www.xn--bcher-kva.example/"),
    ("prefix", "http://example.com/docs/a.html", "https://example.com/docs/b/c?d"),
    ("prefix", "http://example.com/docs/", "http://example.com/docs/"),
    ("prefix", "http://example.com/", "http://example.com/a"),
    ("prefix", "http://example.com/%7Eme/a", "http://example.com/~me/b"),
    ("prefix", "http://example.com/a?b/c", "http://example.com/d"),
    ("prefix", "http://127.0.0.1:81/a/b", "http://127.0.0.1:81/a/c"),
    ("any", "http://example.com/", "https://other.example/"),
]

OUTSIDE = [
    ("host", "http://example.com/", "http://www.example.com/"),
    ("host", "http://example.com/", "http://example.com:8080/"),
    ("host", "http://example.com/", "http://example.com:443/"),
    ("host", "http://example.com:8080/", "http://example.com/"),
    ("host", "http://example.com/", "http://example.com.evil.example/"),
    ("host", "http://example.com/", "http://example.com@evil.example/"),
    ("domain", "http://example.co.uk/", "http://other.co.uk/"),
    ("domain", "http://co.uk/", "http://example.co.uk/"),
    ("domain", "http://me.github.io/", "http://you.github.io/"),
    ("domain", "http://127.0.0.1/", "http://1.0.0.1/"),
    ("domain", "http://example.com/", "http://notexample.com/"),
    ("prefix", "http://example.com/docs/a.html", "http://example.com/doc"),
    ("prefix", "http://example.com/docs/a.html", "http://example.com/docs"),
    ("prefix", "http://example.com/docs/", "http://www.example.com/docs/"),
    ("prefix", "http://example.com/docs/", "http://example.com:8080/docs/"),
    ("prefix", "http://example.com/", "http://example.com.evil.example/"),
]


@pytest.mark.parametrize(("mode", "seed", "href"), INSIDE)
def test_inside(mode: str, seed: str, href: str) -> None:
    made = scope(mode, seed)
    assert made.contains(href)
    assert made.contains(href), "and when asked again"
    assert made.explain(href).startswith("In scope: ")


@pytest.mark.parametrize(("mode", "seed", "href"), OUTSIDE)
def test_outside(mode: str, seed: str, href: str) -> None:
    made = scope(mode, seed)
    assert not made.contains(href)
    assert not made.contains(href), "and when asked again"
    assert made.explain(href).startswith("Out of scope: ")


@pytest.mark.parametrize("mode", ["host", "domain", "prefix"])
def test_widen_says_whether_the_scope_grew(mode: str) -> None:
    made = Scope(mode)
    other = "http://other.example/a/"
    assert made.widen("http://example.com/a/") == made.entries()[0]
    assert made.widen("https://example.com/a/b") is None
    assert not made.contains(other)
    assert made.widen(other) == made.entries()[1]
    assert made.contains(other), "an earlier answer does not outlive the scope it was given in"


def test_entries_are_what_the_page_says() -> None:
    seeds = ("https://example.co.uk/docs/a?b/c", "http://www.example.co.uk:8080/")
    assert scope("host", *seeds).entries() == ["example.co.uk", "www.example.co.uk:8080"]
    assert scope("domain", *seeds).entries() == ["example.co.uk"]
    assert scope("prefix", *seeds).entries() == ["http://(uk,co,example,)/docs/", "http://(uk,co,example,www,:8080)/"]


HREFS = st.builds(
    "{}://{}{}/{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["a.example", "b.a.example", "co.uk", "a.co.uk", "127.0.0.1", "[::1]", "localhost"]),
    st.sampled_from(["", ":8080"]),
    st.sampled_from(["", "a", "a/", "a/b", "a/b/", "?a/b"]),
)


@given(st.sampled_from(SCOPES), st.lists(HREFS, max_size=4), st.lists(HREFS, max_size=4))
def test_stored_entries_bring_the_scope_back(mode: str, seeds: list[str], asked: list[str]) -> None:
    made = scope(mode, *seeds)
    again = Scope(mode)
    again.restore(made.entries())
    assert again.entries() == made.entries()
    for seed in seeds:
        assert again.contains(seed)
        assert again.widen(seed) is None
    assert [again.contains(href) for href in asked] == [made.contains(href) for href in asked]


class Link(NamedTuple):
    href: str


@given(st.sampled_from(SCOPES), st.lists(HREFS, max_size=4), st.lists(HREFS, max_size=4))
def test_the_links_of_a_page_belong_as_each_of_them_does(mode: str, seeds: list[str], asked: list[str]) -> None:
    made, few = scope(mode, *seeds), Scope(mode, origins_remembered=1)
    few.restore(made.entries())
    inside = [Link(href) for href in asked if made.contains(href)]
    assert made.inside([Link(href) for href in asked]) == inside
    assert few.inside([Link(href) for href in asked]) == inside


def test_many_prefixes_and_long_paths_cost_little() -> None:
    made = scope("prefix", *(f"http://h.example/{number}/" for number in range(20_000)))
    assert made.contains("http://h.example/19999/a")
    assert not made.contains("http://h.example/20000/a")
    assert not made.contains("http://h.example" + "/" * 1_000_000)
