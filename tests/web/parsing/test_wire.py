"""Answers of the parser's process as bytes: whole, in pieces, and from a process that went wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.web.links.about import about
from crawler.web.links.described import Described, without_fragments
from crawler.web.links.extract import PageLinks
from crawler.web.links.sitemap import Listed, SitemapForm
from crawler.web.parsing.wire import (
    SITEMAP_LIMITS,
    Answers,
    SitemapRead,
    Told,
    WireError,
    answer,
    decode_links,
    decode_listed,
    decode_sitemap,
    encode_links,
    encode_listed,
    encode_sitemap,
)

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
    assert decode_links(encode_links(page)) == page


@given(PAGES, st.lists(TEXT, min_size=1, unique=True), st.data())
def test_what_a_page_says_of_all_its_links_comes_back(page: PageLinks, hrefs: list[str], data: st.DataObject) -> None:
    texts = {link: data.draw(TEXT) for link in without_fragments(hrefs)}
    described = Described(texts, of=hrefs)
    back = decode_links(encode_links(replace(page, hrefs=hrefs, described=described)))
    assert back == replace(page, hrefs=hrefs, described=described)
    assert back.described is not None
    assert back.described.of is back.hrefs
    assert list(back.described.texts) == list(texts)


@given(st.lists(st.tuples(st.sampled_from(Told), st.booleans(), st.binary())), st.integers(1, 40))
def test_answers_come_in_any_pieces(told: list[tuple[Told, bool, bytes]], size: int) -> None:
    stream = b"".join(answer(kind, payload, ends=ends) for kind, ends, payload in told)
    answers, taken = Answers(), list[tuple[Told, bool, bytes]]()
    for at in range(0, len(stream), size):
        answers.add(stream[at : at + size], lambda *one: taken.append(one))
    assert taken == told


@given(
    st.lists(
        st.builds(Listed, TEXT, st.none() | st.floats(0, 1), st.floats(0, 1e9), st.floats(1e9, 2e9), st.integers(0, 3))
    )
)
def test_the_urls_of_a_sitemap_come_back(listed: list[Listed]) -> None:
    assert decode_listed(encode_listed(listed)) == listed


@pytest.mark.parametrize("form", SitemapForm)
def test_what_else_is_told_of_a_sitemap_comes_back(form: SitemapForm) -> None:
    for limit in (None, *SITEMAP_LIMITS):
        read = SitemapRead(form, is_index=True, fault="cut", parts=(b"[]",), limit=limit)
        assert decode_sitemap(encode_sitemap(read), (b"[]",)) == read
    with pytest.raises(WireError):
        decode_sitemap(encode_sitemap(SitemapRead(form, limit="links.none")), ())


PAGE = PageLinks("b", ["x", "y"], "utf-8", False)
SAID = replace(PAGE, described=Described({"x": "one", "y": "two"}, of=PAGE.hrefs))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}\n",
        b"null\n",
        b"[1]\n",
        encode_links(PAGE)[:-1] + b"\xff",
        encode_links(PAGE) + b"\0z",
        encode_links(replace(PAGE, hrefs=[])) + b"z",
        encode_links(PAGE).replace(b'"metas": []', b'"metas": [1]'),
        b"[" * 100_000 + b"\n",
        encode_links(SAID) + b"\0three",
        encode_links(SAID).replace(b'"texts": 2', b'"texts": 1').removesuffix(b"\0two"),
        encode_links(SAID).replace(b"x\0y", b"x\0x#1"),  # fewer links than texts
        encode_links(SAID).replace(b'"described": [', b'"described": [0, '),
        encode_links(SAID).replace(b'"described": [{}', b'"described": [[]'),
        encode_links(PAGE).replace(b'"described": null', b'"described": 1'),
        encode_links(replace(PAGE, described=Described())).replace(b"{}]", b"[]]"),
    ],
)
def test_what_no_parser_sends_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        decode_links(payload)
