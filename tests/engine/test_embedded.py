"""Embedded resources of pages: which are fetched, as what, and that nothing is followed from a leaf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import LinkSettings, ScopeSettings, Settings
from crawler.job.recovery import stored_counters
from crawler.web.fetch import Response
from tests.jobs import findings
from tests.laboratory import SETTINGS, Laboratory, links
from tests.simulated_web import redirect

HOME, CDN = "http://a.test/", "http://cdn.test/"
IMAGE = Response(200, {}, "image/png", None, None, None, None, 0.0, 10)


def settings(embedded: str, **tables: Any) -> Settings:
    crawl = replace(SETTINGS.crawl, scope="host", **tables.pop("crawl", {}))
    return replace(SETTINGS, crawl=crawl, links=LinkSettings(embedded=embedded), **tables)


def web() -> dict[str, Any]:
    return {
        HOME: f'<img src=/i.png><script src="{CDN}s.js"></script>' + links([f"{HOME}page", f"{CDN}page"]),
        f"{HOME}i.png": IMAGE,
        f"{CDN}s.js": IMAGE,
        f"{HOME}page": f'<p>page<link rel=stylesheet href="{CDN}moved.css"><object data="{CDN}frame"></object>',
        f"{CDN}moved.css": redirect("http://other.test/new.css"),
        "http://other.test/new.css": IMAGE,
        f"{CDN}frame": "<img src=inner.png>" + links([f"{HOME}only-there"]),
        f"{CDN}page": "<p>cdn page",
        f"{HOME}only-there": "<p>only there",
        f"{CDN}inner.png": IMAGE,
    }


def crawled(lab: Laboratory) -> dict[str, bool]:
    assert findings(lab.directory, lab.store, stored_counters(lab.store)) == []
    return {record["url"]: record.get("embedded", False) for record in lab.records()}


LEAVES = {f"{CDN}s.js", f"{CDN}moved.css", "http://other.test/new.css", f"{CDN}frame"}


@pytest.mark.parametrize(
    ("embedded", "pages"),
    [
        ("off", {HOME, f"{HOME}page"}),
        ("scope", {HOME, f"{HOME}page", f"{HOME}i.png"}),
        ("any", {HOME, f"{HOME}page", f"{HOME}i.png"} | LEAVES),
    ],
)
def test_what_is_embedded_is_fetched_and_leads_no_further(tmp_path: Path, embedded: str, pages: set[str]) -> None:
    lab = Laboratory(tmp_path, web(), settings(embedded))
    lab.run(HOME)
    found = crawled(lab)
    assert set(found) == pages
    assert {href for href, leaf in found.items() if leaf} == LEAVES & pages
    frame = next((record for record in lab.records() if record["url"] == f"{CDN}frame"), None)
    assert frame is None or (frame["links"], frame["content_type"]) == (0, "text/html")


def test_leaves_are_the_same_over_restarts(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, web(), settings("any"))
    for number in range(1, 9):
        lab.settings = settings("any", crawl={"max_pages": number})
        lab.run(HOME)
    assert set(crawled(lab)) == {HOME, f"{HOME}page", f"{HOME}i.png"} | LEAVES


def test_a_page_has_what_it_needs_at_the_last_depth_and_whatever_may_be_included(tmp_path: Path) -> None:
    narrow = ScopeSettings(include=("/page*",), exclude=("*/moved*",))
    lab = Laboratory(tmp_path, web(), settings("any", crawl={"max_depth": 1}, scope=narrow))
    lab.run(HOME)
    assert set(crawled(lab)) == {HOME, f"{HOME}page", f"{HOME}i.png", f"{CDN}s.js", f"{CDN}frame"}


def test_a_page_of_the_site_that_is_embedded_first_is_still_a_page(tmp_path: Path) -> None:
    """An image that is gone often redirects to the home page of a section."""
    pages = {
        HOME: "<img src=/gone.png>" + links([f"{HOME}section/"]),
        f"{HOME}gone.png": redirect(f"{HOME}section/"),
        f"{HOME}section/": links([f"{HOME}section/a"]),
        f"{HOME}section/a": "<p>a",
    }
    lab = Laboratory(tmp_path, pages, settings("any"))
    lab.run(HOME)
    assert crawled(lab) == dict.fromkeys(pages, False)
