"""Charset as browsers find it."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import RetrySettings
from crawler.engine.judge import judge
from crawler.frontier.entry import Entry
from crawler.job.verdict import Draft
from crawler.web.fetch import Response
from crawler.web.links import encoding
from crawler.web.links.encoding import (
    FALLBACK,
    HEAD_BYTES,
    PRESCAN_BYTES,
    python_codec,
    sniff_encoding,
    stated_encoding,
)

RAW = (b"iframe", b"noembed", b"noframes", b"script", b"style", b"textarea", b"title", b"xmp")
PRAGMA = b"<meta http-equiv=content-type content='%b'>"
LABELS = ["utf-8", "UTF8", "latin1", "ISO-8859-9", "gb2312", "utf-7", "no-such-charset", "utf-16"]
NAMES = ["utf-8", "utf-8", "windows-1252", "windows-1254", "gbk", "windows-1252", "windows-1252", "utf-16le"]
ALONE = {
    "windows-1252": (
        *(
            b"",
            b"\xff",
            b"charset=gbk",
            b"<metadata charset=gbk>",
            b"<meta charset=gbk",
            b"<meta charset=x-user-defined>",
        ),
        *(b"<meta content='charset=gbk'>", b"<meta http-equiv=refresh content='charset=gbk'>", PRAGMA % b"text/html"),
        *(PRAGMA % b"charset=gbk,x", b"<meta charset=x" + (PRAGMA % b"charset=gbk")[5:]),
        b"<meta/charset = 'x<p><meta charset=gbk>",
        b"<body>" + b" " * (PRESCAN_BYTES - 6) + b"<meta charset=utf-8>",
        b"<script>" + b"x" * HEAD_BYTES + b"</script><meta charset=koi8-r>",
        *(b"<?xml ENCODING='koi8-r'?>", b"<?xml encoding=koi8-r?>", b"<?xml encoding=' koi8-r '?>"),
        *(b"<?xml encoding='koi8-r\"?><p>", b"<?xml encoding encoding='koi8-r'?>", b"<?xml a='>' encoding='koi8-r'?>"),
        *(b"\n<?xml encoding='koi8-r'?>", b"<!-- --><?xml encoding='koi8-r'?>"),
        "<!doctype html><meta charset=utf-16>".encode("utf-16-le"),
    ),
    "utf-8": (b"<meta charset='utf-16be'>", b"<?xml encoding='utf-16'?><p>"),
    "utf-16le": ("<?xml encoding='x'?>".encode("utf-16-le"),),
    "utf-16be": ("<?xml encoding='x'?>".encode("utf-16-be"),),
    "euc-jp": (b'<META CharSet = "EUC-JP" />', b"<meta\ncharset=euc-jp>", b"<meta/charset=euc-jp x>"),
    "koi8-r": (
        *(b"<meta charset=koi8-r charset=koi8-u>", b"<!--><meta charset=koi8-r>", b"<meta charset='koi8&#45;r'>"),
        *(b"</a title='<meta charset=gbk>'><meta charset=koi8-r>", b"<?xml charset=x?><meta charset=koi8-r>"),
        *(PRAGMA % b'text/html;charset = "koi8-r"', PRAGMA % b"charset charset \t=\n koi8-r ;x"),
        b"<meta content='text/html; charset&#61;KOI8-R' http-equiv='Content&#45;Type'>",
        b"<body>" + b" " * (PRESCAN_BYTES - 7) + b"<meta charset=koi8-r>",
        b"<script>" + b"x" * (HEAD_BYTES - 99) + b"</script><meta charset=koi8-r>",
        *(b"<?xml version='1.0' encoding='koi8-r'?><p>", b"<?xml standalone='no' encoding =\n\"koi8-r\">"),
        b"<?xml version='1.0'" + b" " * PRESCAN_BYTES + b"encoding='koi8-r'?>",
        b"<?xml encoding='koi8-u'?><meta charset=koi8-r>",
        b"<?xml encoding='koi8-r'?><meta charset=nonsense>",
    ),
}
CASES = [
    # body, charset of the header, encoding
    *((b"<p>", label, name) for label, name in zip(LABELS, NAMES, strict=True)),
    (b"<meta charset=koi8-r>", "no-such-charset", "koi8-r"),
    (b"<meta charset=koi8-r>", " utf-8\t", "utf-8"),
    (b"<?xml encoding='koi8-r'?>" + b" " * PRESCAN_BYTES + b"<meta charset=koi8-r>", "koi8-u", "koi8-u"),
    (b"\xef\xbb\xbf<meta charset=koi8-r>", "latin1", "utf-8"),
    (b"\xff\xfea\0", "utf-8", "utf-16le"),
    (b"\xfe\xff\0a", "utf-8", "utf-16be"),
    *((body, None, name) for name, bodies in ALONE.items() for body in bodies),
]
M = b"<meta charset=koi8-r>"
# What stands in the head with a declaration, and whether Chromium finds it in the first bytes, and behind them.
IN_HEAD = [
    (M, True, True),
    (b"<html><head lang=x>" + M, True, True),
    (b"text<!--[if IE]><p><![endif]-->" + M, True, True),
    (b"<!-- --!>" + M, True, True),
    (b"<base><link><meta><object></object></script></title></style>" + M, True, True),
    (b"<noscript>" + M + b"</noscript>", True, True),
    (b"<meta charset=nonsense>" + M + b"<meta charset=koi8-u>", True, True),
    *((text + M, True, False) for text in (b"</head>", b"<body>", b"<p>", b"</p>", b"<svg>", b"<template>", b"<x-y>")),
    (b"<noscript><img></noscript>" + M, True, False),
    *((b"<%b>%b</%b>" % (tag, M, tag), False, False) for tag in RAW),
    *((text + M + b"'>-->", False, False) for text in (b"<!-- ", b"<!x ", b"<?x ", b"</ ", b"<a b='", b"<plaintext>")),
    (b"<script><!--<script></script>" + M + b"</script>", False, False),
    (b"<me\0ta charset=koi8-r><meta charset=koi8-r/><meta charset='koi8-r\"><p>", False, False),
]


@pytest.mark.parametrize(("body", "charset", "name"), CASES)
def test_cases(body: bytes, charset: str | None, name: str) -> None:
    assert sniff_encoding(body, charset) == name


@pytest.mark.parametrize("padding", [b"", b"<script>/*" + b"x" * PRESCAN_BYTES + b"*/</script>"], ids=["early", "late"])
@pytest.mark.parametrize(("head", "early", "late"), IN_HEAD)
def test_a_declaration_counts_as_far_as_the_head_goes(head: bytes, early: bool, late: bool, padding: bytes) -> None:
    page = b"<!doctype html><head>" + padding + head
    name = "koi8-r" if (late if padding else early) else "windows-1252"
    assert (sniff_encoding(page, None), stated_encoding(page) or FALLBACK) == (name, name)


@pytest.mark.parametrize(
    ("body", "charset", "read_in"),
    [
        (b"<html>", None, "utf-8"),
        (b"<meta charset=koi8-r />", None, "utf-8"),
        (b"<?xml version='1.0' encoding='koi8-r'?><html>", None, "koi8-r"),
        (b"<?xml version='1.0' encoding='koi8-r'?><html>", "koi8-u", "koi8-u"),
        (b"<?xml version='1.0' encoding='nonsense'?><html>", "nonsense", "utf-8"),
        ("\ufeff<html>".encode("utf-16-le"), "koi8-u", "utf-16le"),
    ],
)
def test_xhtml_is_read_as_xml(body: bytes, charset: str | None, read_in: str) -> None:
    response = Response(200, {}, "application/xhtml+xml", charset, body, None, None, 0.0, len(body))
    finished = judge(Entry("http://h.test/", 0), response, 0.0, RetrySettings())
    assert isinstance(finished, Draft)
    assert sniff_encoding(body, finished.charset) == read_in


def test_every_label_leads_to_a_codec() -> None:
    for label in encoding.NAMES:
        name = sniff_encoding(b"", label)
        assert b"<a href=x>".decode(python_codec("utf-8" if name.startswith("utf-16") else name)) == "<a href=x>"
        assert codecs.lookup(python_codec(name))
    assert len(encoding.NAMES) > 200


TOKENS = st.sampled_from([b"<meta ", b"charset=", b"<!--", b"-->", b'"', b"'", b">", b"<", b"/", b"utf-8", b"content="])


@given(st.lists(TOKENS | st.binary(max_size=4)).map(b"".join), st.none() | st.text(max_size=10))
def test_any_bytes_have_an_encoding(body: bytes, charset: str | None) -> None:
    body.decode(python_codec(sniff_encoding(body, charset)), "replace").encode()


METAS = (
    *("<meta ", "<META\n", "<meta/", "<metal ", "</meta ", "charset=", "CharSet = ", "charset", "utf-8", "x", "koi8-r"),
    *("utf-16", "'", '"', ">", "/>", "/", "=", " ", ";", "\f", "\0", "\xe9", "<!--", "-->", "--!>", "->", "-", "<!"),
    *("<?", "</", "<a ", "<a/", "<a b=", "http-equiv=", "content-type", "content=", "<script>", "<meta charset=x>"),
    *("<title>", "</title>", "</script >", "<style>", "</STYLE>", "<p>", "</head>", "x" * 600, "&#45;", "<plaintext>"),
    "<meta http-equiv=Content-Type content='a; charset=koi8-r'>",
)


@given(st.lists(st.sampled_from(METAS), max_size=30).map("".join))
def test_what_a_page_states_is_the_same_without_the_module(text: str) -> None:
    body = text.encode("latin-1")
    assert sniff_encoding(body, None) == (stated_encoding(body) or FALLBACK)
