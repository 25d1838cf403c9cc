"""Links in headers, as servers and others write them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.headers import LINKS_MOST
from crawler.web.links.headers import header_links as parsed

ALL = LinkSettings()
LINK_KINDS = ALL.kinds


def header_links(links: list[str], refresh: str | None, settings: LinkSettings) -> list[str]:
    return parsed(links, refresh, settings)[0]


@pytest.mark.parametrize(
    ("value", "targets"),
    [
        ('<https://h.test/a>; rel="canonical"', ["https://h.test/a"]),
        ("</a>;rel=next", ["/a"]),
        ("</a>; rel=prev, </b>; rel=previous, </c>; rel=next", ["/a", "/b", "/c"]),
        ('</a>; title="a, b; <c>; rel=next"; rel=next', ["/a"]),
        (r'</a>; title="a \" b"; rel="up NEXT"', ["/a"]),
        ('</a> ; rel = "next" ; type="text/html; charset=utf-8"', ["/a"]),
        ('</a>; rel=alternate; hreflang=de; type="application/rss+xml"', []),
        ('</a.css>; rel=preload; as=style, </a.css>; rel="alternate STYLESHEET", </b>; rel=next', ["/b"]),
        ("</a>; rel=up; rel=next", []),  # the first counts
        ("</a>", []),
        ("</a>; rel", []),
        ("rel=next; </a>", []),
        ("</a>; rel=next; anchor=/other", []),
        ('</a; rel="next"', []),
        ('</a>; rel="next', []),
        ("< /a >; rel=next", ["/a"]),
        ("<>; rel=canonical", [""]),
        ("</a?b=1,2;3>; rel=next", ["/a?b=1,2;3"]),
        ("nonsense, </a>; rel=next", ["/a"]),
    ],
)
def test_link(value: str, targets: list[str]) -> None:
    assert header_links([value], None, ALL) == targets


@pytest.mark.parametrize("kind", ["canonical", "next", "alternate", "refresh"])
def test_each_kind_can_be_switched_off(kind: str) -> None:
    values, refresh = ["</canonical>; rel=canonical, </next>; rel=next, </alternate>; rel=alternate"], "0; url=/refresh"
    kinds = tuple(each for each in LINK_KINDS if each != kind)
    assert f"/{kind}" in header_links(values, refresh, ALL)
    assert f"/{kind}" not in header_links(values, refresh, LinkSettings(kinds=kinds))
    assert header_links(values, refresh, LinkSettings(kinds=(kind,))) == [f"/{kind}"]


@pytest.mark.parametrize(
    "piece", ["<", "<a", "</a>; rel=next, ", '</a>; x="', "</a>;", "<a>;x=\\", '"', ";", ",<a>", '<a>;x="\\"']
)
def test_long_headers_cost_little(piece: str) -> None:
    started = time.process_time()
    found = header_links([piece * 100_000] * 50, f"0; url={piece * 100_000}", ALL)
    assert time.process_time() - started < 1
    assert len(found) <= LINKS_MOST + 1


@given(st.lists(st.text('<>;=", \\relnxt\t/é')), st.text())
def test_any_text_gives_targets(values: list[str], refresh: str) -> None:
    for target in header_links(values, refresh, ALL):
        assert target == target.strip()
