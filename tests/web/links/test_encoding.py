"""Charset as browsers find it."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.web.links import encoding
from crawler.web.links.encoding import FALLBACK, PRESCAN_BYTES, python_codec, sniff_encoding, stated_encoding

CASES = [
    # body, charset of the header, encoding
    (b"", None, "windows-1252"),
    (b"<p>", "utf-8", "utf-8"),
    (b"<p>", "UTF8", "utf-8"),
    (b"<p>", " utf-8\t", "utf-8"),
    (b"<p>", "latin1", "windows-1252"),
    (b"<p>", "ISO-8859-9", "windows-1254"),
    (b"<p>", "gb2312", "gbk"),
    (b"<p>", "utf-7", "windows-1252"),
    (b"<p>", "no-such-charset", "windows-1252"),
    (b"<p>", "", "windows-1252"),
    (b"<meta charset=koi8-r>", "no-such-charset", "koi8-r"),
    (b"<meta charset=koi8-r>", "utf-8", "utf-8"),
    (b"\xef\xbb\xbf<meta charset=koi8-r>", "latin1", "utf-8"),
    (b"\xff\xfea\0", "utf-8", "utf-16le"),
    (b"\xfe\xff\0a", "utf-8", "utf-16be"),
    (b"\xff", None, "windows-1252"),
    (b"<p>", "utf-16", "utf-16le"),
    (b"<meta charset=utf-16>", None, "utf-8"),
    (b"<meta charset='utf-16be'>", None, "utf-8"),
    (b'<meta charset="shift_jis">', None, "shift_jis"),
    (b'<META CharSet = "EUC-JP" />', None, "euc-jp"),
    (b"<meta\ncharset=big5>", None, "big5"),
    (b"<meta/charset=big5>", None, "big5"),
    (b"<meta name=x charset=euc-kr>", None, "euc-kr"),
    (b"<meta charset=nonsense><meta charset=koi8-u>", None, "koi8-u"),
    (b"<meta charset=koi8-u charset=koi8-r>", None, "koi8-u"),
    (b'<meta http-equiv=Content-Type content="text/html; charset=windows-1251">', None, "windows-1251"),
    (b"<meta content='text/html;charset = \"gbk\"' http-equiv='content-type'>", None, "gbk"),
    (b'<meta content="text/html; charset=gbk">', None, "windows-1252"),
    (b'<meta http-equiv="refresh" content="text/html; charset=gbk">', None, "windows-1252"),
    (b'<meta http-equiv="content-type" content="text/html">', None, "windows-1252"),
    (b"<metadata charset=gbk>", None, "windows-1252"),
    (b"<!-- <meta charset=gbk> --><meta charset=big5>", None, "big5"),
    (b"<!-- <meta charset=gbk>", None, "windows-1252"),
    (b"<!-- </p><meta charset=gbk>", None, "windows-1252"),
    (b"</ <meta charset=gbk", None, "windows-1252"),
    (b"<meta charset=gbk", None, "windows-1252"),
    (b"<meta/charset = 'x<p><meta charset=gbk>", None, "windows-1252"),
    (b"<meta charset=gbk />", None, "gbk"),
    (b"<!--><meta charset=gbk>", None, "gbk"),
    (b"<a title='<meta charset=gbk>'><meta charset=big5>", None, "big5"),
    (b"</a title='<meta charset=gbk>'><meta charset=big5>", None, "big5"),
    (b"<!doctype html><?xml charset=gbk?><meta charset=big5>", None, "big5"),
    (b"charset=gbk", None, "windows-1252"),
    (b" " * 1000 + b"<meta charset=utf-8>", None, "utf-8"),
    (b" " * 1024 + b"<meta charset=utf-8>", None, "windows-1252"),
]


@pytest.mark.parametrize(("body", "charset", "name"), CASES)
def test_cases(body: bytes, charset: str | None, name: str) -> None:
    assert sniff_encoding(body, charset) == name


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
    "<meta http-equiv=Content-Type content='a; charset=koi8-r'>",
)


@given(st.lists(st.sampled_from(METAS), max_size=30).map("".join))
def test_what_a_page_states_is_the_same_without_the_module(text: str) -> None:
    body = text.encode("latin-1")
    assert sniff_encoding(body, None) == (stated_encoding(body[:PRESCAN_BYTES]) or FALLBACK)
