"""The settings of one host: which [[site]] tables match it, and which of them counts."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings import HostSettings, Settings, SettingsError, Sites, settings_from

MATCHES: list[tuple[str, str, bool]] = [
    ("example.org", "example.org:443", True),
    ("example.org", "example.org:8080", True),
    ("example.org", "www.example.org:80", False),
    ("*.example.org", "example.org:80", True),
    ("*.example.org", "a.b.example.org:80", True),
    ("*.example.org", "badexample.org:80", False),
    ("example.org:8080", "example.org:8080", True),
    ("example.org:8080", "example.org:80", False),
    ("https://example.org", "example.org:443", True),
    ("https://example.org", "example.org:80", False),
    ("https://*.example.org", "a.example.org:443", True),
    ("http://example.org:8080", "example.org:8080", True),
    ("[::1]", "[::1]:80", True),
    ("[::1]:80", "[::1]:81", False),
    ("127.0.0.1", "127.0.0.1:80", True),
]


def settings(*tables: dict[str, Any]) -> Settings:
    return settings_from({"site": list(tables)}, "crawl.toml")


def of(host: str, *tables: dict[str, Any]) -> HostSettings:
    return Sites(settings(*tables)).of_host(host)


@pytest.mark.parametrize(("match", "host", "matches"), MATCHES)
def test_what_a_table_is_about(match: str, host: str, matches: bool) -> None:
    assert of(host, {"match": match, "delay": 7}).politeness.delay == (7.0 if matches else 1.0)


def test_a_scheme_counts_where_it_is_known() -> None:
    sites = Sites(settings({"match": "https://a.org:8080", "proxy": "direct"}))
    assert sites.way_of("https", "a.org", "8080")
    assert not sites.way_of("http", "a.org", "8080")


def test_the_last_table_that_has_a_key_counts() -> None:
    tables = (
        {"match": "*.example.org", "delay": 10, "per_host": 2},
        {"match": "www.example.org", "delay": 0},
        {"match": "*.org", "host_pages": 5},
    )
    www, other, far = (of(host, *tables) for host in ("www.example.org:80", "example.org:80", "a.com:80"))
    assert (www.politeness.delay, www.politeness.per_host, www.budget.host_pages) == (0.0, 2, 5)
    assert (other.politeness.delay, other.politeness.per_host) == (10.0, 2)
    assert far == HostSettings(Settings().politeness, Settings().fetch, Settings().budget, Settings().robots)


def test_hosts_with_the_same_tables_share_their_settings() -> None:
    sites = Sites(settings({"match": "*.org", "delay": 2}))
    assert sites.of_host("a.org:80") is sites.of_host("b.org:443")


def test_memory_is_bounded() -> None:
    sites = Sites(settings({"match": "*.org", "delay": 2}), remembered=2)
    assert [sites.of_host(f"{name}.org:80").politeness.delay for name in "abcabc"] == [2.0] * 6


NAMES = st.lists(st.sampled_from(["a", "b", "www"]), min_size=1, max_size=3).map(".".join)


@given(st.lists(st.tuples(st.booleans(), NAMES, st.integers(0, 9)), max_size=6), NAMES)
def test_the_index_finds_what_a_look_at_each_table_finds(tables: list[tuple[bool, str, int]], name: str) -> None:
    stated = [{"match": ("*." if below else "") + match, "delay": delay} for below, match, delay in tables]
    expected = 1.0
    for below, match, delay in tables:
        if name == match or (below and name.endswith(f".{match}")):
            expected = float(delay)
    assert of(f"{name}:80", *stated).politeness.delay == expected


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"match": "/news/*", "delay": 1}, "site.delay belongs to a host, and match = '/news/*' is a pattern of URLs"),
        ({"match": "https://a.org/", "per_host": 1}, 'its own, as in match = "https://a.org"'),
        ({"match": "a.org", "login": "env:LOGIN"}, "site.login is a secret: write the scheme too"),
        ({"match": "a.org", "headers": ["Authorization: Bearer hush"]}, "site.headers is a secret"),
        ({"match": "a.org", "headers": ["X-Key: env:KEY"]}, "site.headers is a secret"),
        ({"match": "A.org"}, "site.match must be in small letters: a.org"),
        ({"match": "a.org/"}, "site.match must have no slash at its end: a.org"),
        ({"match": "*.1.2.3.4"}, "site.match must not have *. in front of an address"),
        ({"delay": 1}, 'site 1 has no match: add one, as in match = "example.org"'),
        ({"match": "a.org", "dealy": 1}, "unknown key site.dealy (did you mean 'delay'?)"),
        ({"match": "a.org", "delay": -1}, "site.delay must be at least 0"),
        ({"match": "a.org", "per_host": 65}, "site.per_host (65) is larger than crawl.concurrency (64)"),
        ({"match": "a.org", "priority": 8}, "site.priority must be at most 7"),
        ({"match": "a.org", "interval": 5, "min_interval": 1}, "leave out the other intervals"),
        ({"match": "a.org", "min_interval": 5, "max_interval": 1}, "site.min_interval (5) is larger than"),
    ],
)
def test_tables_that_are_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings(table)
    assert words in str(error.value)
    assert str(error.value).startswith("crawl.toml: ")
    assert "hush" not in str(error.value)


def test_many_tables_are_read_with_few_steps_for_each() -> None:
    """Finding out what types the keys of a table have took 1,600 calls for each table."""

    def calls(tables: int) -> int:
        made = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal made
            made += event == "call"

        stated = [{"match": f"h{number}.org", "delay": 2} for number in range(tables)]
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            settings(*stated)
        finally:
            sys.setprofile(before)
        return made

    calls(1)
    assert (calls(60) - calls(10)) / 50 < 100


def test_an_unencrypted_secret_must_be_meant() -> None:
    stated = settings({"match": "http://*.a.org", "login": "env:LOGIN"}, {"match": "a.org", "headers": ["X-Lang: de"]})
    assert len(stated.site.tables) == 2
