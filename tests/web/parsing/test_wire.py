"""Answers of the parser's process as bytes: whole, in pieces, and from a process that went wrong."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.web.links.about import about
from crawler.web.links.described import Described, without_fragments
from crawler.web.links.extract import PageLinks
from crawler.web.links.sitemap import Listed, SitemapForm
from crawler.web.parsing.wire import (
    SitemapRead,
    decode_links,
    decode_listed,
    decode_sitemap,
    encode_links,
    encode_listed,
    encode_sitemap,
)

REFUSED = (ValueError, msgspec.MsgspecError, RecursionError)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
DESCRIBED = st.builds(
    Described, st.dictionaries(TEXT, TEXT), st.dictionaries(TEXT, TEXT, max_size=3), st.dictionaries(TEXT, TEXT)
)
PAGES = st.builds(
    PageLinks,
    base=st.none() | TEXT,
    hrefs=st.lists(TEXT),
    encoding=st.just("utf-8"),
    truncated=st.booleans(),
    metas=st.lists(st.tuples(TEXT, TEXT)).map(tuple),
    too_long=st.integers(0, 2**40),
    cut=st.none() | TEXT,
    embedded=st.lists(TEXT),
    described=st.none() | DESCRIBED,
    unfollowed=st.lists(TEXT),
    about=st.builds(about, st.none() | TEXT, st.none() | TEXT, st.none() | TEXT),
)


@given(PAGES)
def test_links_come_back(page: PageLinks) -> None:
    assert decode_links([encode_links(page)]) == page


@given(PAGES, st.lists(TEXT, min_size=1, unique=True), st.data())
def test_what_a_page_says_of_all_its_links_comes_back(page: PageLinks, hrefs: list[str], data: st.DataObject) -> None:
    texts = {link: data.draw(TEXT) for link in without_fragments(hrefs)}
    described = Described(texts, of=hrefs)
    back = decode_links([encode_links(replace(page, hrefs=hrefs, described=described))])
    assert back == replace(page, hrefs=hrefs, described=described)
    assert back.described is not None
    assert back.described.of is back.hrefs
    assert list(back.described.texts) == list(texts)


@given(
    st.lists(
        st.builds(Listed, TEXT, st.none() | st.floats(0, 1), st.floats(0, 1e9), st.floats(1e9, 2e9), st.integers(0, 3))
    )
)
def test_the_urls_of_a_sitemap_come_back(listed: list[Listed]) -> None:
    assert decode_listed(encode_listed(listed)) == listed


@pytest.mark.parametrize("form", SitemapForm)
def test_what_else_is_told_of_a_sitemap_comes_back(form: SitemapForm) -> None:
    for limit in (None, "links.max_links", "links.max_sitemap_bytes"):
        read = SitemapRead(form, is_index=True, fault="cut", parts=(b"[]",), limit=limit)
        assert decode_sitemap([b"[]", encode_sitemap(read)]) == read
    with pytest.raises(REFUSED):
        decode_sitemap([encode_sitemap(SitemapRead(form, limit="links.none"))])


def test_what_no_parser_sends_is_refused() -> None:
    page = PageLinks("b", ["x", "x#1"], "utf-8", False)
    said = Described(dict.fromkeys(page.hrefs, "text"), of=page.hrefs)
    for payload in (
        b"",
        b"\xc0",
        b"\x91" * 100_000,
        encode_links(page) + b"z",
        encode_links(page).replace(b"x#1", b"x#\xff"),
        encode_links(replace(page, metas=(("name", 1),))),  # type: ignore[arg-type]
        encode_links(replace(page, described=said)),  # fewer links than texts
    ):
        with pytest.raises(REFUSED):
            decode_links([payload])
    for one in (Listed("x", None, 2.0, 1.0), Listed("x", None, 0.0, float("nan")), Listed("x", None, frequency=4)):
        with pytest.raises(REFUSED):
            decode_listed(encode_listed([one]))
