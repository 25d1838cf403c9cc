"""The project's own cases, kept as data: one file for each part of canonicalisation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.url.urls.host_key import host_key, host_name, surt
from crawler.url.urls.normalising_steps import drop_userinfo, identity
from crawler.url.urls.whatwg import Rejected


def cases(name: str) -> list[Any]:
    rows = json.loads((Path(__file__).parent / "cases" / f"{name}.json").read_text())["cases"]
    return [pytest.param(row, id=row.get("name") or row.get("before") or row.get("href")) for row in rows]


@pytest.mark.parametrize("case", cases("parse"))
def test_text_and_base_give_the_href(case: dict[str, Any]) -> None:
    base = case.get("base")
    got = Canonicaliser().canonicalise(case["text"], base)
    if case["href"] is None:
        assert isinstance(got, Rejected)
        assert got.reason == case.get("reason", got.reason)
    else:
        assert not isinstance(got, Rejected)
        assert got.href == case["href"]


@pytest.mark.parametrize("case", cases("key"))
def test_href_gives_the_key(case: dict[str, Any]) -> None:
    got = Canonicaliser().canonicalise(case["href"])
    assert got == (drop_userinfo(case["href"]), case["key"])
    assert identity(case["href"]) == case["key"]


@pytest.mark.parametrize("case", cases("rules"))
def test_rules_change_the_key_alone(case: dict[str, Any]) -> None:
    got = Canonicaliser(case["rules"]).canonicalise(case["before"])
    assert got == (case["before"], case["after"])


@pytest.mark.parametrize("case", cases("host"))
def test_server_names(case: dict[str, Any]) -> None:
    assert host_key(case["href"]) == case["host_key"]
    assert host_name(case["href"]) == case["host_name"]
    assert surt(case["href"]) == case["surt"]
