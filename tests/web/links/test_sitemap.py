"""Sitemaps: what they list, and what they cannot do to whoever reads them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.encoding import NAMES, python_codec
from crawler.web.links.sitemap import Listed, Sitemap, SitemapForm, form_of, named_like_sitemap

XMLNS = (
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
)
HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- made\n by hand -->\n<urlset {XMLNS}>'


def sitemap(*locs: str) -> bytes:
    return (HEAD + "".join(f"<url><loc>{escape(loc)}</loc></url>" for loc in locs) + "</urlset>").encode()


def entry(*locs: str, name: str = "url") -> str:
    return "".join(f"<{name}><loc>{loc}</loc></{name}>" for loc in locs)


def read(body: bytes, charset: str | None = None, **settings: int) -> tuple[list[Listed], str | None]:
    found = Sitemap(body, LinkSettings(**settings), charset)  # type: ignore[arg-type]
    listed = [one for group in found for one in group]
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
        assert form_of(form) is SitemapForm.LISTING
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


def test_a_mark_goes_before_the_header_and_the_header_before_the_declaration() -> None:
    text = "<?xml version='1.0' encoding='koi8-r'?><urlset><url><loc>http://h.test/\u00e9</loc></url></urlset>"
    for mark, codec in (("\ufeff", "utf-8"), ("\ufeff", "utf-16-le"), ("\ufeff", "utf-16-be"), ("", "cp1252")):
        assert read((mark + text).encode(codec), charset="windows-1252") == (
            [Listed("http://h.test/\u00e9", None)],
            None,
        )


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


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30)))
def test_every_url_comes_out_as_it_was_written_however_it_was_packed(paths: list[str]) -> None:
    locs = [f"http://h.test/{path}" for path in paths]
    body = sitemap(*locs)
    halves = gzip.compress(body[: len(body) // 2]) + gzip.compress(body[len(body) // 2 :])
    for packed in (body, b"\xef\xbb\xbf" + body, gzip.compress(body), halves, gzip.compress(body) + bytes(512)):
        assert hrefs(packed) == locs
    assert form_of(body) is form_of(halves) is SitemapForm.LISTING


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html><urlset></urlset></html>", b"<!doctype html><p>sitemap", b"<?xml version='1.0'?><rss></rss>"),
        *(b"<urlsets>", b"http://h.test/\n", b"<!DOCTYPE urls><urls>", b"<!DOCTYPE " * 100_000, b"<?" * 100_000),
        *(b"<!DOCTYPE a [" + b"'" * 100_001, b"\x1f\x8bno gzip", gzip.compress(b"<svg/>", mtime=0), b"<!--" * 100_000),
    ],
)
def test_other_documents_are_no_sitemaps(body: bytes) -> None:
    assert form_of(body) is not SitemapForm.LISTING


BIG = 10_000_000
# Made when they are needed.
SMALL = (
    *(b"<!DOCTYPE a [<!ENTITY b 'c'>]><urlset><url><loc>&b;</loc></url></urlset>", b"<urlset><url></urlset>"),
    *(b"<!DOCTYPE a [<!ENTITY % b 'c'>%b;]><urlset><url><loc>u</loc></url></urlset>", b"<urlset><url><loc>\x01"),
    *(b"<!DOCTYPE a [<!ENTITY b SYSTEM '/etc/passwd'>]><urlset><loc>&b;</loc>", b"<urlset><url><loc>u</loc>"),
    *(b"<!DOCTYPE a [<!ATTLIST a b CDATA 'c'>]><urlset><url><loc>u</loc></url></urlset>", b"<urlset><loc>&b;</loc>"),
    *(b"<!DOCTYPE a SYSTEM 'b'><urlset><url><loc>&b;</loc></url></urlset>", b"<rss><!DOCTYPE a [<!ENTITY b 'c'>]>"),
    b"<!DOCTYPE rss [<!ENTITY a 'b'><!ENTITY b '&a;&a;'>]><rss><channel/></rss>",
    gzip.compress(b"<urlset>" + b"<url><loc>u</loc></url>" * 9)[:-9],
    gzip.compress(b"<urlset>", mtime=0) + gzip.compress(b"", mtime=0) * 100_000,
)
HOSTILE: list[Callable[[], bytes]] = [
    lambda: b"<!DOCTYPE a [" + b"<!ELEMENT a ANY>" * (BIG // 16),
    lambda: b"<urlset>" + b"<url>" * (BIG // 5),
    lambda: b"<urlset><url a='" + b"x" * BIG,
    lambda: b"<urlset><!--" + b"x" * BIG,
    lambda: gzip.compress(b"<urlset>" + b" " * (4 * BIG), 1),
    lambda: b"<urlset>" + b"<url><loc>u</loc></url>" * 2_001,
    lambda: b"<feed>" + b"<entry>" * (BIG // 7),
    lambda: b"<feed><entry><link " + b"x" * BIG,
    lambda: b"<rss><channel>" + b"<item><link>u</link></item>" * 2_001,
    *(partial(bytes, body) for body in SMALL),
]


@given(st.binary(max_size=300))
def test_any_bytes_will_do(noise: bytes) -> None:
    form_of(noise)
    read(noise)
    read(b"<urlset><url><loc>" + noise)
    read(gzip.compress(sitemap("http://h.test/"))[:40] + noise)


def test_addresses_that_let_one_expect_a_sitemap() -> None:
    named = (
        "http://h.test/sitemap.xml",
        "http://h.test/a/Sitemap_2.xml.gz?x",
        "http://h.test/feed.xml",
        "/sitemap-index",
    )
    others = ("http://h.test/sitemap/a", "http://h.test/a?b=sitemap", "http://h.test/a.xml/b", "http://h.test/a.tar.gz")
    assert [named_like_sitemap(href) for href in (*named, *others)] == [True] * 4 + [False] * 4


# -- texts -----------------------------------------------------------------------------------------------------


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30), min_size=1),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n", " \n"]),
    st.booleans(),
)
def test_every_line_of_a_text_comes_out_as_it_was_written(paths: list[str], end: str, last: bool) -> None:
    locs = [f"http://h.test/{path}" for path in paths]
    text = end.join(locs) + end * last
    body, wide = text.encode(), [("\ufeff" + text).encode(codec) for codec in ("utf-16-le", "utf-16-be")]
    for packed in (*wide, body, b"\xef\xbb\xbf" + body, gzip.compress(body), b"\n\n" + body):
        assert form_of(packed) is SitemapForm.TEXT
        assert read(packed) == ([Listed(loc, None) for loc in locs], None)


TEXTS: list[Callable[[], bytes]] = [
    lambda: gzip.compress(b"http://h.test/\n" + b"\n" * (5 * BIG + 10**7), 1),
    lambda: b"http://h.test/\n" * 2_001,
    lambda: gzip.compress(b"http://h.test/\n" * 9)[:-9],
    lambda: b"http://h.test/\n" + b"x\n" * (BIG // 40),
    lambda: b"http://h.test/\n" + b"x" * BIG,
]


@pytest.mark.parametrize("make", TEXTS)
def test_what_no_honest_text_has_is_said(make: Callable[[], bytes]) -> None:
    body = make()
    listed, fault = read(body, max_links=2_000)
    assert listed
    assert fault is not None


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
    assert form_of(body) is form_of(gzip.compress(body)) is SitemapForm.FEED
    assert read(body) == ([Listed(href, None) for href in expected], None)


@pytest.mark.parametrize("make", HOSTILE)
def test_what_no_honest_sitemap_has_ends_the_reading(make: Callable[[], bytes]) -> None:
    _, fault = read(make(), max_links=2_000)
    assert fault is not None


# -- almost XML ------------------------------------------------------------------------------------------------

LOCS = [f"{HEAD}{entry('1')}<url><loc>2", f"</url>{entry('3')}</urlset>"]
ALMOST = {  # documents, and their URLs
    "raw ampersands": (f"{HEAD}{entry('1', '2?a=1&b=2&copy=3', '3')}</urlset>", "1 2?a=1&b=2&copy=3 3"),
    "entities of HTML": (f"{HEAD}{entry('1', 'caf&eacute;&#x2F;&nope;', '3')}</urlset>", "1 caf\u00e9/&nope; 3"),
    "control characters": (f"{HEAD}{entry('1')}<url><lastmod>\x01</lastmod></url>{entry('3')}</urlset>", "1 3"),
    "wrong end tags": (f"{HEAD}<url><loc>1</lco></url><url><loc>2</loc></ulr>{entry('3')}</urlset>", "1 2 3"),
    "no end tags": (f"{HEAD}{'<url><loc>1</loc>' * 40}<url><loc>2<lastmod>x</url>", "1 " * 40 + "2"),
    "br, raw <": ("<br>".join(LOCS) + " < <url>", "1 2 3"),
    "odd attributes": (f"<urlset a=b c='>' d><url e='x><loc>1</loc></url>{entry('3')}</urlset>", "1 3"),
    "comments and CDATA": (f"{LOCS[0]}<!-- <loc>no</loc> --><![CDATA[?a&b]]></loc>{LOCS[1]}&", "1 2?a&b 3"),
    "two roots": (f"<urlset>{entry('1')}</urlset>\n{HEAD}{entry('3')}</urlset>", "1 3"),
    "no root": (entry("1", "2"), "1 2"),
    "cut behind a loc": (f"{LOCS[0]}</loc><lastm", "1 2"),
    "cut in a loc": (LOCS[0], "1"),
    "a warning before": (f"<br />\n<b>Warning</b>: in x.php<br />\n{HEAD}{entry('1')}</urlset>", "1"),
    "a line before": (f"Notice: x\n{HEAD}{entry('1')}</urlset>", "1"),
    "two marks": (f"\ufeff\ufeff{HEAD}{entry('1')}</urlset>", "1"),
    "roots in roots": (f"{HEAD}{HEAD[39:]}{entry('1')}</urlset></urlset>", "1"),
    "upper case": (f"<URLSET>{entry('1').upper()}</URLSET>", "1"),
    "prefixes": ("<x:urlset><x:url><x:loc>1</x:loc></x:url>" + entry("2?&") + "</x:urlset>", "1 2?&"),
    "two in an entry": (f"{HEAD}<url><loc>1</loc><loc>2</loc></url></urlset>", "1 2"),
    "in each other": (f"{HEAD}<url><loc><url>http://h</url></loc></url><a><loc>2</loc></a></urlset>", "http://h 2"),
    "bare texts": ("<urlset>http://a\nx http://b<url>http://c</url></urlset>", "http://a http://b http://c"),
    "extensions": (f"{LOCS[0]}<image:image><image:loc>no</image:loc><loc>no</loc></image:image>{LOCS[1]}&", "1 2 3"),
    "unknown prefixes": (f"{HEAD}<url><image:loc>no</image:loc><loc>1</loc><x:link href='no'/></url>&", "1"),
    "rss": ("<rss><title>A&nbsp;B</title><item><title>x</titel><link>1</link><item><p><link>2</link></item>", "1 2"),
    "atom": ("<feed>&nbsp;<entry><link href=1?a&amp;b><content><link href=no></content></entry>", "1?a&b"),
    "rdf": ("<rdf:RDF><link>no</link><item><title>a & b</title><link>1</link></item>", "1"),
}


WELL_FORMED = ("two marks", "roots in roots", "upper case", "two in an entry", "in each other", "bare texts")


@pytest.mark.parametrize("name", ALMOST)
def test_behind_a_fault_the_rest_is_read(name: str) -> None:
    text, urls = ALMOST[name]
    pieces = [gzip.compress(text.encode()[at : at + 7]) for at in range(0, len(text.encode()), 7)]
    for body in (text.encode(), ("\ufeff" + text).encode("utf-16-le"), b"".join(pieces)):
        assert (form_of(body) is not SitemapForm.NONE, hrefs(body)) == (True, urls.split())
    assert (read(text.encode())[1] is None) is (name in WELL_FORMED)
