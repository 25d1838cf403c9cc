"""Links of a page, and pages made to be a burden."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.about import About
from crawler.web.links.embedded import candidates
from crawler.web.links.extract import CHEAP_BYTES, PageLinks, extract_links, is_cheap, scan_links
from crawler.web.links.tokens import Undecided, token_links
from tests.examples import TIMES, long_or
from tests.needs import need_native

DEFAULT = LinkSettings()
Read = Callable[[bytes, str | None, LinkSettings], PageLinks]


def by_tokens(body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks:
    """As a crawl reads a page: by its tokens, unless only the tree can tell."""
    need_native()
    told = token_links(body, charset, settings)
    return extract_links(body, charset, settings) if isinstance(told, Undecided) else told


EACH = pytest.mark.parametrize("read", [extract_links, scan_links, by_tokens])
EXACT = pytest.mark.parametrize("read", [extract_links, by_tokens])


def links(body: bytes, charset: str | None = "utf-8", read: Read = extract_links, **options: object) -> PageLinks:
    return read(body, charset, replace(DEFAULT, **options))  # type: ignore[arg-type]


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


@EACH
@pytest.mark.parametrize(("body", "hrefs"), CASES)
def test_hrefs(body: bytes, hrefs: list[str], read: Read) -> None:
    found = links(body, read=read)
    assert (found.hrefs, found.truncated, found.cut) == (hrefs, False, None)


EMBEDDED = [
    (b"<img src=a><IMG SRC=' b '><img><img src><img src=''><img src='#c'>", ["a", "b"]),
    (b"<img src='data:image/png;base64,xxxx'><img src=DATA:,>", []),
    (b"<img src=a srcset='b 1x, c 2x,d, e 3w'>", ["a", "b", "c", "d", "e"]),
    (b"<img srcset=',a,, b (x,y) ,c(1,d  2x'>", ["a", "b", "c(1,d"]),
    (b"<img srcset='data:image/png;base64,x 1x, b 2x'>", ["b"]),
    (b"<picture><source srcset=a><img src=b></picture>", ["a", "b"]),
    (
        b"<link rel=stylesheet href=a><link rel='shortcut icon' href=b><link rel=preload href=c><link rel=me href=d>",
        None,
    ),
    (b"<script src=a></script><script>'<img src=no>'</script><script type=module src=b></script>", ["a", "b"]),
    (b"<video src=a poster=b><source src=c><track src=d></video><audio src=e></audio>", ["a", "b", "c", "d", "e"]),
    (b"<object data=a></object><embed src=b><input type=image src=c><input src=no>", ["a", "b", "c"]),
    (b"<image src=a><image href=no>", ["a"]),
    (b"<template><img src=no></template><textarea><img src=no></textarea><noscript><img src=a></noscript>", ["a"]),
    (b"<a href=a><img src=a><img src=b>", ["b"]),
    (b"<iframe src=a></iframe><img src=b>", ["b"]),
    (b"<style>a { background: url(no) }</style><p style='background: url(no)'>", []),
]


@EACH
@pytest.mark.parametrize(("body", "hrefs"), EMBEDDED)
def test_embedded_resources_are_found_if_they_are_wanted(body: bytes, hrefs: list[str] | None, read: Read) -> None:
    assert links(body, read=read).embedded == []
    assert links(body, read=read, embedded="any").embedded == (["a", "b", "c"] if hrefs is None else hrefs)
    assert links(body, read=read, embedded="any").hrefs == links(body, read=read).hrefs


def test_a_long_srcset_costs_time_in_proportion() -> None:
    for hostile in ("(" * 200_000, "a " * 100_000, "a (" * 70_000, "," * 200_000, "a,b(" * 50_000):
        assert len(candidates(hostile)) <= 100_000


# Where only the tree knows what a tag is.
OF_THE_TREE = [
    # body, hrefs of the tree, hrefs of the tags alone
    (b"<svg><style><a href=x></style></svg>", ["x"], []),
    (b"<svg><![CDATA[><a href=x>]]></svg>", [], ["x"]),
    (b"<a href=x><frameset><frame src=y></frameset>", ["y"], ["x", "y"]),
    (b"<frame src=x><p>", [], ["x"]),
]


@EXACT
@pytest.mark.parametrize(("body", "tree", "tags"), OF_THE_TREE)
def test_hrefs_that_need_the_tree(body: bytes, tree: list[str], tags: list[str], read: Read) -> None:
    assert links(body, read=read).hrefs == tree
    assert links(body, read=scan_links).hrefs == tags


KINDS = [
    # body, the kind that leads on, where to
    (b"<iframe src=' x '><a href=no></iframe><iframe></iframe>", "iframe", ["x"]),
    (b"<frameset><frame src=x><frame></frameset>", "frame", ["x"]),
    (b"<meta http-equiv=Refresh content='5; URL=\"x\"'><meta http-equiv=refresh content=5>", "refresh", ["x"]),
    (b"<link rel=canonical href=x>", "canonical", ["x"]),
    (b"<link rel=next href=x><link rel='PREV up' href=y>", "next", ["x", "y"]),
    (
        b"<link rel=alternate hreflang=de href=x><link rel=alternate type='text/html; a' href=y>",
        "alternate",
        ["x", "y"],
    ),
    (b"<link rel=alternate type=application/rss+xml href=x><link rel=stylesheet href=x><link href=x>", "alternate", []),
    *(
        (b"<link rel='%b' href=x>" % relations, "alternate", [])
        for relations in (
            b"alternate stylesheet",
            b"Icon Alternate",
            b"alternate\napple-touch-icon",
            b"preload alternate",
        )
    ),
    (b"<link rel='next preload alternate' href=x>", "next", ["x"]),
]


@EXACT
@pytest.mark.parametrize(("body", "kind", "hrefs"), KINDS)
def test_each_kind_of_link_can_be_switched_off(body: bytes, kind: str, hrefs: list[str], read: Read) -> None:
    assert links(body, read=read).hrefs == hrefs
    assert links(body, kinds=(kind,), read=read).hrefs == hrefs
    assert links(body, kinds=tuple(other for other in DEFAULT.kinds if other != kind), read=read).hrefs == []


@EXACT
class TestLongHrefs:
    """What can only be longer than ``max_url_length`` is dropped before anything dear is done with it."""

    LONG = "x" * (8 * DEFAULT.max_url_length + 1)

    def test_it_is_counted_and_not_taken(self, read: Read) -> None:
        found = links(f"<a href='/?{self.LONG}'><a href=x>".encode(), read=read)
        assert (found.hrefs, found.too_long) == (["x"], 1)
        assert links(f"<a href='{self.LONG[:-1]}'>".encode(), read=read).too_long == 0

    def test_white_space_and_a_fragment_do_not_count(self, read: Read) -> None:
        found = links(f"<a href='{' ' * 20_000}x{' ' * 20_000}'><a href='y#{self.LONG}'>".encode(), read=read)
        assert (found.hrefs, found.too_long) == (["x", "y"], 0)

    def test_what_is_no_url_of_the_web_is_rejected_as_such(self, read: Read) -> None:
        found = links(f"<a href='data:{self.LONG}'>".encode(), read=read)
        assert (len(found.hrefs[0]), found.too_long) == (len(self.LONG) - 1, 0)

    def test_links_after_a_long_base_are_not_followed(self, read: Read) -> None:
        found = links(f"<base href='/{self.LONG}'><a href=x>".encode(), read=read)
        assert (found.base, found.hrefs, found.too_long) == (None, [], 1)
        assert "16386" in found.cut

    def test_a_long_base_that_browsers_ignore_is_ignored(self, read: Read) -> None:
        found = links(f"<base href='data:{self.LONG}'><a href=x>".encode(), read=read)
        assert (found.hrefs, found.cut) == (["x"], None)


@EACH
class TestWhatAPageSaysOfItself:
    def test_first_base_counts(self, read: Read) -> None:
        page = b"<base target=x><base href=' /a '><base href=/b><a href=''><a href=#y><a href=x>"
        found = links(page, read=read)
        assert found.base == "/a"
        assert found.hrefs == ["", "#y", "x"]

    def test_an_attribute_without_a_value_is_empty(self, read: Read) -> None:
        found = links(b"<base href><base href=/b><a href><a name=x>", read=read)
        assert (found.base, found.hrefs) == ("", [""])

    def test_no_base(self, read: Read) -> None:
        assert links(b"<a title='<base href=x>'>", read=read).base is None

    @pytest.mark.parametrize(
        ("meta", "metas"),
        [
            (b"<META NAME='ROBOTS' CONTENT='noindex, NOFOLLOW'>", (("ROBOTS", "noindex, NOFOLLOW"),)),
            (b"<meta content=none name=robots>", (("robots", "none"),)),
            (b"<meta name=robots content=a><meta name=x content=b>", (("robots", "a"), ("x", "b"))),
            (b"<meta name=robots>", ()),
            (b"<!-- <meta name=robots content=nofollow> -->", ()),
        ],
    )
    def test_wishes_are_told_and_left_to_others(
        self, read: Read, meta: bytes, metas: tuple[tuple[str, str], ...]
    ) -> None:
        found = links(meta + b"<a href=x>", read=read)
        assert (found.metas, found.hrefs) == (metas, ["x"])

    def test_rel_nofollow_is_an_option(self, read: Read) -> None:
        page = b"<a href=x rel='noopener NoFollow'><a href=y rel=nofollows><a href=z>"
        assert links(page, read=read).hrefs == ["x", "y", "z"]
        assert links(page, respect_rel_nofollow=True, read=read).hrefs == ["y", "z"]

    def test_limit_of_links(self, read: Read) -> None:
        page = b"".join(b"<a href=%d>" % (n // 2) for n in range(20))
        assert links(page, max_links=10, read=read).hrefs == [str(n) for n in range(10)]
        assert not links(page, max_links=10, read=read).truncated
        assert links(page, max_links=9, read=read).hrefs == [str(n) for n in range(9)]
        assert links(page, max_links=9, read=read).truncated

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
    def test_encodings(self, read: Read, codec: str, charset: str, encoding: str) -> None:
        page = "<a href='/\u043f\u0443\u0442\u044c'>".encode(codec)
        found = links(page, charset, read=read)
        assert (found.encoding, found.hrefs) == (encoding, ["/\u043f\u0443\u0442\u044c"])

    def test_a_wrong_charset_is_no_stop(self, read: Read) -> None:
        page = "<a href='/\u00e9'><a href=x>".encode("latin-1")
        assert links(page, "utf-8", read=read).hrefs[-1] == "x"
        assert links(page, None, read=read).hrefs == ["/\u00e9", "x"]
        links(page, "utf-16", read=read)


SIZE = long_or(1, 5)
# Made when they are needed: together they are tens of megabytes.
BURDENS: dict[str, Callable[[], bytes]] = {
    "nested div": lambda: b"<div>" * 200_000 * SIZE + b"<a href=x>",
    "nested lists": lambda: b"<ul><li>" * 40_000 * SIZE + b"<a href=x>",
    "nested tables": lambda: b"<table><tr><td>" * 20_000 * SIZE + b"<a href=x>",
    "unclosed formatting": lambda: b"<p><b><i>" * 40_000 * SIZE + b"<a href=x>",
    "attributes": lambda: b"<a " + b"".join(b"a%d " % n for n in range(200_000 * SIZE)) + b"href=no><a href=x>",
    "many tags of many attributes": lambda: (
        (b"<p " + b" ".join(b"a%d" % n for n in range(2_000)) + b">") * 500 + b"<a href=x>"
    ),
    "megabytes without a link": lambda: b"word " * 400_000 * SIZE + b"<a href=x>",
    "megabytes of NUL": lambda: bytes(2_000_000 * SIZE) + b"<a href=x>",
    "opening brackets": lambda: b"<" * 1_000_000 * SIZE + b"><a href=x>",
    "comments": lambda: b"<!--" + b"-" * 1_000_000 * SIZE + b"--><a href=x>",
    "half comments": lambda: b"<!-- -" * 200_000 * SIZE + b"--><a href=x>",
    "bogus comments": lambda: b"<!x" * 200_000 * SIZE + b"><a href=x>",
    "quotes": lambda: b"<p a='\"" * 200_000 * SIZE + b"'><a href=x>",
    "end tags": lambda: b"</div>" * 200_000 * SIZE + b"<a href=x>",
    "scripts": lambda: b"<script></script " * 60_000 * SIZE + b"></script><a href=x>",
    "templates": lambda: b"<template>" * 60_000 * SIZE + b"</template>" * 60_000 * SIZE + b"<a href=x>",
    "a script without end": lambda: b"<a href=x>" + b"<script>" * 200_000 * SIZE,
    "equal signs": lambda: b"<p " + b"=" * 1_000_000 * SIZE + b"><a href=x>",
}


@pytest.mark.parametrize("burden", BURDENS)
def test_burdens_cost_time_in_proportion(burden: str) -> None:
    body = BURDENS[burden]()
    started = time.process_time()
    found = links(body, read=scan_links)
    # Half a second for a megabyte is plenty; the tree of the first page would take 20 minutes.
    assert time.process_time() - started < 1 + len(body) / 2_000_000
    assert found.hrefs[-1:] == ["x"]


@pytest.mark.parametrize("burden", BURDENS)
def test_burdens_do_not_burden_the_tokens(burden: str) -> None:
    need_native()
    body = BURDENS[burden]()
    started = time.process_time()
    found = token_links(body, "utf-8", DEFAULT)
    assert time.process_time() - started < 0.2 + len(body) / 10_000_000
    assert found is Undecided.DEPTH if burden == "nested tables" else found.hrefs[-1:] == ["x"]


@pytest.mark.parametrize("width", [1_000])
def test_the_tags_are_read_for_as_long_as_they_may(width: int) -> None:
    body = b"".join([b"<a href=%0*d>" % (width, number) for number in range(4_000)])
    turns = iter([True, False])
    found = scan_links(body, "utf-8", DEFAULT, lambda: next(turns))
    assert 0 < len(found.hrefs) < 4_000
    assert found.hrefs == links(body, read=scan_links).hrefs[: len(found.hrefs)]
    assert found.cut is not None
    assert str(len(found.hrefs)) in found.cut
    assert scan_links(body, "utf-8", DEFAULT, lambda: True).cut is None


WORST: dict[str, Callable[[int], bytes]] = {
    # The worst pages of a size that are known, with so many start tags in the second half.
    "nested": lambda size: (b"<div>" * size)[: size - size % 5],
    "attributes": lambda size: b"<a " + b" ".join(b"%x" % n for n in range(size // 4)),
    "copies of one element": lambda size: (
        b"<p><a " + b" ".join(b"%x" % n for n in range(size // 8)) + b">" + b"<p>x" * (size // 8)
    ),
    "copies of many elements": lambda size: (
        b"<p>" + b"".join(b"<b %x>" % n for n in range(size // 14)) + b"<p>x" * (size // 8)
    ),
    "copies, deep": lambda size: b"<div>" * (size // 10) + b"<p><b><i><u><s><tt>" * 3 + b"<p>x" * (size // 8),
}


@pytest.mark.parametrize("worst", WORST)
def test_a_tree_that_is_called_cheap_is(worst: str) -> None:
    size = CHEAP_BYTES
    while not is_cheap(body := WORST[worst](size)[:size]):
        size -= 256
    assert size >= 1_024
    started = time.process_time()
    links(body)
    assert time.process_time() - started < 0.25  # 0.04 on a machine that does nothing else


def test_ordinary_pages_are_cheap_and_large_ones_are_not() -> None:
    assert is_cheap(b"<li><a href='/some/page/of/a/site'>with some text</a></li>\n" * 80)
    assert is_cheap(b"x" * CHEAP_BYTES)
    assert not is_cheap(b"x" * (CHEAP_BYTES + 1))
    assert not is_cheap(b"<p>" * (CHEAP_BYTES // 3))


PIECES = st.sampled_from(
    [
        "<a href=x>", "</a>", "<area href=y>", "<a ", "<base href=z>", "<meta ", "<p", "<div>", "</div>", "<!",
        "<!--", "-->", "--!>", "<?", "</", ">", "<", "/", "=", "'", '"', "href=q", "href='r s'", "title='",
        "<script>", "</script>", "<style>", "</style>", "<title>", "</title>", "<textarea>", "</textarea >",
        "<template>", "</template>", "<img src=e>", "<img srcset='f 1x, g 2x'>", "<script src=h>",
        "<link rel=icon href=x>", "<video poster=i>", "</video>", "<source src=j>", "<object data=k>", "</object>",
        "<audio src=l>", "<input type=image src=m>", "src=n", "<b>", "</p>", "<table>", "<td>", "</table>",
        "<!doctype", "<xmp>", "</xmp", "<iframe>", "</iframe/>", "<noscript>", "</noscript>", " ", "\n", "\t", "x",
        "y", "-", "&amp;", "\0",
    ]
)  # fmt: skip


PADDING = b"<p>" + b"." * 70_000


@settings(max_examples=82 * TIMES)
@given(st.lists(PIECES, max_size=12).map("".join))
@example('<a href=x title="><a href=y>')
def test_the_links_of_a_page_do_not_depend_on_its_size(text: str) -> None:
    """Nor on whether they are read from its tree, its tokens or its tags, in markup as common as this."""
    page = b"<p>." + text.encode()  # in the body, where the tree keeps every `a`
    small = links(page)
    assert links(page, read=by_tokens) == small
    assert links(PADDING + page) == small
    assert links(page, read=scan_links) == small
    whole = links(page, embedded="any")
    assert links(PADDING + page, embedded="any") == whole
    assert links(page, read=scan_links, embedded="any") == whole
    assert replace(whole, embedded=[]) == small


ABOUT = [
    (b"", About()),
    (b"<title> a\n\tb &amp;  c </title>", About("a b & c")),
    (b"<title>a\xc2\xa0 b</title>", About("a\xa0 b")),
    (b"<title></title><title>x</title>", About()),
    (b"<p>x<title>late</title>", About("late")),
    (b"<template><title>x</title></template><TITLE>y</title>", About("y")),
    (b"<p>x<title>y <a href=z>", About("y <a href=z>")),
    (b"<title>a<b>c</title>", About("a<b>c")),
    (b"<title>\x00\x01\x7f\xc2\x85&#xd800;&#x2028;z</title>", About("\ufffd\ufffdz")),
    (b"<title>" + b"x" * 1_500 + b"</title>", About("x" * 1_000)),
    (b"<html lang=en-GB><html lang=de>", About(language="en-GB")),
    (b"<html lang=''><meta http-equiv=Content-Language content=' de '>", About(language="de")),
    (b"<html lang=fr><meta http-equiv=content-language content=de>", About(language="fr")),
    (b"<meta http-equiv=content-language content='de, en'>", About()),
    (b"<html lang='<b>'>", About()),
    (b"<html lang=" + b"x" * 100 + b">", About()),
    (b"<link rel='x CANONICAL' href=' /a?b#c '><link rel=canonical href=/no>", About(canonical="/a?b#c")),
    (b"<link rel=canonical><a href=x>", About()),
]


@EACH
@pytest.mark.parametrize(("body", "said"), ABOUT)
def test_what_a_page_says_of_itself(body: bytes, said: About, read: Read) -> None:
    assert links(body, read=read).about == said


@EXACT
def test_the_title_of_a_drawing_is_not_that_of_the_page(read: Read) -> None:
    assert links(b"<svg><title>no</title></svg><svg><desc><title>yes", read=read).about.title == "yes"
    assert links(b"<svg><title>no</title></svg>", read=read).about.title is None


@EXACT
def test_the_title_is_read_in_the_encoding_of_the_page(read: Read) -> None:
    assert links("<title>naïve".encode("latin-1"), None, read=read).about.title == "naïve"
    assert links("<title>日本".encode("shift_jis"), "sjis", read=read).about.title == "日本"
