"""The link graph that a crawl keeps: an edge for each link of each page, followed or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.settings.parts import CrawlSettings, LinkSettings, OutputSettings, ScopeSettings
from tests.laboratory import SETTINGS, Laboratory
from tests.outputs import edges_of
from tests.simulated_web import redirect

A, B = "http://a.test", "http://b.test"
KEEPING = replace(SETTINGS, output=OutputSettings(("links",)), crawl=CrawlSettings(scope="host", max_depth=2))


def edges(directory: Path, pages: dict[str, Any], settings: Any = KEEPING) -> dict[str, list[tuple[Any, ...]]]:
    """By path of the page: target, kind, text, rel, and why it is not followed (True if it is)."""
    lab = Laboratory(directory / "job", pages, settings)
    lab.run(f"{A}/")
    keys = ("to", "kind", "text", "rel")
    return {
        url.removeprefix(A): [(*map(row.get, keys), row["in_scope"] or row["why"]) for row in rows]
        for url, rows in edges_of(lab.directory).items()
    }


def test_an_edge_says_what_the_page_says_of_the_link_and_what_becomes_of_it(tmp_path: Path) -> None:
    page = (
        '<a href="/1#part">The  <b>first</b>\n page</a><a href="/1">again</a><area href="/2">'
        f'<a rel="Nofollow  NOOPENER" href="{B}/">\N{SNOWMAN}</a><a href="mailto:x@a.test">mail</a>'
        '<link rel="canonical" href="/"><a href="/private/x">no</a><img src="/i.png"><a href="/a\nb">broken</a>'
    )
    settings = replace(KEEPING, scope=ScopeSettings(exclude=("/private/*",)), links=LinkSettings(embedded="scope"))
    assert edges(tmp_path, {f"{A}/": page}, settings) == {
        "/": [
            (f"{A}/1", "a", "The first page", None, True),
            (f"{A}/2", "area", None, None, True),
            (f"{B}/", "a", "\N{SNOWMAN}", "nofollow noopener", "off_scope"),
            (f"{A}/", "link", None, "canonical", True),
            (f"{A}/private/x", "a", "no", None, "excluded_by_pattern"),
            (f"{A}/ab", "a", "broken", None, True),
            (f"{A}/i.png", "img", None, None, True),
        ]
    }


def test_redirects_are_edges_and_links_that_are_not_followed_too(tmp_path: Path) -> None:
    pages = {
        f"{A}/": '<a href="/moved">moved</a><a href="/away">away</a><a href="/closed">closed</a><a href="/1">deep</a>',
        f"{A}/moved": redirect(f"{A}/1"),
        f"{A}/away": redirect(f"{B}/"),
        f"{A}/closed": '<meta name="robots" content="nofollow"><a href="/never">never</a>',
        f"{A}/1": '<a href="/2">two</a>',
        f"{A}/2": f'<a href="/3">three</a><a href="{B}/">out</a>',
    }
    found = edges(tmp_path, pages)
    assert found["/moved"] == [(f"{A}/1", "redirect", None, None, True)]
    assert found["/away"] == [(f"{B}/", "redirect", None, None, "off_scope")]
    assert found["/closed"] == [(f"{A}/never", "a", "never", None, "nofollow")]
    assert [edge[4] for edge in found["/2"]] == ["too_deep", "too_deep"]
