"""Sitemaps: what they list, and what they cannot do to whoever reads them."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawler.base.settings import LinkSettings
from crawler.web.links import (
    Listed,
    Sitemap,
    SitemapForm,
    called_sitemap,
    form_of,
    is_feed,
    is_page,
    is_sitemap,
    is_text_sitemap,
    named_like_sitemap,
    python_codec,
)
from crawler.web.links.encoding import NAMES
from crawler.web.links.sitemap import parse_date

XMLNS = (
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
)
HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- made\n by hand -->\n<urlset {XMLNS}>'


def sitemap(*locs: str) -> bytes:
    return (HEAD + "".join(f"<url><loc>{escape(loc)}</loc></url>" for loc in locs) + "</urlset>").encode()


def read(body: bytes, charset: str | None = None, **settings: int) -> tuple[list[Listed], str | None]:
    found = Sitemap(body, LinkSettings(**settings), charset)  # type: ignore[arg-type]
    listed = [one for group in found for one in group]
    assert found.found == len(listed)
    return listed, found.fault


def hrefs(body: bytes, **settings: int) -> list[str]:
    listed, _ = read(body, **settings)
    return [one.href for one in listed]


def test_pages_with_their_priorities() -> None:
    body = (
        HEAD
        + """
        <url><loc> http://h.test/a?b&amp;c </loc><lastmod>2024-01-01</lastmod><priority>0.8</priority></url>
        <url><priority>1</priority><loc>http://h.test/<![CDATA[b&c]]></loc>
          <image:image><image:loc>http://h.test/picture.png</image:loc></image:image></url>
        <url><loc>http://h.test/ü</loc><priority>high</priority></url>
        <url><loc/></url><url><lastmod>2024-01-01</lastmod></url>
        <url><loc>http://h.test/d</loc><priority>7</priority></url>
        </urlset>"""
    ).encode()
    assert read(body) == (
        [
            Listed("http://h.test/a?b&c", 0.8, 1_704_067_200.0, 1_704_153_600.0),
            Listed("http://h.test/b&c", 1.0),
            Listed("http://h.test/ü", None),
            Listed("http://h.test/d", None),
        ],
        None,
    )


LABELS = sorted(NAMES)


@pytest.mark.parametrize("label", LABELS)
def test_every_label_of_the_encoding_standard_is_known(label: str) -> None:
    """Of the declaration and of the header. Of 30 labels in real sitemaps 21 once ended the crawl."""
    encoding = NAMES[label]
    letter = LETTERS.get(encoding, "\u00e9")
    body = f'<?xml version="1.0" encoding="{label}"?><urlset><url><loc>http://h.test/{letter}</loc></url></urlset>'
    packed = body.encode(python_codec(encoding))
    for form in (packed, gzip.compress(packed, mtime=0)):
        assert is_sitemap(form)
        assert read(form) == ([Listed(f"http://h.test/{letter}", None)], None)
    unstated = body.partition("?>")[2].encode(python_codec(encoding))
    assert read(unstated, charset=label) == ([Listed(f"http://h.test/{letter}", None)], None)


LETTERS = {
    **dict.fromkeys(("ibm866", "iso-8859-5", "koi8-r", "koi8-u", "windows-1251", "x-mac-cyrillic"), "\u0436"),
    **dict.fromkeys(("iso-8859-6", "windows-1256"), "\u0627"),
    **dict.fromkeys(("iso-8859-7", "windows-1253"), "\u03b1"),
    **dict.fromkeys(("iso-8859-8", "iso-8859-8-i", "windows-1255"), "\u05d0"),
    "windows-874": "\u0e01",
    **dict.fromkeys(("gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr"), "\u65e5"),
}


@pytest.mark.parametrize(
    "label", ["utf-7", "hz-gb-2312", "iso-2022-kr", "base64", "idna", "rot13", "x" * 5_000, "", "\u00e9"]
)
def test_with_an_unknown_encoding_what_can_be_read_is_read(label: str) -> None:
    body = (
        f"<?xml version='1.0' encoding='{label}'?><urlset><url><loc>http://h.test/\u00e9</loc></url></urlset>".encode()
    )
    assert read(body) == ([Listed("http://h.test/\u00e9", None)], None)
    assert read(body, charset=label) == ([Listed("http://h.test/\u00e9", None)], None)


def test_bytes_that_the_encoding_lacks_are_replaced() -> None:
    body = b"<urlset><url><loc>http://h.test/\xff</loc></url><url><loc>http://h.test/b</loc></url></urlset>"
    assert hrefs(body) == ["http://h.test/\ufffd", "http://h.test/b"]


def test_a_mark_goes_before_the_header_and_the_header_before_the_declaration() -> None:
    text = "<?xml version='1.0' encoding='koi8-r'?><urlset><url><loc>http://h.test/\u00e9</loc></url></urlset>"
    for mark, codec in (("\ufeff", "utf-8"), ("\ufeff", "utf-16-le"), ("\ufeff", "utf-16-be"), ("", "cp1252")):
        assert read((mark + text).encode(codec), charset="windows-1252") == (
            [Listed("http://h.test/\u00e9", None)],
            None,
        )


def test_a_text_in_any_encoding() -> None:
    text = "http://h.test/\u00e9\r\nhttp://h.test/b\r\n"
    for packed in (text.encode(), ("\ufeff" + text).encode("utf-16-le"), ("\ufeff" + text).encode("utf-16-be")):
        assert is_text_sitemap(packed)
        assert hrefs(packed) == ["http://h.test/\u00e9", "http://h.test/b"]


def test_members_without_end_are_given_up() -> None:
    empty = gzip.compress(b"", mtime=0)
    listed, fault = read(gzip.compress(sitemap("http://h.test/a")[:-9], mtime=0) + empty * 100_000)
    assert ([one.href for one in listed], fault) == (["http://h.test/a"], "more than 1024 members of gzip")


@given(st.binary(), st.none() | st.sampled_from(LABELS))
@example(b"<?xml version='1.0' encoding='gbk'?><urlset>", None)
def test_no_bytes_raise_an_exception(body: bytes, charset: str | None) -> None:
    for form in (body, b"<urlset>" + body, b"http://h.test/" + body, gzip.compress(body, mtime=0)):
        is_sitemap(form)
        read(form, charset=charset)


def test_an_index_and_names_with_a_prefix() -> None:
    body = b'<s:sitemapindex xmlns:s="x"><s:sitemap><s:loc>http://h.test/1.xml</s:loc></s:sitemap></s:sitemapindex>'
    found = Sitemap(body, LinkSettings())
    assert [one.href for group in found for one in group] == ["http://h.test/1.xml"]
    assert found.is_index
    assert is_sitemap(body)


def test_the_dates_and_the_guesses_of_a_site() -> None:
    body = (
        HEAD
        + """
        <url><loc>/a</loc><lastmod> 2024-01-01T02:00:00+02:00 </lastmod><changefreq>Hourly</changefreq></url>
        <url><lastmod>2024-01-01T00:00Z</lastmod><loc>/b</loc><changefreq>yearly</changefreq></url>
        <url><loc>/c</loc><lastmod>yesterday</lastmod><changefreq>often</changefreq></url>
        <url><loc>/d</loc></url>
        <url><loc>/e</loc><lastmod>0001-01-01T00:00:00</lastmod></url></urlset>"""
    ).encode()
    year = 1_704_067_200.0
    assert read(body)[0] == [
        Listed("/a", None, year, year, 1),
        Listed("/b", None, year, year, 3),
        Listed("/c", None),
        Listed("/d", None),
        Listed("/e", None),
    ]
    item = "<item><link>/1</link><pubDate>Mon, 01 Jan 2024 00:00:00 GMT</pubDate></item>"
    old = "<item><link>/2</link><pubDate>x</pubDate><dc:date>2024-01-01</dc:date></item>"
    assert read(f"<rss xmlns:dc='d'><channel>{item}{old}</channel></rss>".encode())[0] == [
        Listed("/1", None, year, year),
        Listed("/2", None, year, year + 86_400),
    ]
    entry = "<published>2020-01-01T00:00:00Z</published><updated>2024-01-01T00:00:00Z</updated><link href='/3'/>"
    assert read(f"<feed><entry>{entry}</entry></feed>".encode())[0] == [Listed("/3", None, year, year)]


@given(st.text("0123456789-:TZ+. aJnGMT,", max_size=30) | st.datetimes().map(str))
def test_any_text_is_a_date_or_none(text: str) -> None:
    begin, end = parse_date(text)
    assert 0.0 <= begin <= end <= begin + 86_400 < math.inf


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30)))
def test_every_url_comes_out_as_it_was_written_however_it_was_packed(paths: list[str]) -> None:
    locs = [f"http://h.test/{path}" for path in paths]
    body = sitemap(*locs)
    halves = gzip.compress(body[: len(body) // 2]) + gzip.compress(body[len(body) // 2 :])
    for packed in (body, b"\xef\xbb\xbf" + body, gzip.compress(body), halves, gzip.compress(body) + bytes(512)):
        assert hrefs(packed) == locs
    assert is_sitemap(body)
    assert is_sitemap(halves)


@pytest.mark.parametrize(
    "declared",
    [
        b"<!DOCTYPE urlset>",
        b"<?xml version='1.0'?>\n<!-- x -->\n<!DOCTYPE urlset SYSTEM \"http://h.test/>[.dtd\">\n",
        b"<!DOCTYPE a:urlset PUBLIC '-//x//y' 'z' [ <!ELEMENT urlset (url+)> <!-- 'a ]>' --> ] >",
        b"<!DOCTYPE other []>",
    ],
)
def test_a_document_type_without_entities_is_read(declared: bytes) -> None:
    body = declared + b"<urlset><url><loc>http://h.test/1?a&amp;b</loc></url></urlset>"
    assert is_sitemap(body)
    assert hrefs(body) == ["http://h.test/1?a&b"]


def test_a_feed_may_use_entities_that_its_document_type_declares_elsewhere() -> None:
    feed = b"<!DOCTYPE rss SYSTEM 'rss-0.91.dtd'><rss><channel><item><title>&eacute;</title><link>/1</link></item>"
    feed += b"</channel></rss>"
    assert is_feed(feed)
    assert read(feed) == ([Listed("/1", None)], None)


@pytest.mark.parametrize("odd", [b"<!DOCTYPE urlset [<!-- it's -->]>", b"<!DOCTYPE sitemapindex\n["])
def test_the_name_of_a_document_type_is_enough(odd: bytes) -> None:
    assert is_sitemap(odd + b"<urlset>")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><urlset></urlset></html>",
        b"<!doctype html><p>sitemap",
        b"<?xml version='1.0'?><rss></rss>",
        b"<urlsets>",
        b"http://h.test/\n",
        b"<!DOCTYPE urls><urls>",
        b"<!DOCTYPE " * 100_000,
        b"<!DOCTYPE a [" + b"'" * 100_001,
        b"\x1f\x8bno gzip",
        gzip.compress(b"<svg/>", mtime=0),
        b"<!--" * 100_000,
        b"<?" * 100_000,
    ],
)
def test_other_documents_are_no_sitemaps(body: bytes) -> None:
    assert not is_sitemap(body)


BIG = 20_000_000
# Made when they are needed.
HOSTILE: list[tuple[str, Callable[[], bytes]]] = [
    ("are declared", lambda: b"<!DOCTYPE a [<!ENTITY b 'c'>]><urlset><url><loc>&b;</loc></url></urlset>"),
    ("are declared", lambda: b"<!DOCTYPE a [<!ENTITY % b 'c'>%b;]><urlset><url><loc>u</loc></url></urlset>"),
    ("are declared", lambda: b"<!DOCTYPE a [<!ENTITY b SYSTEM '/etc/passwd'>]><urlset><url><loc>&b;</loc></url>"),
    ("are declared", lambda: b"<!DOCTYPE a [<!ATTLIST a b CDATA 'c'>]><urlset><url><loc>u</loc></url></urlset>"),
    ("undefined entity", lambda: b"<!DOCTYPE a SYSTEM 'b'><urlset><url><loc>&b;</loc></url></urlset>"),
    ("markup without end", lambda: b"<!DOCTYPE a [" + b"<!ELEMENT a ANY>" * (BIG // 16)),
    ("undefined entity", lambda: b"<urlset><url><loc>&b;</loc></url></urlset>"),
    ("nested deeper", lambda: b"<urlset>" + b"<url>" * (BIG // 5)),
    ("markup without end", lambda: b"<urlset><url a='" + b"x" * BIG),
    ("markup without end", lambda: b"<urlset><!--" + b"x" * BIG),
    ("max_sitemap_bytes", lambda: gzip.compress(b"<urlset>" + b" " * (4 * BIG), 1)),
    ("max_links", lambda: b"<urlset>" + b"<url><loc>u</loc></url>" * 200_001),
    ("cut off", lambda: gzip.compress(b"<urlset>" + b"<url><loc>u</loc></url>" * 9)[:-9]),
    ("no element", lambda: b"<urlset><url><loc>u</loc>"),
    ("mismatched", lambda: b"<urlset><url></urlset>"),
    ("invalid token", lambda: b"<urlset><url><loc>\x01"),
]


@pytest.mark.parametrize(("words", "make"), HOSTILE, ids=[words for words, _ in HOSTILE])
def test_what_no_honest_sitemap_has_ends_the_reading(words: str, make: Callable[[], bytes]) -> None:
    body = make()
    _, fault = read(body)
    assert fault is not None
    assert words in fault


def test_what_stood_before_a_fault_is_kept() -> None:
    assert hrefs(sitemap("http://h.test/a", "http://h.test/b")[:-20]) == ["http://h.test/a"]
    assert hrefs(b"<urlset>" + b"<url><loc>u</loc></url>" * 300, max_links=7) == ["u"] * 7
    assert len(hrefs(sitemap(*(f"http://h.test/{n}" for n in range(99))), max_sitemap_bytes=2_000)) in range(30, 60)


def test_a_url_without_end_is_cut_to_one_that_is_too_long() -> None:
    body = b"<urlset><url><loc>" + b"&amp;x" * 500_000 + b"</loc></url></urlset>"
    listed, fault = read(body)
    assert fault is None
    assert 2_048 < len(listed[0].href) < 10_000


@given(st.binary(max_size=300))
def test_any_bytes_will_do(noise: bytes) -> None:
    is_sitemap(noise)
    read(noise)
    read(b"<urlset><url><loc>" + noise)
    read(gzip.compress(sitemap("http://h.test/"))[:40] + noise)


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("http://h.test/sitemap.xml", True),
        ("http://h.test/a/Sitemap_2.xml.gz?x", True),
        ("http://h.test/feed.xml", True),
        ("http://h.test/sitemap-index", True),
        ("http://h.test/sitemap/a", False),
        ("http://h.test/a?b=sitemap", False),
        ("http://h.test/a.xml/b", False),
        ("http://h.test/a.tar.gz", False),
    ],
)
def test_addresses_that_let_one_expect_a_sitemap(href: str, expected: bool) -> None:
    assert named_like_sitemap(href) is expected


# -- texts -----------------------------------------------------------------------------------------------------


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30), min_size=1),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n", " \n"]),
    st.booleans(),
)
def test_every_line_of_a_text_comes_out_as_it_was_written(paths: list[str], end: str, last: bool) -> None:
    locs = [f"http://h.test/{path}" for path in paths]
    body = (end.join(locs) + end * last).encode()
    for packed in (body, b"\xef\xbb\xbf" + body, gzip.compress(body), b"\n\n" + body):
        assert is_text_sitemap(packed)
        assert not is_sitemap(packed)
        assert read(packed) == ([Listed(loc, None) for loc in locs], None)


def test_lines_across_the_pieces_in_which_a_text_is_read() -> None:
    locs = [f"HTTPS://h.test/{n:05}/{'x' * (n % 97)}" for n in range(5_000)]
    body = "\r\n".join(locs).encode()
    found = Sitemap(body, LinkSettings())
    groups = list(found)
    assert [one.href for group in groups for one in group] == locs
    assert max(map(len, groups)) <= 1_000
    assert not found.is_index


def test_lines_that_are_no_url_are_told_of_and_passed_over() -> None:
    body = b"http://h.test/a\n# all of it:\nhttp://h.test/b\n/c\njavascript:alert(1)\nhttp://h.test/\xff\n"
    listed, fault = read(body)
    assert [one.href for one in listed] == ["http://h.test/a", "http://h.test/b", "http://h.test/\ufffd"]
    assert fault == "3 lines are no URL"


TEXTS: list[tuple[str, Callable[[], bytes]]] = [
    ("max_sitemap_bytes", lambda: gzip.compress(b"http://h.test/\n" + b"\n" * (4 * BIG), 1)),
    ("max_links", lambda: b"http://h.test/\n" * 200_001),
    ("cut off", lambda: gzip.compress(b"http://h.test/\n" * 9)[:-9]),
    ("lines are no URL", lambda: b"http://h.test/\n" + b"x\n" * (BIG // 20)),
    ("1 line is no URL", lambda: b"http://h.test/\n" + b"x" * BIG),
]


@pytest.mark.parametrize(("words", "make"), TEXTS, ids=[words for words, _ in TEXTS])
def test_what_no_honest_text_has_is_said(words: str, make: Callable[[], bytes]) -> None:
    body = make()
    assert is_text_sitemap(body)
    listed, fault = read(body)
    assert listed
    assert fault is not None
    assert words in fault


@pytest.mark.parametrize("pad", [b"x", b"\xff", "\U0001f577".encode()])
def test_a_line_without_end_is_cut_to_one_that_is_too_long(pad: bytes) -> None:
    listed, fault = read(b"http://h.test/\nhttp://h.test/" + pad * (BIG // len(pad)) + b"\nhttp://h.test/b")
    assert fault is None
    assert [len(one.href) for one in listed] == [14, 2_049, 15]


@pytest.mark.parametrize(
    "body",
    [b"", b"User-agent: *\n", b"/a\n/b\n", b"<p>http://h.test/", b"see http://h.test/", b"http://a <b>", b"http://"],
)
def test_other_texts_are_no_sitemaps(body: bytes) -> None:
    assert not is_text_sitemap(body)


# -- feeds -----------------------------------------------------------------------------------------------------

RSS = b"""<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<title>News</title><link>http://h.test/</link><atom:link href="http://h.test/rss" rel="self"/>
<image><link>http://h.test/logo</link></image>
<item><link>http://h.test/1?a&amp;b</link><atom:link href="http://h.test/elsewhere" rel="self"/></item>
<item><link> http://h.test/2 </link><guid>http://h.test/guid</guid></item>
<item><title>no link</title></item><link>http://h.test/late</link></channel></rss>"""
RDF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel><link>http://h.test/</link></channel><item rdf:about="x"><link>http://h.test/1</link></item></rdf:RDF>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="http://h.test/"/><link rel="self" href="/feed"/>
<entry><link rel="edit" href="/edit"/><link href="/1"/><link rel="alternate" href="/2"/><id>tag:1</id></entry>
<entry><link rel="alternate" type="text/html" href="http://h.test/3"/><content><link href="/no"/></content></entry>
<entry><link rel="enclosure" href="/a.mp3"/></entry></feed>"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [(RSS, ["http://h.test/1?a&b", "http://h.test/2"]), (RDF, ["http://h.test/1"]), (ATOM, ["/1", "http://h.test/3"])],
    ids=["rss", "rdf", "atom"],
)
def test_of_a_feed_the_links_of_its_items_count(body: bytes, expected: list[str]) -> None:
    assert is_feed(body)
    assert is_feed(gzip.compress(body))
    assert not is_sitemap(body)
    assert read(body) == ([Listed(href, None) for href in expected], None)


