"""Patterns: what they match, that they take no longer than they must, and what is said of those that match nothing."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url.scope.patterns import Pattern, PatternError

MATCHES = [
    ("*", "http://h.test/"),
    ("http://h.test/", "http://h.test/"),
    ("http://h.test/docs/*", "http://h.test/docs/"),
    ("http://h.test/docs/*", "http://h.test/docs/a/b?c=d"),
    ("*.pdf", "https://h.test/a.pdf"),
    ("*//*.h.test/*", "https://www.h.test/"),
    ("/print/*", "http://h.test/print/1"),
    ("/", "http://h.test/"),
    ("*?*sort=*", "http://h.test/a?b=c&sort=up"),
    ("/a?b=*", "http://h.test/a?b=c"),
    ("/~me/*", "http://h.test/%7Eme/a"),
    ("/%7Eme/*", "http://h.test/~me/a"),
    ("/a%2fb", "http://h.test/a%2Fb"),
    ("/*/*/", "http://h.test/a/b/c/"),
    ("*a*a*a", "http://h.test/aaa"),
    ("http*://h.test/*", "https://h.test/"),
    ("http://h.test*", "http://h.test:81/"),
    ("/a[1].html", "http://h.test/a[1].html"),
    ("http://h.test/*", "http://me@h.test/a"),
    ("/page/{1..50}", "http://h.test/page/50"),
    ("/page/{1..50}", "http://h.test/page/007"),
    ("/page/{1..50}*", "http://h.test/page/7?a=50"),
    ("*page={1..10}*", "http://h.test/?page=11&subpage=2"),
    ("http://img{1..9}.h.test/*", "http://img3.h.test/a"),
    ("*{0..0}", "http://h.test/a0"),
    ("/{1..2}-{3..4}", "http://h.test/1-4"),
    ("{?sort}", "http://h.test/a?sort"),
    ("{?sort}", "http://h.test/a?b=c&sort=up"),
    ("/shop/*{?sort=price*}", "http://h.test/shop/a?x&sort=price_up"),
    ("*{?page=2..9}{?lang}", "http://h.test/?lang=en&page=5"),
    ("*{?utm_*}", "http://h.test/?a&utm_source=b"),
    ("*{?a=}", "http://h.test/?a"),
    ("{?%7Ea}", "http://h.test/?~a=1"),
    ("re:/20[12][0-9]/", "http://h.test/2019/a"),
    (r"re:\.pdf$", "http://h.test/a.pdf"),
    ("re:^https?://[^/]*/~me/", "http://h.test/%7Eme/"),
]
MISSES = [
    ("/page/{1..50}", "http://h.test/page/51"),
    ("/page/{1..50}*", "http://h.test/page/500"),
    ("/page/{1..50}", "http://h.test/page/"),
    ("/page/{1..50}", "http://h.test/page/" + "9" * 5_000),
    ("*{2..9}", "http://h.test/12"),
    ("{?sort}", "http://h.test/sort"),
    ("{?sort}", "http://h.test/?resort=1"),
    ("{?sort=up}", "http://h.test/?sort=down&x=up"),
    ("/shop/{?a}", "http://h.test/shop/b?a"),
    ("{?a}{?b}", "http://h.test/?a=b"),
    ("{?page=1..9}", "http://h.test/?page=1a"),
    ("re:^/a", "http://h.test/a"),
    ("*.pdf", "http://h.test/a.pdf?b"),
    ("http://h.test/docs/*", "http://h.test/docs"),
    ("http://h.test/docs/*", "https://h.test/docs/"),
    ("/print/*", "http://h.test/a/print/1"),
    ("/print/*", "http://print/1"),
    ("/a?b=*", "http://h.test/axb=c"),
    ("/a.b", "http://h.test/axb"),
    ("*aa*aa", "http://h.test/aaa"),
    ("/A", "http://h.test/a"),
]


@pytest.mark.parametrize(("text", "href"), MATCHES)
def test_matches(text: str, href: str) -> None:
    assert Pattern(text).matches(href)


@pytest.mark.parametrize(("text", "href"), MISSES)
def test_misses(text: str, href: str) -> None:
    assert not Pattern(text).matches(href)


@pytest.mark.parametrize(
    "text",
    [
        *("", "*.pdf #", "*#top", "*ü*", "example.com/*", "ftp://h.test/*", "http://h.test", "http://H.test/*"),
        *("http://me@h.test/*", "http://h.test:80/*", "http:///*", "*%2*", "*100%", "/page/{1-50}", "/{50..1}"),
        *(
            "/a1{2..3}",
            "/{1..9999999999999999999}",
            "/{a}",
            "{?}",
            "{?a&b}",
            "/a{?b}*",
            "/a?c{?b}",
            "re:(a",
            "re:(?=a)",
        ),
    ],
)
def test_a_pattern_that_no_url_can_match_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        Pattern(text)


# Few characters, so that pieces repeat: that is where taking the first place could go wrong.
paths = st.text("ab/?.", max_size=12).map(lambda text: "/" + text)
globs = st.text("ab/?.*", max_size=10).map(lambda text: "/" + text)


@given(globs, paths)
def test_a_pattern_means_what_the_regular_expression_means(text: str, path: str) -> None:
    meant = re.compile(".*".join(map(re.escape, text.split("*"))), re.S)
    # An empty query is not a part of a URL's identity.
    one = path[:-1] if path.find("?") == len(path) - 1 else path
    assert Pattern(text).matches("http://h.test" + path) == bool(meant.fullmatch(one))


# What is hard: numbers beside each other, beside wildcards, and where two pieces could meet.
ranges = st.sampled_from(("{0..0}", "{1..9}", "{1..20}", "{12..120}"))
ranged = st.lists(
    st.one_of(
        ranges,
        st.sampled_from(("*", "a", "1", "/", "a/")),
    ),
    max_size=7,
).map(lambda parts: "/" + "".join(parts))
numbered = st.text("a/012", max_size=12).map(lambda text: "/" + text)
_TOKEN = re.compile(r"\{(\d+)\.\.(\d+)\}|.", re.S)


def naive(tokens: list[re.Match[str]], text: str, at: int = 0) -> bool:
    """Whether the rest of a text matches: all ways are tried."""
    if not tokens:
        return at == len(text)
    token, rest = tokens[0], tokens[1:]
    if token[0] == "*":
        return any(naive(rest, text, end) for end in range(at, len(text) + 1))
    if token[1] is None:
        return text[at : at + 1] == token[0] and naive(rest, text, at + 1)
    whole = [found.span() for found in re.finditer(r"\d+", text)]
    return any(
        start == at and int(token[1]) <= int(text[start:end]) <= int(token[2]) and naive(rest, text, end)
        for start, end in whole
    )


@given(ranged, numbered)
def test_a_number_range_means_what_trying_all_ways_means(text: str, path: str) -> None:
    try:
        pattern = Pattern(text)
    except PatternError:
        assert re.search(r"[0-9}]\{|\}[0-9{]", text)  # something touches a range
        return
    assert pattern.matches("http://h.test" + path) == naive(list(_TOKEN.finditer(text)), path)


@given(globs, globs, paths)
def test_what_is_covered_is_matched(one: str, other: str, path: str) -> None:
    wide, narrow = Pattern(one), Pattern(other)
    href = "http://h.test" + path
    if wide.covers(narrow) and narrow.matches(href):
        assert wide.matches(href)


def test_a_hostile_url_takes_no_longer_than_its_length_asks_for() -> None:
    """Sixty wildcards on a long URL: as a regular expression this would not end in a lifetime."""
    pattern = Pattern("*" + "a*" * 60 + "b")
    assert not pattern.matches("http://h.test/" + "a" * 100_000)


@pytest.mark.parametrize("text", ["*" + "a{1..2}*" * 60 + "b", "{?" + "a*" * 60 + "b}", "re:(a*)*b$"])
@pytest.mark.parametrize("tail", ["a1" * 50_000, "?" + "a" * 100_000, "&a" * 50_000, "1" * 100_000])
def test_nor_does_a_range_a_condition_or_an_expression(text: str, tail: str) -> None:
    assert not Pattern(text).matches("http://h.test/" + tail)


def test_a_regular_expression_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(PatternError, match="re2"):
        Pattern("re:a")
