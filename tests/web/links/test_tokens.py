"""The links of a page by its tokens, in C: all that the tree says, or the word that only the tree can tell."""

from __future__ import annotations

import os
import random
import runpy
import subprocess
import sys
import time
from html import unescape
from html.entities import html5

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.fuzz.tokens import PIECES, check, make
from crawler.base.settings.parts import DescribedLinks, LinkSettings
from crawler.web.links.extract import PageLinks, extract_links
from crawler.web.links.headers import SPACE
from crawler.web.links.tokens import Undecided, token_links
from tests.documents import ROOT
from tests.examples import TIMES
from tests.needs import need_native

DEFAULT = LinkSettings()


@pytest.fixture(autouse=True)
def _built() -> None:
    need_native()


def told(body: bytes, charset: str | None = "utf-8", **options: object) -> PageLinks:
    """What the tokens say of a page, which is what its tree says."""
    wanted = replace(DEFAULT, **options)  # type: ignore[arg-type]
    links = token_links(body, charset, wanted)
    assert isinstance(links, PageLinks), f"undecided: {links}"
    assert links == extract_links(body, charset, wanted)
    return links


TOKENS = [
    # As in the tests of html5lib: what ends where. Each page has the link x unless its hrefs are given.
    (b"<a href=x ", []),
    (b"<a href='x'", []),
    (b"<a href='x'/", []),
    (b"<a href", []),
    (b"<a href=", []),
    (b"<a href = \n x>", ["x"]),
    (b"<a href = \n>", []),
    (b"<a href='x'title=y>", ["x"]),
    (b"<a href=\"x\"'>", ["x"]),
    (b"<a href=x'y\"z`w<=>", ["x'y\"z`w<="]),
    (b"<a ' href=x>", ["x"]),
    (b"<a \" = '>' href=x>", ["x"]),
    (b"<a < href=x>", ["x"]),
    (b"<a a='>'b=\">\"c='\n>'href=x>", ["x"]),
    (b"<a =href=no href=x>", ["x"]),
    (b"<a hrefs=no hre=no href=x>", ["x"]),
    (b"<a HrEf=x>", ["x"]),
    (b"<a href\0=no href=x>", ["x"]),
    (b"<a\0href=no><a href=x>", ["x"]),
    (b"<a\xc3\xa9 href=no><a href=x>", ["x"]),
    (b"<a\fhref=x>", ["x"]),
    (b"<a\rhref=x>", ["x"]),
    (b"<a\x0bhref=no><a href=x>", ["x"]),
    (b"<a/ /href=x>", ["x"]),
    (b"<a href/=no><a href=x>", ["x"]),
    (b"<a href='a\r\nb\rc\n\rd'>", ["a\nb\nc\n\nd"]),
    (b"<a href='&#13;x&#10;y&#32;'>", ["x\ny"]),
    (b"<a href='\0'>", ["\ufffd"]),
    (b"</a href=x>", []),
    (b"</a a='>' b=\"<a href=no>\"><a href=x>", ["x"]),
    (b"<<a href=x>", ["x"]),
    (b"<1a href=no><a href=x>", ["x"]),
    (b"</1 <a href=no> ><a href=x>", ["x"]),
    (b"<?xml <a href=no> ?><a href=x>", ["x"]),
    (b"<", []),
    (b"</", []),
    (b"<!", []),
    (b"<!-", []),
    (b"<!--", []),
    (b"<!--><a href=x>", ["x"]),
    (b"<!----><a href=x>", ["x"]),
    (b"<!-----><a href=x>", ["x"]),
    (b"<!----!><a href=x>", ["x"]),
    (b"<!--!><a href=no>--><a href=x>", ["x"]),
    (b"<!---!><a href=no>--><a href=x>", ["x"]),
    (b"<!-- --!-><a href=no>--><a href=x>", ["x"]),
    (b"<!-- --!--><a href=x>", ["x"]),
    (b"<!-- -- ><a href=no>--><a href=x>", ["x"]),
    (b"<!-- <!-- --><a href=x>", ["x"]),
    (b"<!-- <!--><a href=x>", ["x"]),
    (b"<!-><a href=x>", ["x"]),
    (b"<!doctype html '><a href=x>", ["x"]),
    (b"<!doctype html public \"><a href=x>", ["x"]),
    (b"<![CDATA[<a href=no>]]><a href=x>", ["x"]),
    (b"<![CDATA[ ]]<a href=no><a href=x>", ["x"]),
    (b"<svg><![CDATA[<a href=no>]]]]><a href=x></svg>", ["x"]),
    (b"<svg><![CDATA[ ]] ><a href=no>", []),
    (b"<svg><![cdata[><a href=x>]]>", ["x"]),
    # Elements without markup.
    *((b"<%b><a href=no></%bx></ %b></%b/><a href=x>" % ((name,) * 4), ["x"])
      for name in b"title textarea style xmp iframe noembed noframes script".split()),
    *((b"<%b><a href=no></%b a='>'><a href=x>" % ((name,) * 2), ["x"])
      for name in b"title textarea style xmp iframe noembed noframes script".split()),
    *((b"<%b/><a href=no>" % name, []) for name in b"title textarea style xmp iframe script plaintext".split()),
    (b"<title><!--</title><a href=x>-->", ["x"]),
    (b"<style><!--</style><a href=x>-->", ["x"]),
    (b"<plaintext></plaintext><a href=no>", []),
    (b"<script></SCRIPT\n><a href=x>", ["x"]),
    (b"<script><!-- </script><a href=x>", ["x"]),
    (b"<script><!--<script></script><a href=no></script><a href=x>", ["x"]),
    (b"<script><!--<script </script/ --></script><a href=x>", ["x"]),
    (b"<script><!--<scripts></script><a href=x>", ["x"]),
    (b"<script><!--<<script></script><a href=no></script><a href=x>", ["x"]),
    (b"<script><!--<script>--></script><a href=x>", ["x"]),
    (b"<script><!--<script>--!></script><a href=no></script><a href=x>", ["x"]),
    (b"<script><!---><script></script><a href=x>", ["x"]),
    (b"<script><!-<script></script><a href=x>", ["x"]),
    (b"<script><!--<script></script></script><a href=x>", ["x"]),
    # Templates, tables, drawings.
    (b"<template><template></template><a href=no></template></template><a href=x>", ["x"]),
    (b"<template><script></template></script></template><a href=x>", ["x"]),
    (b"<template><table><tr><td><a href=no></td></table></template><a href=x>", ["x"]),
    (b"<template><a href=no>", []),
    (b"<table><tr><td><a href=x></td><td><a href=y></table><a href=z>", ["x", "y", "z"]),
    (b"<table><caption><a href=x></caption><tr><th><a href=y><td><a href=z>", ["x", "y", "z"]),
    (b"<table><td><table><td><a href=x></table><a href=y></table>", ["x", "y"]),
    (b"<table><a href=x><td><a href=y></table>", ["x", "y"]),
    (b"<table><tr><a name=t><td><a href=x><tr><a name=u><td><a href=y></table>", ["x", "y"]),
    (b"<tr><td><a href=x></td></tr></table><a href=y>", ["x", "y"]),
    (b"<svg><a href=x></a><style><a href=y></style></svg><style><a href=no></style>", ["x", "y"]),
    (b"<svg><g><title>t</title><a href=x></svg><a href=y>", ["x", "y"]),
    (b"<svg/><style><a href=no></style><a href=x>", ["x"]),
    (b"<svg><script/><a href=x></svg>", ["x"]),
    (b"<svg><a xlink:href=no></svg><a href=x>", ["x"]),
    (b"<math><mi>m</mi><a href=x></math><a href=y>", ["x", "y"]),
    (b"<svg><table:x><a href=x></svg>", ["x"]),
    (b"<select><option><a href=x></select><a href=y>", ["x", "y"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "hrefs"), TOKENS)
def test_the_page_is_cut_as_the_standard_says(body: bytes, hrefs: list[str]) -> None:
    assert told(body).hrefs == hrefs


NEEDS_A_TREE = [
    (b"<frameset><frame src=x>", Undecided.FRAMES),
    (b"<p>text<frameset>", Undecided.FRAMES),
    (b"<table><td><a href=x></td><a href=y></table>", Undecided.TABLE),
    (b"<table><tr><td><a href=x></td></tr></table><a href=z><table><td><a href=x></td><a href=y>", Undecided.TABLE),
    (b"<table><td><title>x</title></td><title>y</title>", Undecided.TABLE),
    (b"<table><td><a href=x><object></td>y", Undecided.TABLE),
    (b"<svg><p><a href=x>", Undecided.FOREIGN),
    (b"<svg><foreignObject><div><a href=x>", Undecided.FOREIGN),
    (b"<svg></p><a href=x>", Undecided.FOREIGN),
    (b"<div><svg></div><style><a href=x>", Undecided.FOREIGN),
    (b"<math><annotation-xml><svg><a href=x>", Undecided.FOREIGN),
    (b"<svg><mi><base href=x>", Undecided.FOREIGN),
    (b"<template><col><style><a href=x></style></template>", Undecided.TEMPLATE),
    (b"<template><a href=x><object></template>y", Undecided.TEMPLATE),
    (b"<template><tr><td><a href=x></template>y", Undecided.TEMPLATE),
    (b"<table><td>" * 200 + b"<a href=x>", Undecided.DEPTH),
    (b"<svg>" + b"<g>" * 300 + b"<a href=x>", Undecided.DEPTH),
    (b"<svg><g\0></g\xef\xbf\xbd><a href=x>", Undecided.DEPTH),
    (b"<svg><img src=x>", Undecided.FOREIGN),
    (b"<svg><embed src=x>", Undecided.FOREIGN),
    (b"<link rel=next href=x>" * 2_000, Undecided.ELEMENTS),
    (b"<a href=%b>" % (b"x" * 20_000), Undecided.LINKS),
]


@pytest.mark.parametrize(("body", "why"), NEEDS_A_TREE)
def test_what_only_a_tree_can_tell_is_said(body: bytes, why: Undecided) -> None:
    assert token_links(body, "utf-8", DEFAULT) is why


def said(body: bytes, **options: object) -> PageLinks:
    """What the tokens say of a page and its links, which is what its tree says."""
    wanted = replace(DescribedLinks(), **options)  # type: ignore[arg-type]
    links = token_links(body, "utf-8", wanted)
    assert isinstance(links, PageLinks), f"undecided: {links}"
    assert links == (of_tree := extract_links(body, "utf-8", wanted))
    assert links.described is not None
    assert of_tree.described is not None
    assert list(links.described.texts) == list(of_tree.described.texts)
    return links


TEXTS = [
    # What is in the anchor x, and its text.
    ("", ""),
    (" a \r\n b\t", "a b"),
    ("\u00a0a\u2003\u2028\u0085b\u3000\x1c", "a b"),
    ("a\u200bb\ufeff", "a\u200bb\ufeff"),
    ("&lt;b&gt; &notit; &amp &nbsp;&#x80;&#32;c", "<b> \u00acit; & \u20ac c"),
    ("a < b <3 <", "a < b <3 <"),
    ("a<!-- no -->b<?no?>c</>d<!no>", "abcd"),
    ("<b>a</b> <span>b<i>c</i></span><br>d<img src=i alt=no>", "a bcd"),
    ("<B>a</b >", "a"),
    ("<b>a", "a"),
    ("<picture><source srcset=i><img src=j></picture>a", "a"),
    ("<svg><title>a</title><path d=b /></svg> b <math><mi>c</mi></math>", "a b c"),
    ("<h2>a</h2><div><p>b</p><p>c</p></div>", "abc"),
    ("a" * 200, "a" * 200),
    ("\u00e9" * 201, "\u00e9" * 200),
    ("a" * 199 + " b", "a" * 199 + " "),
    ("a" * 199 + "  ", "a" * 199),
    (" " * 1_599 + "ab", "a"),
    ("&#32;" * 1_599 + "&amp;b", "&"),
    ("\U0001f600 " * 300, "\U0001f600 " * 100),
]


@pytest.mark.parametrize(("inside", "text"), TEXTS)
def test_the_text_of_an_anchor_is_what_stands_in_it(inside: str, text: str) -> None:
    links = said(f"<a href=x>{inside}</a><p><a href=y>z</a>".encode())
    assert links.described is not None
    assert links.described.texts == {"x": text, "y": "z"}


def test_a_link_is_described_by_the_first_element_that_leads_there() -> None:
    page = (
        b"<link rel='next  X' href=n><area href=a rel=b><a href=x#1 rel=' Me '>one</a><a href=x>two</a><a href=n>no</a>"
        b"<a href=#own>own</a><a href=y rel=nofollow>left</a><img src=i><img src=x><track src=t rel=r>"
    )
    links = said(page, respect_rel_nofollow=True, embedded="any")
    assert links.described is not None
    assert links.described.texts == {"n": "", "a": "", "x": "one", "i": "", "t": "", "y": "left"}
    assert links.described.kinds == {"n": "link", "a": "area", "i": "img", "t": "track"}
    assert links.described.rels == {"n": "next x", "a": "b", "x": "me", "y": "nofollow", "t": "r"}
    assert links.unfollowed == ["y"]


NEEDS_A_TREE_FOR_TEXT = [
    "<a href=x>",
    "<a href=x>y<!--",
    "<a href=x>y<a href=z>w</a>",
    "<a href=x>y<a>w</a>",
    "<b><a href=x>y</b>z</a>",
    "<a href=x><b>y<i>z</b></i></a>",
    "<a href=x>y</p>z</a>",
    "<a href=x><div>y</a>z</div>",
    "<p><a href=x><div>y</div></a>",
    "<p><button><p></p></button><a href=x><div>y</div></a>",
    "<p><table><td><p></p></table><a href=x><div>y</div></a>",
    "<a href=x><p>y<div>z</div></p></a>",
    "<a href=x><h1>y<h2>z</h2></h1></a>",
    "<a href=x><ul><li>y</ul></a>",
    "<a href=x><table><td>y</table></a>",
    "<a href=x><select><option>y</select></a>",
    "<a href=x><script>y</script></a>",
    "<a href=x><template>y</template></a>",
    "<a href=x><nobr>y</nobr></a>",
    "<a href=x>y\0</a>",
    "<svg><a href=x>y</a></svg>",
    "<a href=x><svg><a href=z>y</a></svg></a>",
    "<a href=x><svg><![CDATA[y]]></svg></a>",
    "<table><a href=x>y</a></table>",
    "<a href=x>" + "<b>" * 33 + "y" + "</b>" * 33 + "</a>",
    "<a href=#x>y</a><base href=b>",
]


@pytest.mark.parametrize("page", NEEDS_A_TREE_FOR_TEXT)
def test_of_any_other_anchor_only_a_tree_can_tell_the_text(page: str) -> None:
    assert token_links(page.encode(), "utf-8", DescribedLinks()) is Undecided.TEXT


def test_every_reference_means_what_the_standard_says() -> None:
    names = [name for name in html5 if name.endswith(";")]
    page = "".join(f"<a href='/{number}?&{name}'>" for number, name in enumerate(names))
    assert told(page.encode()).hrefs == [f"/{number}?{html5[name]}".strip(SPACE) for number, name in enumerate(names)]
    bare = [name for name in html5 if not name.endswith(";")]
    for behind, means in (("", True), ("-", True), ("x", False), ("1", False), ("=", False)):
        page = "".join(f"<a href='/{number}?&{name}{behind}'>" for number, name in enumerate(bare))
        assert told(page.encode()).hrefs == [
            f"/{number}?{html5[name] if means else '&' + name}{behind}".strip(SPACE) for number, name in enumerate(bare)
        ]
    assert told(b"<title>&notit; &copy1 &amp &AMP; &nosuch; &</title>").about.title == unescape(
        "&notit; &copy1 &amp &AMP; &nosuch; &"
    )


@pytest.mark.parametrize(
    ("reference", "means"),
    [
        *(("&#65;", "A"), ("&#65", "A"), ("&#x41;", "A"), ("&#X41x", "Ax"), ("&#065;", "A"), ("&#0;", "\ufffd")),
        *(("&#x80;", "\u20ac"), ("&#x81;", "\x81"), ("&#x9f;", "\u0178"), ("&#xd800;", "\ufffd")),
        *(("&#xdfff;", "\ufffd"), ("&#x110000;", "\ufffd"), ("&#x10ffff;", "\U0010ffff"), ("&#xfffe;", "\ufffe")),
        *(("&#99999999999999999999;", "\ufffd"), ("&#x1000000000000000041;", "\ufffd"), ("&#x7ff;", "\u07ff")),
        *(("&#;", "&#;"), ("&#x;", "&#x;"), ("&#g", "&#g"), ("&#", "&#"), ("&", "&"), ("&;", "&;")),
        *(("&\u00e9", "&\u00e9"), ("&noti", "&noti"), ("&not", "\u00ac"), ("&notin;", "\u2209"), ("&Z;", "&Z;")),
        ("&nGt;", "\u226b\u20d2"),
    ],
)  # fmt: skip
def test_a_reference_is_read_as_the_standard_says(reference: str, means: str) -> None:
    assert told(f"<a href='/{reference}'>".encode()).hrefs == ["/" + means]
    assert told(f"<a href='/{'x' * 2_000}{reference}'>".encode()).hrefs == ["/" + "x" * 2_000 + means]


@pytest.mark.parametrize("table", ["entities", "names"])
def test_the_tables_are_what_their_scripts_write(table: str) -> None:
    script = runpy.run_path(str(ROOT / "native" / f"make_{table}.py"))
    assert (ROOT / "native" / f"{table}.h").read_text("ascii") == script["header"]()


PAGE = (
    "<!doctype html><html lang=de><meta charset=utf-8><title>T &amp; \u00e9</title><base href='/b/'>"
    "<meta name=robots content='&quot;x'><link rel=canonical href=&#x2f;c><meta http-equiv=refresh content='1;url=r'>"
    "<link rel='x License' type=application/rsl+xml href=l>"
    "<script><!--<script>'<a href=no>'</script>--></script><a title='>' href='a&amp;b' rel='no&#102;ollow'>\u00e9</a>"
    "<svg viewBox=0><![CDATA[<]]><title>s</title><a href=s /></svg><table><tr><td><a href=t></td></tr></table>"
    "<iframe src=i></iframe><textarea></textarea x><template><a href=no></template><!-- --!><a href=last>"
).encode()


DAMAGE = (b"\0", b"\xff", b"<", b">", b"'", b"&", b"\r")


def test_a_page_may_end_or_be_damaged_anywhere() -> None:
    for end in range(len(PAGE) + 1):
        pages = [PAGE[:end], PAGE[end:]]
        pages.append(PAGE[:end] + DAMAGE[end % len(DAMAGE)] + PAGE[end + 1 :])
        for page in pages:
            check((page, "utf-8", DEFAULT))
            check((page, "utf-8", DescribedLinks()))


@settings(max_examples=200 * TIMES)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_pieces_are_read_as_in_a_tree(text: str) -> None:
    check((text.encode(), "utf-8", DEFAULT))
    check((text.encode(), "utf-8", DescribedLinks(embedded="any", respect_rel_nofollow=True)))


def test_pages_that_are_made_to_be_misread_are_read_as_in_a_tree() -> None:
    answers = {check(make(random.Random(f"tokens {number}"))) for number in range(1_500 * TIMES)}
    assert answers > {"some links", "none", "described", "text", "foreign", "frames", "table"}


def repeated(element: bytes) -> bytes:
    return element * (2**20 // len(element))


HOSTILE = {
    "links": lambda: b"".join(b"<a href=%x>" % number for number in range(80_000)),
    "references": lambda: repeated(b"<a href=&a&a&a&a&a&a&a&a&a&a>"),
    "one long value": lambda: b"<a href='" + repeated(b"&nGt;") + b"'>",
    "attributes": lambda: b"<a " + repeated(b"href=x rel=y ") + b">",
    "scripts in a script": lambda: b"<script><!--" + repeated(b"<script></script>"),
    "drawings": lambda: repeated(b"<svg>" + b"<g>" * 200 + b"</svg>"),
    "titles in a drawing": lambda: b"<svg>" + b"<g>" * 200 + repeated(b"<title></title>"),
    "tables": lambda: repeated(b"<table><td>" * 100 + b"</table>" * 100),
    "elements to ask about": lambda: repeated(b"<link rel=next href=x>"),
    "titles": lambda: repeated(b"<title>"),
    "a long title": lambda: b"<title>" + repeated(b"&amp;\r\0"),
    "a long text": lambda: b"<a href=x>" + repeated(b"&#32;<b></b>"),
    "texts": lambda: b"".join(b"<a href=%x>%x</a>" % (number, number) for number in range(55_000)),
    "a text in pieces": lambda: b"<a href=x>" + b" &amp;" * 1_000 + repeated(b"<!---->&nGt;"),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_page_takes_time_in_proportion(hostile: str) -> None:
    body = HOSTILE[hostile]()
    started = time.process_time()
    token_links(body, "utf-8", replace(DEFAULT, respect_rel_nofollow=True))
    assert time.process_time() - started < 0.2  # 0.03 on a machine that does nothing else
    started = time.process_time()
    token_links(body, "utf-8", DescribedLinks(respect_rel_nofollow=True))
    assert time.process_time() - started < 0.2


def test_without_the_module_every_page_is_left_to_the_tree() -> None:
    program = (
        "from crawler.web.links.tokens import token_links\n"
        "from crawler.base.settings.parts import LinkSettings\n"
        "print(token_links(b'<a href=x>', None, LinkSettings()))"
    )
    off, on = ("OFF", "0"), ("", "Yes")
    for value, answer in [*((each, "absent") for each in off), *((each, "PageLinks") for each in on)]:
        environment = os.environ | {"CRAWLER_NATIVE": value}
        run = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.startswith(answer)


@pytest.mark.parametrize("built", ["module.INTERFACE = 10**6", ""], ids=["another number", "no number"])
def test_a_module_that_was_built_from_other_sources_is_left_alone(built: str) -> None:
    program = (
        "import sys, types\n"
        "module = types.ModuleType('crawler._native')\n"
        f"{built}\n"
        "sys.modules['crawler._native'] = module\n"
        "import crawler\n"
        "crawler._native = module\n"
        "from crawler.seen.filters import Filter\n"
        "from crawler.web.links.encoding import sniff_encoding\nfrom crawler.web.links.tokens import token_links\n"
        "from crawler.base.settings.parts import LinkSettings\n"
        "from crawler.seen.slices import compiled\n"
        "from crawler.frontier.traps.copies import content_digest\n"
        "print(token_links(b'<a href=x>', None, LinkSettings()), len(content_digest(b'x')), compiled.recent_digests(9))"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.split()) == (0, ["absent", "16", "None"]), run.stderr
