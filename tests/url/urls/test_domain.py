"""The registrable domain, against the package that ships the list."""

from __future__ import annotations

import functools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from publicsuffixlist import PSLFILE, PublicSuffixList

from crawler.url.urls.domain import domain_of_key, registrable_domain


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
