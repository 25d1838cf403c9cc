"""Queries of links on pages that are not in UTF-8."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.web.links.encoding import python_codec
from crawler.web.links.query import encode_queries


@pytest.mark.parametrize(
    ("encoding", "href", "expected"),
    [
        ("windows-1252", "/q?é=1", "http://a.test/q?%E9=1"),
        ("windows-1252", "/é?x=é#é", "http://a.test/%C3%A9?x=%E9"),
        ("windows-1252", "/q?x=日", "http://a.test/q?x=%26%2326085%3B"),
        ("shift_jis", "/q?x=日", "http://a.test/q?x=%93%FA"),
        ("windows-1252", "/q?é日本é=1", "http://a.test/q?%E9%26%2326085%3B%26%2326412%3B%E9=1"),
        ("shift_jis", "/q?ー\U0001f600表", "http://a.test/q?%81%5B%26%23128512%3B%95%5C"),
        ("utf-8", "/q?é=1", "http://a.test/q?%C3%A9=1"),
        ("utf-16le", "/q?é=1", "http://a.test/q?%C3%A9=1"),
        ("windows-1252", "/é", "http://a.test/%C3%A9"),
        ("windows-1252", "/#?é", "http://a.test/"),
    ],
)
def test_the_query_is_sent_in_the_encoding_of_the_page(encoding: str, href: str, expected: str) -> None:
    (sent,) = encode_queries([href], encoding)
    url = Canonicaliser().canonicalise(sent, "http://a.test/")
    assert isinstance(url, Canonical)
    assert url.href == expected


LEGACY = ("windows-1252", "shift_jis", "gb18030", "euc-kr", "big5", "euc-jp", "koi8-r")


@pytest.mark.parametrize("encoding", LEGACY)
@given(text=st.text(st.one_of(st.integers(0x80, 0xD7FF).map(chr), st.sampled_from("aé日表ю\u0590&?=")), max_size=40))
def test_each_character_is_sent_as_its_bytes_or_its_number(encoding: str, text: str) -> None:
    def sent(character: str) -> str:
        try:
            found = character.encode(python_codec(encoding))
        except UnicodeEncodeError:
            return f"%26%23{ord(character)}%3B"
        return character if character.isascii() else "".join(f"%{byte:02X}" for byte in found)

    text = text.replace("#", "")
    lost = text if text.isascii() else text.translate({9: None, 10: None, 13: None})
    assert encode_queries(["/?" + text], encoding) == ["/?" + "".join(map(sent, lost))]


@pytest.mark.parametrize("encoding", [*LEGACY, "iso-2022-jp"])
def test_links_with_a_query_that_is_too_long_are_left_out(encoding: str) -> None:
    hrefs = [f"/{'p' * 500}?{'aé' * pairs}#{'f' * 500}" for pairs in range(200)]
    most = 400
    all_sent = encode_queries(hrefs, encoding)
    assert encode_queries(hrefs, encoding, most) == [
        sent for sent in all_sent if len(sent.partition("?")[2].partition("#")[0]) <= most
    ]
