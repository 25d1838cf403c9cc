"""One hop off the site: which pages are fetched, over redirects, restarts, sitemaps and retries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import LinkSettings, RobotsSettings, Settings
from crawler.frontier.entry import Entry, decode_entry, encode_entry
from crawler.job.recovery import stored_counters
from crawler.web.fetch import Response
from tests.jobs import findings
from tests.laboratory import SETTINGS, Laboratory, links
from tests.simulated_web import redirect

HOME = "http://a.test/"
OUT, FAR, FARTHER = "http://b.test/", "http://c.test/", "http://d.test/"


def settings(hops: int = 0, **tables: Any) -> Settings:
    crawl = replace(SETTINGS.crawl, scope="host", hops_outside=hops, **tables.pop("crawl", {}))
    return replace(SETTINGS, crawl=crawl, **tables)


def web() -> dict[str, Any]:
    """The site links to B and back, and B to C; C to D."""
    return {
        HOME: links([f"{HOME}in", OUT]),
        f"{HOME}in": links([f"{OUT}two"]),
        f"{HOME}back": links([f"{OUT}three"]),
        OUT: links([f"{HOME}back", f"{OUT}one", FAR]),
        f"{OUT}one": "<p>one",
        f"{OUT}two": "<p>two",
        f"{OUT}three": "<p>three",
        FAR: links([FARTHER, f"{HOME}back"]),
        FARTHER: links([f"{FARTHER}a"]),
        f"{FARTHER}a": "<p>last",
    }


NONE = {HOME, f"{HOME}in"}
ONE = NONE | {OUT, f"{OUT}two", f"{HOME}back", f"{OUT}three"}
TWO = ONE | {FAR, f"{OUT}one"}


def crawled(lab: Laboratory) -> dict[str, int]:
    assert findings(lab.directory, lab.store, stored_counters(lab.store)) == []
    return {record["url"]: record.get("hops_outside", 0) for record in lab.records()}


@pytest.mark.parametrize(("hops", "pages"), [(0, NONE), (1, ONE), (2, TWO)])
def test_links_outward_are_followed_so_far_and_not_beyond(tmp_path: Path, hops: int, pages: set[str]) -> None:
    lab = Laboratory(tmp_path, web(), settings(hops))
    lab.run(HOME)
    found = crawled(lab)
    assert set(found) == pages
    assert {href: far for href, far in found.items() if far} == {
        href: 1 + href.startswith((FAR, f"{OUT}one")) for href in pages if not href.startswith(HOME)
    }


@pytest.mark.parametrize("pages_a_run", [1, 4])
def test_a_hop_is_the_same_over_restarts(tmp_path: Path, pages_a_run: int) -> None:
    lab = Laboratory(tmp_path, web(), settings(1))
    lab.run(HOME)
    whole = crawled(lab)
    again = Laboratory(tmp_path / "again", web(), settings(1))
    for number in range(1, 7):
        again.settings = settings(1, crawl={"max_pages": pages_a_run * number})
        again.run(HOME)
    assert crawled(again) == whole


def test_a_larger_number_of_hops_brings_back_what_was_left_out(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, web(), settings())
    for hops, pages in enumerate((NONE, ONE, TWO)):
        lab.settings = settings(hops)
        lab.run(HOME)
        assert set(crawled(lab)) == pages
    asked = len(lab.asked)
    lab.run(HOME)
    assert len(lab.asked) == asked
    visits = Counter(record["url"] for record in lab.records())
    assert visits[f"{OUT}two"] == 1, "nothing was left out there"
    assert visits[OUT] == 2


def test_a_redirect_off_the_site_is_a_hop_and_one_out_there_is_none(tmp_path: Path) -> None:
    pages = {
        HOME: links([f"{HOME}out", "http://b.test/old", f"{HOME}far"]),
        f"{HOME}out": redirect(OUT),
        OUT: links([FAR]),
        "http://b.test/old": redirect("http://www.b.test/"),
        "http://www.b.test/": links([FAR]),
        f"{HOME}far": redirect("http://e.test/"),
        "http://e.test/": redirect(f"{HOME}home"),
        f"{HOME}home": links(["http://f.test/"]),
        "http://f.test/": "<p>f",
    }
    lab = Laboratory(tmp_path, pages, settings(1))
    lab.run(HOME)
    found = crawled(lab)
    assert set(found) == set(pages)
    assert {href for href, far in found.items() if far} == {href for href in pages if not href.startswith(HOME)}


def test_what_a_sitemap_of_the_site_lists_elsewhere_is_a_hop(tmp_path: Path) -> None:
    listed = f"<urlset><url><loc>{OUT}</loc></url><url><loc>{HOME}in</loc></url></urlset>".encode()
    out = f"<urlset><url><loc>{FAR}</loc></url><url><loc>{HOME}in2</loc></url></urlset>".encode()

    pages = {
        HOME: links([f"{HOME}sitemap.xml", f"{OUT}sitemap.xml"]),
        f"{HOME}sitemap.xml": sitemap(listed),
        f"{OUT}sitemap.xml": sitemap(out),
        OUT: "<p>b",
        f"{HOME}in": "<p>in",
        f"{HOME}in2": "<p>in2",
        FAR: "<p>far",
    }
    lab = Laboratory(tmp_path, pages, settings(1))
    lab.run(HOME)
    assert set(crawled(lab)) == set(pages) - {FAR}


def sitemap(body: bytes, kind: str = "text/xml") -> Response:
    return Response(200, {}, kind, None, body, None, None, 0.0, len(body))


def test_a_sitemap_that_robots_txt_names_is_read_on_any_host(tmp_path: Path) -> None:
    def listed(*urls: str, of: str = "urlset", each: str = "url") -> Response:
        return sitemap(f"<{of}>{''.join(f'<{each}><loc>{url}</loc></{each}>' for url in urls)}</{of}>".encode())

    named = [f"{OUT}index.xml", f"{OUT}moved.xml", f"{FAR}page.xml", f"{FAR}no/map.xml", f"{HOME}gone.xml"]
    read = {
        HOME: links([f"{FARTHER}"]),
        f"{OUT}index.xml": listed(f"{OUT}one.xml", f"{FARTHER}two.xml", of="sitemapindex", each="sitemap"),
        f"{OUT}one.xml": listed(f"{HOME}1", f"{OUT}no"),
        f"{OUT}moved.xml": redirect(f"{FARTHER}three.xml"),
        f"{FARTHER}three.xml": listed(f"{HOME}3", f"{FARTHER}no"),
        f"{FAR}page.xml": sitemap(b"<!doctype html><html><p>no map", "text/html"),
        **{f"{HOME}{number}": "<p>in" for number in "13"},
    }
    texts = {
        HOME: "".join(f"Sitemap: {url}\n" for url in named),
        FAR: f"User-agent: *\nDisallow: /no\nSitemap: {OUT}no",
    }
    robots = {f"{host}robots.txt": sitemap(text.encode(), "text/plain") for host, text in texts.items()}
    lab = Laboratory(tmp_path, {**read, **robots}, settings(robots=RobotsSettings()))
    lab.run(HOME)
    crawled(lab)
    errors = {record["url"]: record["error"] for record in lab.records()}
    assert errors.keys() == read.keys() | set(named)
    assert f"{FARTHER}two.xml" in errors[f"{OUT}index.xml"]
    wrong = {f"{OUT}index.xml", f"{FAR}page.xml", f"{FAR}no/map.xml", f"{HOME}gone.xml"}
    assert {url for url, error in errors.items() if error is not None} == wrong
    tables = {"robots": RobotsSettings(), "links": LinkSettings(sitemaps=False)}
    left_alone = Laboratory(tmp_path / "alone", {**read, **robots}, settings(**tables))
    left_alone.run(HOME)
    assert set(crawled(left_alone)) == {HOME}


@pytest.mark.parametrize("reach", [0, 3])
def test_the_reach_is_stored_with_an_entry(reach: int) -> None:
    entry = Entry(HOME, 3, FAR, True, 1, 2, 3, 4, 0.5, True, True, 3, True, reach)
    assert decode_entry(encode_entry(entry)) == entry
