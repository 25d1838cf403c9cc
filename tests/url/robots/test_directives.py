"""Robots directives of headers and pages: who is meant, what separates them, and until when a page is there."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url.robots.directives import directives, forbids_links

NOW = 1_700_000_000.0  # 2023-11-14


def of_headers(*values: str, agent: str = "crawler") -> tuple[str, ...]:
    return directives(values, (), agent, NOW)


def of_page(*metas: tuple[str, str], agent: str = "crawler") -> tuple[str, ...]:
    return directives((), metas, agent, NOW)


SEPARATED = [
    ("noindex", ("noindex",)),
    ("noindex,nofollow", ("noindex", "nofollow")),
    ("NoIndex , NOFOLLOW", ("noindex", "nofollow")),
    ("noindex nofollow", ("noindex", "nofollow")),
    ("noindex;nofollow\tnoarchive", ("noindex", "nofollow", "noarchive")),
    (" ,, noindex ,", ("noindex",)),
    ("none", ("none",)),
    ("noindex, noindex", ("noindex",)),
    ("all", ()),
    ("index, follow", ()),
    ("index, follow, noarchive", ("noarchive",)),
    ("max-snippet: 50, max-image-preview:large", ("max-snippet:50", "max-image-preview:large")),
    ("max-snippet:-1", ("max-snippet:-1",)),
    ("nöindex, <b>, noindex", ("noindex",)),
    ("", ()),
]


@pytest.mark.parametrize(("value", "names"), SEPARATED)
def test_what_separates_directives(value: str, names: tuple[str, ...]) -> None:
    assert of_page(("robots", value)) == names
    assert of_headers(value) == names


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["crawler: noindex"], ("noindex",)),
        (["Crawler: noindex, nofollow"], ("noindex", "nofollow")),
        (["otherbot: noindex, nofollow"], ()),
        (["otherbot: noindex", "nofollow"], ("nofollow",)),
        (["otherbot: noindex, nofollow, crawler: noarchive"], ("noarchive",)),
        (["noarchive, otherbot: noindex"], ("noarchive",)),
        (["crawler: noindex, otherbot: nofollow"], ("noindex",)),
        (["otherbot:"], ()),
        (["*: noindex"], ("noindex",)),
        (["robots: noindex"], ("noindex",)),
        (["max-snippet: 5, noindex"], ("max-snippet:5", "noindex")),
        (["noindex", "nofollow"], ("noindex", "nofollow")),
        (["otherbot: unavailable_after: 25 Jun 2010 15:00:00 GMT, noindex"], ()),
        (["crawler: unavailable_after: 25 Jun 2030 15:00:00 GMT"], ("unavailable_after:2030-06-25T15:00:00Z",)),
    ],
)
def test_headers_name_crawlers(values: list[str], names: tuple[str, ...]) -> None:
    assert of_headers(*values) == names


@pytest.mark.parametrize(
    ("metas", "names"),
    [
        ([("robots", "noindex")], ("noindex",)),
        ([("ROBOTS", "NOINDEX")], ("noindex",)),
        ([("crawler", "noindex")], ("noindex",)),
        ([("CRAWLER", "noindex")], ("noindex",)),
        ([("googlebot", "noindex")], ()),
        ([("robots", "noindex"), ("crawler", "nofollow")], ("noindex", "nofollow")),
        ([("description", "noindex"), ("robots", "none")], ("none",)),
        ([("robots", "otherbot: noindex")], ("otherbot:noindex",)),  # no names of crawlers in there
    ],
)
def test_pages_name_crawlers(metas: list[tuple[str, str]], names: tuple[str, ...]) -> None:
    assert of_page(*metas) == names


DATES = [
    "25 Jun 2010 15:00:00 GMT",
    "Fri, 25 Jun 2010 15:00:00 GMT",
    "Friday, 25-Jun-10 15:00:00 GMT",
    "25-Jun-2010 15:00:00 GMT",
    "25 Jun 2010 08:00:00 PDT",
    "2010-06-25T15:00:00Z",
    "2010-06-25T17:00:00+02:00",
    "2010-06-25 15:00:00",
]


@pytest.mark.parametrize("after", ["", ", noarchive", " noarchive", ",noarchive"])
@pytest.mark.parametrize("date", DATES)
def test_dates(date: str, after: str) -> None:
    wanted = ("unavailable_after:2010-06-25T15:00:00Z", *(["noarchive"] if after else []), "noindex")
    assert of_page(("robots", f"unavailable_after: {date}{after}")) == wanted
    assert of_headers(f"Unavailable_After:{date}{after}") == wanted


@pytest.mark.parametrize("date", ["soon", "", "2010-13-45", "25 Jun 99999999999999999999 15:00:00 GMT", "0001-01-01"])
def test_what_is_no_date(date: str) -> None:
    assert of_headers(f"unavailable_after: {date}, nofollow")[:1][0].startswith("unavailable_after")
    assert "nofollow" in of_headers(f"unavailable_after: {date}, nofollow")


@pytest.mark.parametrize(
    ("names", "forbidden"),
    [((), False), (("noindex",), False), (("nofollow",), True), (("none",), True), (("noindex", "nofollow"), True)],
)
def test_which_forbid_links(names: tuple[str, ...], forbidden: bool) -> None:
    assert forbids_links(names) is forbidden


@pytest.mark.parametrize("piece", ["noindex,", "unavailable_after:", "unavailable_after: Mon, ", "a:", " ", ",", "x"])
def test_much_of_it_costs_little(piece: str) -> None:
    started = time.process_time()
    found = directives([piece * 100_000] * 1_000, [("robots", piece * 100_000)] * 1_000, "crawler", NOW)
    assert time.process_time() - started < 1
    assert len(found) <= 33
    assert all(len(name) <= 60 for name in found)


VALUES = st.text("noindexflw ,:;*-_unavilbe_after2010JT\té") | st.sampled_from(
    [f"unavailable_after: {date}" for date in DATES]
)


@given(st.lists(VALUES), st.lists(st.tuples(st.sampled_from(["robots", "crawler", "x"]), VALUES | st.text())))
def test_no_text_makes_it_fail(headers: list[str], metas: list[tuple[str, str]]) -> None:
    found = directives(headers, metas, "crawler", NOW)
    assert len(set(found)) == len(found)
    assert all(name.isascii() and name == name.strip() for name in found)
