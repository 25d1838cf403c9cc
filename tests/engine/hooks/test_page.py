"""What code of the user reads of a page: its text, its data, its elements and its links."""

from __future__ import annotations

import pytest

from crawler.engine.hooks.page_view import Page, PageFacts
from crawler.web.extract.main_text import extract
from crawler.web.extract.page_text import Forms

URL = "http://h.test/docs/page"
SHOP = f"""<html><head><title> A
shop</title><base href="/d/"></head><body><nav><a href=/x rel="NoFollow up">Other things</a></nav>
<article><h1>Größe</h1><p>{"Viel Text über Wale. " * 20}<a href="q?ü=1#part">Two  words</a></p>
<p class=price data-currency=EUR>9.50</p><img src=i.png></article>
<script type="application/ld+json">{{"@type": "Product", "name": "Wal"}}</script></body></html>"""


def page(body: bytes, kind: str = "text/html", links: tuple[str, ...] = (), status: int = 200) -> Page:
    facts = PageFacts("a-1", URL, status, (), body, "iso-8859-1", kind, 2, None, links, b'{"url":"x"}')
    return Page(facts, lambda url: url != "http://h.test/d/i.png")


def test_a_page_of_html() -> None:
    shop = page(SHOP.encode("latin-1"))
    assert (shop.title, shop.html) == ("A shop", SHOP)
    told = extract(SHOP, URL, Forms.TEXT | Forms.MARKDOWN)
    assert (shop.text, shop.markdown) == (told.text, told.markdown), "as the outputs of these names"
    assert "über Wale" in shop.text
    assert "Other things" not in shop.text
    assert "[Two words](http://h.test/d/q?" in " ".join(shop.markdown.split())
    assert shop.structured["json_ld"] == [{"@type": "Product", "name": "Wal"}]
    assert [float(node.text()) for node in shop.css("article .price")] == [9.5]
    price = shop.css_first(".price")
    assert price is not None
    assert price.attributes["data-currency"] == "EUR"
    assert shop.css_first(".none") is None


def test_links_have_the_text_and_the_rel_of_their_elements() -> None:
    urls = ("http://h.test/x", "http://h.test/d/q?%FC=1", "http://h.test/d/i.png", "http://h.test/of-a-header")
    shop = page(SHOP.encode("latin-1"), links=urls)
    assert tuple(link.url for link in shop.links) == urls
    assert [(link.text, link.rel, link.kind) for link in shop.links] == [
        ("Other things", "nofollow up", "a"),
        ("Two words", "", "a"),  # its query is sent as browsers send that of a page in windows-1252
        ("", "", "img"),
        ("", "", "header"),
    ]
    assert {(link.page, link.depth) for link in shop.links} == {(URL, 3)}
    assert [bool(shop.follow(link)) for link in shop.links[1:3]] == [True, False]
    assert shop.followed == urls[1:3]
    (moved,) = page(b"", links=("http://h.test/y",), status=301).links
    assert moved.kind == "redirect"


@pytest.mark.parametrize("body", [b"", b"<html", b"<title></title>", b"\xff\x00<p>"])
def test_a_page_without_anything(body: bytes) -> None:
    empty = page(body)
    assert (empty.title, empty.structured, empty.css("a"), empty.links) == (None, {}, [], [])
    assert len(empty.text) + len(empty.markdown) <= 2 * len(body)


@pytest.mark.parametrize("head", ["", "<title>\nA  page</title>"])
def test_the_title_of_a_drawing_is_not_that_of_the_page(head: str) -> None:
    assert page(f"<svg><title>Menu</title></svg>{head}".encode()).title == ((head and "A page") or None)


def test_other_types_are_text_as_they_are() -> None:
    data = page(b'{"price": [9.5]}', "application/json")
    assert data.json() == {"price": [9.5]}
    assert data.text == data.markdown == data.html == '{"price": [9.5]}'
    assert (data.structured, data.title, data.links) == ({}, None, [])
    with pytest.raises(ValueError, match="Expecting"):
        page(b"<p>").json()
    with pytest.raises(ValueError, match="recursion"):
        page(b"[" * 100_000).json()
    written = page(b"# Title\n[to b](/b)", "text/markdown", ("http://h.test/b",))
    assert written.markdown == "# Title\n[to b](/b)"
    assert [(link.url, link.text) for link in written.links] == [("http://h.test/b", "to b")]
