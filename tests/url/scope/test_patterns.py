"""Patterns: what they match, that they take no longer than they must, and what is said of those that match nothing."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url.scope import Pattern, PatternError

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
    ("text", "words"),
    [
        ("", "empty"),
        ("*.pdf #", "white space"),
        ("*#top", "fragment"),
        ("*ü*", "%-triplets"),
        ("example.com/*", "begins with http://"),
        ("ftp://h.test/*", "begins with http://"),
        ("http", "begins with http://"),
        ("http://h.test", "http://h.test/*"),
        ("http://H.test/*", "lower case"),
        ("http://me@h.test/*", "password"),
        ("http://h.test:80/*", "port :80"),
        ("https://h.test:443/*", "port :443"),
        ("http:///*", "host"),
        ("*%2*", "%25"),
        ("*100%", "%25"),
        ("/page/{1-50}", "{1..50}"),
        ("*/page/{1...50}", "{1..50}"),
        ("/{50..1}", "smaller number comes first"),
        ("/a1{2..3}", "whole number"),
        ("/{2..3}4", "whole number"),
        ("/{2..3}{4..5}", "whole number"),
        ("/{1..9999999999999999999}", "18 digits"),
        ("/{a}", "%7B"),
        ("{?}", "names no parameter"),
        ("{?a&b}", "braces of its own"),
        ("/a{?b}*", "comes last"),
        ("/a?c{?b}", "comes no query"),
        ("{?page=9..1}", "smaller number comes first"),
        ("re:", "write *"),
        ("re:(a", "missing )"),
        ("re:(?=a)", "(?="),
    ],
)
def test_a_pattern_that_no_url_can_match_is_refused_and_told_why(text: str, words: str) -> None:
    with pytest.raises(PatternError) as error:
        Pattern(text)
    assert words in str(error.value)


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


parameters = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("", "1", "12", "x1"))), max_size=4)


@given(parameters, st.sampled_from("abc"), st.sampled_from((None, "", "*", "1*", "1..9")))
def test_a_condition_looks_at_each_parameter(query: list[tuple[str, str]], key: str, value: str | None) -> None:
    href = "http://h.test/?" + "&".join(f"{name}={text}" for name, text in query)
    tests = {None: r".*", "": "", "*": ".*", "1*": "1.*", "1..9": "[1-9]"}
    meant = any(name == key and re.fullmatch(tests[value], text) for name, text in query)
    assert Pattern(f"{{?{key}}}" if value is None else f"{{?{key}={value}}}").matches(href) == meant


@given(globs, st.one_of(ranged, globs.map(lambda text: text.partition("?")[0] + "{?a}")), paths | numbered)
def test_what_is_covered_is_matched_whatever_the_form(one: str, other: str, path: str) -> None:
    try:
        wide, narrow = Pattern(one), Pattern(other)
    except PatternError:
        return
    href = "http://h.test" + path
    if wide.covers(narrow) and narrow.matches(href):
        assert wide.matches(href)


@given(globs, globs, paths)
def test_what_is_covered_is_matched(one: str, other: str, path: str) -> None:
    wide, narrow = Pattern(one), Pattern(other)
    href = "http://h.test" + path
    if wide.covers(narrow) and narrow.matches(href):
        assert wide.matches(href)


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [
        ("*", "http://h.test/*", True),
        ("*", "/a", True),
        ("*.pdf", "/docs/*.pdf", True),
        ("/docs/*", "http://h.test/docs/a*", True),
        ("/*", "*.pdf", True),
        ("/docs/*", "*docs/*", False),
        ("http://h.test/*", "/a", False),
        ("*.pdf", "*.pd*", False),
        ("/a*", "/a*b*", True),
        ("/page/*", "/page/{1..5}", True),
        ("/docs/*", "/docs/*{?a}", True),
        ("*.pdf", "*.pdf{?a}", False),
        ("*", "re:a", True),
        ("/*", "{?a}", True),
        ("/page/{1..5}*", "/page/3*", False),
        ("{?a}", "{?a}", True),
    ],
)
def test_covering(wide: str, narrow: str, covers: bool) -> None:
    assert Pattern(wide).covers(Pattern(narrow)) is covers


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
    with pytest.raises(PatternError, match=r"pip install google-re2"):
        Pattern("re:a")
