"""Queries of links on pages that are not in UTF-8."""

from __future__ import annotations

import pytest

from crawler.links import encode_queries
from crawler.urls import Canonical, Canonicaliser


@pytest.mark.parametrize(
    ("encoding", "href", "expected"),
    [
        ("windows-1252", "/q?é=1", "http://a.test/q?%E9=1"),
        ("windows-1252", "/é?x=é#é", "http://a.test/%C3%A9?x=%E9"),
        ("windows-1252", "/q?x=日", "http://a.test/q?x=%26%2326085%3B"),
        ("shift_jis", "/q?x=日", "http://a.test/q?x=%93%FA"),
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
