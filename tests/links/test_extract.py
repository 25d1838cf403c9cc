"""Links of a page, and pages made to be a burden."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.links import PageLinks, extract_links
from crawler.links.tags import TREE_BYTES, link_tags
from crawler.settings import LinkSettings
from tests.examples import TIMES

DEFAULT = LinkSettings()
# Enough text to make a page too large for a tree.
PADDING = b"<p>" + b"." * TREE_BYTES


def links(body: bytes, charset: str | None = "utf-8", **options: object) -> PageLinks:
    return extract_links(body, charset, replace(DEFAULT, **options))  # type: ignore[arg-type]


CASES = [
    # body, hrefs
    (b"", []),
    (b"<a>", []),
    (b"<a href>", []),
    (b"<a href=x>", ["x"]),
    (b"<A HREF='x'>y</A>", ["x"]),
    (b'<a href=" \t\n x y \r\n">', ["x y"]),
    (b"<a href=b><a href=a><area href=c><a href=b>", ["b", "a", "c"]),
    (b"<link href=x><img src=x><embed src=x><form action=x>", []),
    (b"<a href=x><a href=#y><a href=''><a href='z#y'>", ["x", "z#y"]),
    (b'<a href="?a=1&amp;b=2&copy=3&lt;">', ["?a=1&b=2&copy=3<"]),
    (b"<a href=&#x41;&#66;>", ["AB"]),
    (b"<a title='>' href=x>", ["x"]),
    (b"<a title='<a href=no>' href=x>", ["x"]),
    (b"<a href=x href=y>", ["x"]),
    (b"<a/href=x/>", ["x/"]),
    (b"<a =x href=y>", ["y"]),
    (b"<a href = x>", ["x"]),
    (b"<ahref=x><abbr href=x>", []),
    (b"<a\nhref=x\n>", ["x"]),
    (b"<a href=x", []),
    (b"<a href='x>", []),
    (b"<!-- <a href=no> --><a href=x>", ["x"]),
    (b"<!-- <a href=no> --!><a href=x>", ["x"]),
    (b"<!--><a href=x>--><a href=y>", ["x", "y"]),
    (b"<!---><a href=x>", ["x"]),
    (b"<!-- -- > <a href=no>", []),
    (b"<!doctype html><?php <a href=x> ?><a href=y>", ["y"]),
    (b"</ <a href=no>><a href=y>", ["y"]),
    (b"</><a href=y>", ["y"]),
    (b"< a href=no><a href=y>", ["y"]),
    (b"<script>'<a href=no>'</script><a href=x>", ["x"]),
    (b"<SCRIPT>'<a href=no>'</scripts></SCRIPT ><a href=x>", ["x"]),
    (b"<style><a href=no></style><a href=x>", ["x"]),
    (b"<title><a href=no></title><textarea><a href=no></textarea><a href=x>", ["x"]),
    (b"<script><a href=no>", []),
    (b"<script><!-- <script> </script><a href=no> --></script><a href=x>", ["x"]),
    (b"<script><!-- <script> --></script><a href=x>", ["x"]),
    (b"<script><!-- </script><a href=x> --></script>", ["x"]),
    (b"<script><!--><script></script><a href=x>", ["x"]),
    (b"<template><a href=no></template><a href=x>", ["x"]),
    (b"<template><template></template><a href=no></template><a href=x>", ["x"]),
    (b"<noscript><a href=x></noscript>", ["x"]),
    (b"<plaintext><a href=no>", []),
    (b"<table><tr><a href=x><td><a href=y></table>", ["x", "y"]),
    (b"<svg><a href=x></svg>", ["x"]),
    (b"<a href=x\0y>", ["x\ufffdy"]),
    (b"<a href='\xff\xed\xa0\x80'>", ["\ufffd" * 4]),
    ("<a href='/caf\u00e9'>".encode(), ["/caf\u00e9"]),
]


@pytest.mark.parametrize(("body", "hrefs"), CASES)
def test_hrefs(body: bytes, hrefs: list[str]) -> None:
    assert links(body).hrefs == hrefs


@pytest.mark.parametrize(("body", "hrefs"), CASES)
def test_hrefs_of_a_large_page(body: bytes, hrefs: list[str]) -> None:
    found = links(PADDING + body)
    assert found.hrefs == hrefs
    assert not found.truncated


@pytest.mark.parametrize("padding", [b"", PADDING])
class TestWhatAPageSaysOfItself:
    def test_first_base_counts(self, padding: bytes) -> None:
        page = b"<base target=x><base href=' /a '><base href=/b><a href=''><a href=#y><a href=x>"
        found = links(padding + page)
        assert found.base == "/a"
        assert found.hrefs == ["", "#y", "x"]

    def test_no_base(self, padding: bytes) -> None:
        assert links(padding + b"<a title='<base href=x>'>").base is None

    @pytest.mark.parametrize(
        "meta",
        [
            b"<meta name=robots content=nofollow>",
            b"<META NAME='ROBOTS' CONTENT='noindex, NOFOLLOW'>",
            b"<meta content=none name=robots>",
            b"<meta name=robots content=noindex><meta name=robots content=nofollow>",
        ],
    )
    def test_nofollow(self, padding: bytes, meta: bytes) -> None:
        page = padding + meta + b"<a href=x>"
        assert links(page).nofollow
        assert links(page).hrefs == []
        assert not links(page, respect_meta_robots=False).nofollow
        assert links(page, respect_meta_robots=False).hrefs == ["x"]

    @pytest.mark.parametrize(
        "meta",
        [
            b"<meta name=robots content=noindex>",
            b"<meta name=robots>",
            b"<meta name=other content=nofollow>",
            b"<meta name=robots content=nofollows>",
            b"<!-- <meta name=robots content=nofollow> -->",
        ],
    )
    def test_follow(self, padding: bytes, meta: bytes) -> None:
        found = links(padding + meta + b"<a href=x>")
        assert (found.nofollow, found.hrefs) == (False, ["x"])

    def test_rel_nofollow_is_an_option(self, padding: bytes) -> None:
        page = padding + b"<a href=x rel='noopener NoFollow'><a href=y rel=nofollows><a href=z>"
        assert links(page).hrefs == ["x", "y", "z"]
        assert links(page, respect_rel_nofollow=True).hrefs == ["y", "z"]

    def test_limit_of_links(self, padding: bytes) -> None:
        page = padding + b"".join(b"<a href=%d>" % (n // 2) for n in range(20))
        assert links(page, max_links=10).hrefs == [str(n) for n in range(10)]
        assert not links(page, max_links=10).truncated
        assert links(page, max_links=9).hrefs == [str(n) for n in range(9)]
        assert links(page, max_links=9).truncated

    @pytest.mark.parametrize(
        ("codec", "charset", "encoding"),
        [
            ("koi8-r", "koi8-r", "koi8-r"),
            ("cp1251", "windows-1251", "windows-1251"),
            ("utf-8", "UTF-8", "utf-8"),
            ("utf-16-le", "utf-16", "utf-16le"),
            ("utf-16-be", "utf-16be", "utf-16be"),
        ],
    )
    def test_encodings(self, padding: bytes, codec: str, charset: str, encoding: str) -> None:
        page = (padding.decode() + "<a href='/\u043f\u0443\u0442\u044c'>").encode(codec)
        found = links(page, charset)
        assert (found.encoding, found.hrefs) == (encoding, ["/\u043f\u0443\u0442\u044c"])

    def test_a_wrong_charset_is_no_stop(self, padding: bytes) -> None:
        page = padding + "<a href='/\u00e9'><a href=x>".encode("latin-1")
        assert links(page, "utf-8").hrefs[-1] == "x"
        assert links(page, None).hrefs == ["/\u00e9", "x"]
        links(page, "utf-16")


# Made when they are needed: together they are a hundred megabytes.
BURDENS: dict[str, Callable[[], bytes]] = {
    "a million nested div": lambda: b"<div>" * 1_000_000 + b"<a href=x>",
    "nested lists": lambda: b"<ul><li>" * 200_000 + b"<a href=x>",
    "nested tables": lambda: b"<table><tr><td>" * 100_000 + b"<a href=x>",
    "unclosed formatting": lambda: b"<p><b><i>" * 200_000 + b"<a href=x>",
    "a million attributes": lambda: b"<a " + b"".join(b"a%d " % n for n in range(1_000_000)) + b"href=no><a href=x>",
    "many tags of many attributes": lambda: (
        (b"<p " + b" ".join(b"a%d" % n for n in range(2_000)) + b">") * 500 + b"<a href=x>"
    ),
    "ten megabytes without a link": lambda: b"word " * 2_000_000 + b"<a href=x>",
    "ten megabytes of NUL": lambda: bytes(10_000_000) + b"<a href=x>",
    "opening brackets": lambda: b"<" * 5_000_000 + b"><a href=x>",
    "comments": lambda: b"<!--" + b"-" * 5_000_000 + b"--><a href=x>",
    "half comments": lambda: b"<!-- -" * 1_000_000 + b"--><a href=x>",
    "bogus comments": lambda: b"<!x" * 1_000_000 + b"><a href=x>",
    "quotes": lambda: b"<p a='\"" * 1_000_000 + b"'><a href=x>",
    "end tags": lambda: b"</div>" * 1_000_000 + b"<a href=x>",
    "scripts": lambda: b"<script></script " * 300_000 + b"></script><a href=x>",
    "templates": lambda: b"<template>" * 300_000 + b"</template>" * 300_000 + b"<a href=x>",
    "a script without end": lambda: b"<a href=x>" + b"<script>" * 1_000_000,
    "equal signs": lambda: b"<p " + b"=" * 5_000_000 + b"><a href=x>",
}


@pytest.mark.parametrize("burden", BURDENS)
def test_burdens_cost_time_in_proportion(burden: str) -> None:
    body = BURDENS[burden]()
    started = time.process_time()
    found = links(body)
    # Half a second for a megabyte is plenty; the tree of the first page would take 20 minutes.
    assert time.process_time() - started < 1 + len(body) / 2_000_000
    assert found.hrefs[-1:] == ["x"]


def test_the_largest_tree_is_affordable() -> None:
    for unit in (b"<div>", b"<ul><li>", b"<dl><dd>", b"<p><b>"):
        body = (unit * TREE_BYTES)[: TREE_BYTES - 10] + b"<a href=x>"
        started = time.process_time()
        links(body)
        assert time.process_time() - started < 5


def test_a_hundred_thousand_links() -> None:
    body = b"".join(b"<li><a href='/page/%d?x&amp;y'>n</a>\n" % n for n in range(100_000))
    found = links(body)
    assert len(found.hrefs) == 100_000
    assert found.hrefs[-1] == "/page/99999?x&y"
    assert not found.truncated


PIECES = st.sampled_from(
    [
        "<a href=x>",
        "</a>",
        "<area href=y>",
        "<a ",
        "<base href=z>",
        "<meta ",
        "<p",
        "<div>",
        "</div>",
        "<!",
        "<!--",
        "-->",
        "--!>",
        "<?",
        "</",
        ">",
        "<",
        "/",
        "=",
        "'",
        '"',
        "href=q",
        "href='r s'",
        "title='",
        "<script>",
        "</script>",
        "<style>",
        "</style>",
        "<title>",
        "</title>",
        "<textarea>",
        "</textarea >",
        "<template>",
        "</template>",
        "<b>",
        "</p>",
        "<table>",
        "<td>",
        "</table>",
        "<!doctype",
        "<xmp>",
        "</xmp",
        "<iframe>",
        "</iframe/>",
        "<noscript>",
        "</noscript>",
        " ",
        "\n",
        "\t",
        "x",
        "y",
        "-",
        "&amp;",
        "\0",
    ]
)


@settings(max_examples=150 * TIMES, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
@example('<a href=x title="><a href=y>')
def test_large_pages_are_read_as_small_ones(text: str) -> None:
    """The pass over tags and the tree find the same links.

    Put in front, the padding brings both into the body, where the tree keeps every ``a``.
    """
    small = links(b"<p>." + text.encode())
    large = links(PADDING + text.encode())
    assert large == small


@given(st.binary(), st.none() | st.sampled_from(["utf-8", "utf-16", "iso-2022-jp", "gbk", "big5", "x"]))
def test_any_bytes(body: bytes, charset: str | None) -> None:
    for page in (body, PADDING + body):
        for href in links(page, charset).hrefs:
            href.encode()


def test_tags_come_in_document_order_and_unchanged() -> None:
    page = b"<META a><p><a href='x'>y</a><Base href=z><area><article><a>"
    assert list(link_tags(page)) == [b"<META a>", b"<a href='x'>", b"<Base href=z>", b"<area>", b"<a>"]
