"""Queries of links on pages that are not in UTF-8."""

from __future__ import annotations

import time

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


def test_a_long_query_costs_time_in_proportion() -> None:
    for encoding in ("windows-1252", "shift_jis", "gbk", "iso-2022-jp", "euc-kr"):
        for text in ("é" * 50_000, "日" * 50_000, "é日a" * 15_000):
            started = time.process_time()
            encode_queries(["/?" + text], encoding)
            assert time.process_time() - started < 1  # 0.03 on a machine that does nothing else
