"""Public test data of other projects and real links, where a checkout of the data lies beside this one."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.normalising_steps import drop_userinfo
from crawler.url.urls.whatwg import Rejected, requested
from tests.url.urls.made import reference

DATA = Path(__file__).parents[4] / "shared" / "data" / "urls"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the checkout")


def rows(name: str) -> list[dict[str, Any]]:
    with (DATA / name).open() as lines:
        return [json.loads(line) for line in lines]


def href(text: str, base: str | None = None) -> str | None:
    got = Canonicaliser().canonicalise(text, base)
    return None if isinstance(got, Rejected) else got.href


def test_web_platform_tests() -> None:
    cases = rows("wpt_http_cases.jsonl")
    assert len(cases) == 445
    for case in cases:
        expected = None if case["failure"] else requested(case["expected"])
        assert href(case["input"], case["base"]) == expected, case


def test_web_platform_tests_as_links_of_a_page() -> None:
    for case in rows("wpt_http_cases.jsonl"):
        if case["base"] is not None:
            found, rejected = Canonicaliser().outlinks(case["base"], [case["input"]])
            expected = [] if case["failure"] else [requested(case["expected"])]
            assert ([one.href for one in found], rejected) == (expected, len(expected) ^ 1), case


def test_international_hosts() -> None:
    cases = rows("idna_hosts.jsonl")
    wrong = [
        case
        for case in cases
        if href(f"http://{case['host']}/") != (None if case["expected"] is None else f"http://{case['expected']}/")
    ]
    assert len(cases) == 687
    assert len(wrong) <= 7


def test_reference_resolution() -> None:
    for case in rows("rfc3986_5_4.jsonl"):
        assert href(case["input"], case["base"]) == case["expected_href_no_fragment"], case


@pytest.mark.parametrize("path", sorted(DATA.glob("peers/*.jsonl")), ids=lambda path: path.stem)
def test_peers_where_they_agree(path: Path) -> None:
    compared = 0
    for case in rows(f"peers/{path.name}"):
        if case["agrees"] == "no":
            continue
        compared += 1
        got = Canonicaliser().canonicalise(case["input"], case.get("base"))
        if case["expected"] is None:
            assert isinstance(got, Rejected), case
        else:
            assert not isinstance(got, Rejected), case
            # No peer drops credentials from what is fetched.
            asked = got.key if case["agrees"] == "key" else got.href
            assert asked == (case["expected"] if "@" not in case["expected"] else drop_userinfo(case["expected"])), case
    assert compared


def test_real_absolute_links_never_differ_from_the_parser() -> None:
    canonicaliser = Canonicaliser()
    with gzip.open(DATA / "absolute.txt.gz", "rt", newline="\n") as lines:
        for line in lines:
            text = line.rstrip("\n")
            assert canonicaliser.canonicalise(text) == reference(text, None)


def test_real_pages_never_differ_from_the_parser() -> None:
    pages: dict[str, list[str]] = defaultdict(list)
    with gzip.open(DATA / "href_pairs.jsonl.gz", "rt") as lines:
        for line in lines:
            pair = json.loads(line)
            pages[pair["base"]].append(pair["href"])
    canonicaliser = Canonicaliser()
    for base, hrefs in pages.items():
        expected: dict[str, Canonical] = {}
        for text in hrefs:
            if not isinstance(one := reference(text, base), Rejected):
                expected.setdefault(one.key, one)
        assert canonicaliser.outlinks(base, hrefs)[0] == list(expected.values())
