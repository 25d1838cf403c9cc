"""Patterns: what they match, that they take no longer than they must, and what is said of those that match nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.scope import Pattern, PatternError

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
]
MISSES = [
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
    ],
)
def test_covering(wide: str, narrow: str, covers: bool) -> None:
    assert Pattern(wide).covers(Pattern(narrow)) is covers


def test_a_hostile_url_takes_no_longer_than_its_length_asks_for() -> None:
    """Sixty wildcards on a long URL: as a regular expression this would not end in a lifetime."""
    pattern = Pattern("*" + "a*" * 60 + "b")
    assert not pattern.matches("http://h.test/" + "a" * 100_000)