FEEDS: list[tuple[str, Callable[[], bytes]]] = [
    ("syntax error", lambda: b"<rss><!DOCTYPE a [<!ENTITY b 'c'>]>"),
    ("are declared", lambda: b"<!DOCTYPE rss [<!ENTITY a 'b'><!ENTITY b '&a;&a;'>]><rss><channel/></rss>"),
    ("nested deeper", lambda: b"<feed>" + b"<entry>" * (BIG // 7)),
    ("markup without end", lambda: b"<feed><entry><link href='" + b"x" * BIG),
    ("max_links", lambda: b"<rss><channel>" + b"<item><link>u</link></item>" * 200_001),
    ("max_sitemap_bytes", lambda: gzip.compress(b"<feed>" + b" " * (4 * BIG), 1)),
]


@pytest.mark.parametrize(("words", "make"), FEEDS, ids=[words for words, _ in FEEDS])
def test_what_no_honest_feed_has_ends_the_reading(words: str, make: Callable[[], bytes]) -> None:
    body = make()
    _, fault = read(body)
    assert fault is not None
    assert words in fault or "syntax error" in fault or "not well-formed" in fault


def test_an_address_without_end_in_a_feed_is_cut() -> None:
    (one,), fault = read(b"<feed><entry><link href='" + b"x" * 100_000 + b"'/></entry></feed>")
    assert fault is None
    assert len(one.href) == 2_049


@given(st.binary(max_size=300))
def test_any_bytes_will_do_for_texts_and_feeds(noise: bytes) -> None:
    for body in (b"http://h.test/\n" + noise, b"<rss><channel><item><link>" + noise, b"<feed><entry>" + noise):
        is_text_sitemap(body)
        is_feed(body)
        read(body)


def test_what_is_called_a_sitemap() -> None:
    assert called_sitemap("http://h.test/Sitemap.txt?x")
    assert not called_sitemap("http://h.test/sitemap/urls.txt")
    assert not called_sitemap("http://h.test/a.xml")


PIECES = (
    b"\xef\xbb\xbf", b" ", b"\n", b"<", b">", b'"', b"'", b"[", b"]", b"<?xml version='1.0'?>", b"<!-- a -->", b"<!--",
    b"<!DOCTYPE html>", b"<!doctype html>", b"<!DOCTYPE ", b"html", b' PUBLIC "a>"', b" SYSTEM 'b'", b"<html>",
    b"<html ", b"<html", b"<urlset>", b"<sitemapindex ", b"<rss>", b"<feed>", b"<x:RDF>",
    b"http://h.test/", b"\x1f\x8b", b"<\0",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=10).map(b"".join))
@example(b'<!DOCTYPE html "><html "><urlset>')
@example(b"<!DOCTYPE html [<html >]><urlset>")
def test_what_plainly_begins_as_a_page_looks_like_no_sitemap(body: bytes) -> None:
    assert not is_page(body) or form_of(body) is SitemapForm.NONE


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><html>",
        b"\xef\xbb\xbf<!doctype html>\r\n<html lang=en>",
        b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN"\n "x.dtd">\n<html xmlns="x">',
    ],
)
def test_a_page_plainly_begins_as_one(body: bytes) -> None:
    assert is_page(body)
