"""The settings of one host: which [[site]] tables match it, and which of them counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import HostSettings, Sites

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


def test_the_last_table_that_has_a_key_counts() -> None:
    tables = (
        {"match": "*.example.org", "delay": 10, "per_host": 2},
        {"match": "www.example.org", "delay": 0},
        {"match": "*.org", "host_pages": 5},
    )
    www, other, far = (of(host, *tables) for host in ("www.example.org:80", "example.org:80", "a.com:80"))
    assert (www.politeness.delay, www.politeness.per_host, www.budget.host_pages) == (0.0, 2, 5)
    assert (other.politeness.delay, other.politeness.per_host) == (10.0, 2)
    plain = Settings()
    assert far == HostSettings(plain.politeness, plain.fetch, plain.budget, plain.robots, plain.browser)


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
    ("table", "named"),
    [
        ({"match": "/news/*", "delay": 1}, "site.delay"),
        ({"match": "a.org", "login": "env:LOGIN"}, "site.login"),
        ({"match": "a.org", "headers": ["Authorization: Bearer hush"]}, "site.headers"),
        ({"match": "A.org"}, "site.match"),
        ({"match": "*.1.2.3.4"}, "site.match"),
        ({"delay": 1}, "match"),
        ({"match": "a.org", "dealy": 1}, "site.dealy"),
        ({"match": "a.org", "per_host": 65}, "site.per_host"),
        ({"match": "a.org", "min_interval": 5, "max_interval": 1}, "site.min_interval"),
    ],
)
def test_tables_that_are_refused(table: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings(table)
    assert str(error.value).startswith("crawl.toml: ")
    assert named in str(error.value)
    assert "hush" not in str(error.value)


def test_an_unencrypted_secret_must_be_meant() -> None:
    stated = settings({"match": "http://*.a.org", "login": "env:LOGIN"}, {"match": "a.org", "headers": ["X-Lang: de"]})
    assert len(stated.site.tables) == 2
