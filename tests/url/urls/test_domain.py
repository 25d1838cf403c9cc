"""The registrable domain, against the package that ships the list."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from publicsuffixlist import PSLFILE, PublicSuffixList

from crawler.url.urls import domain_of_key, registrable_domain


@functools.cache  # reading it takes a while, in every process that collects this file
def the_list() -> PublicSuffixList:
    return PublicSuffixList()


def names() -> list[str]:
    return sorted(
        line.partition(" ")[0].strip().lower().removeprefix("!").removeprefix("*.").encode("idna").decode("ascii")
        for line in Path(PSLFILE).read_text("utf-8").splitlines()
        if line.strip() and not line.startswith("//")
    )


def expected(host: str) -> str:
    return the_list().privatesuffix(host) or host


def test_below_rules_of_the_list() -> None:
    for name in names()[::9]:
        for host in (name, f"a.{name}", f"b.a.{name}", f"c.b.a.{name}"):
            assert domain_of_key(f"{host}:80".encode("ascii")).decode("ascii") == expected(host)


@given(st.lists(st.sampled_from(["a", "www", "com", "uk", "co", "ck", "jp", "kobe", "city", "test", "amazonaws", ""])))
def test_any_labels(labels: list[str]) -> None:
    host = ".".join(["x", *labels])
    assert registrable_domain(host) == expected(host.rstrip("."))
    if "" not in labels:
        assert domain_of_key(f"{host}:443".encode("ascii")).decode("ascii") == expected(host)


@pytest.mark.parametrize("host", ["[::1]", "127.0.0.1", "1.2.3.4", "localhost", "com"])
def test_what_has_no_domain_is_unchanged(host: str) -> None:
    assert registrable_domain(host) == host
    assert domain_of_key(f"{host}:8080".encode("ascii")).decode("ascii") == host


@pytest.mark.parametrize("name", ["http://a.example.com", "a.example.com", "a.example.com:", "a:b:c", "a.b:x"])
def test_what_is_no_host_key_is_a_domain_of_its_own(name: str) -> None:
    assert domain_of_key(name.encode("ascii")) == name.encode("ascii")
