"""Patterns of URLs, and paths that no site has."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.traps.shape import odd_shape, split_path, variants_of


@pytest.mark.parametrize(
    ("target", "pattern"),
    [
        ("/", None),
        ("/docs/a-b_c/", None),
        ("/a?", "/a?"),
        ("/page2", "/page#"),
        ("/calendar/2031-02-28?view=week&sid=9f86d081", "/calendar/#-#-#?sid&view"),
        ("/item/550e8400-e29b-41d4-a716-446655440000", "/item/*"),
        ("/v/dQw4w9WgXcQ", "/v/*"),
        ("/covid19/page2", "/covid#/page#"),
        ("/a;jsessionid=A1B2C3D4E5F6A7B8", "/a;jsessionid=*"),
        ("/commit/deadbeef1", "/commit/*"),
        ("/deadbeef", None),
        ("/%D0%9F%D1%80/1", "/%D0%9F%D1%80/#"),
        ("/%D0%9F%D1%80", None),
        ("/s?b=1&a=2&b=3", "/s?a&b"),
        ("/s?a=2;b=1", "/s?a&b"),
        ("/s?p1=x&p2=y", "/s?p#"),
        ("/s?12345", "/s?#"),
    ],
)
def test_patterns(target: str, pattern: str | None) -> None:
    assert variants_of(*split_path(target)) == pattern


@given(st.text("aZ09-_/.;%", max_size=40), st.integers(0, 10**12), st.integers(0, 10**12))
def test_urls_that_differ_in_a_number_alone_have_one_pattern(around: str, one: int, other: int) -> None:
    first, second = (variants_of(f"/{around}/{number}", None) for number in (one, other))
    assert first == second
    assert first is not None


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/a/b/a/b/a/b/a/b", None),
        ("/a/b/a/b/a/b/a/b/a", "traps.max_repeats"),
        ("//////", "traps.max_repeats"),
        ("/" + "/".join(map(str, range(32))), None),
        ("/" + "/".join(map(str, range(33))), "traps.max_segments"),
    ],
)
def test_odd_paths(path: str, limit: str | None) -> None:
    found = odd_shape(path)
    assert (None if found is None else found[0]) == limit


def test_hostile_paths_take_time_linear_in_their_length() -> None:
    """Each of these makes a pattern that tries again quadratic: at this length that would be minutes."""
    for piece in ("a1", "1", "a", "0a-", "%", "deadbeef-"):
        text = "/" + piece * (1_000_000 // len(piece))
        assert re.sub("[0-9]", "#", variants_of(text, None) or text).count("/") == 1
