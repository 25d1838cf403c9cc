"""The text of a page, by which two visits may be compared."""

from __future__ import annotations

import time
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.web.links.text import text_digest


def digest(body: bytes | str, charset: str | None = None) -> bytes | None:
    def whole() -> Generator[None, None, None]:
        nonlocal found
        found = yield from text_digest(body if isinstance(body, bytes) else body.encode(), charset)

    found: bytes | None = b""
    for _ in whole():
        pass
    return found


PAGE = "<html><head><title>News</title></head><body><p>One <b>two</b></p>\n<p>three</p></body></html>"


@pytest.mark.parametrize(
    "same",
    [
        PAGE.replace("<body>", '<body data-nonce="8f3a" onload="a > b">'),
        PAGE.replace("<p>", "<script nonce=1>document.write('x')</script><p>"),
        PAGE.replace("<p>", "<style>p > a { color: red }</style><p>"),
        PAGE.replace("<p>", "<!-- built at 12:03 <p> --><p>"),
        PAGE.replace("<p>", "<template><p>not shown</p></template ><p>"),
        PAGE.replace("<b>", "<SCRIPT SRC='/ad?8f3a'></SCRIPT\n><b>"),
        PAGE.replace(" ", "\n\t  "),
        PAGE.replace("</p>", "</p><img src='/ad/8f3a.gif' alt='>'>"),
    ],
)
def test_what_nobody_sees_makes_no_difference(same: str) -> None:
    assert digest(same) == digest(PAGE)


@pytest.mark.parametrize(
    "other",
    [
        PAGE.replace("three", "four"),
        PAGE.replace("News", "Old"),
        PAGE.replace("One ", ""),
        PAGE + "more",
        PAGE.replace("</p>", " 12:03</p>"),
        PAGE.replace("<p>", "<scripted>shown</scripted><p>"),
    ],
)
def test_a_word_makes_a_difference(other: str) -> None:
    assert digest(other) != digest(PAGE)


def test_a_page_without_text_has_no_digest() -> None:
    assert digest("") is None
    assert digest("<html><script src=/app.js></script><div id=app></div> \n") is None


@given(st.binary(max_size=300) | st.text("<!-script>/ a\"'", max_size=300).map(str.encode))
def test_any_bytes_have_one_digest_wherever_they_are_cut(body: bytes) -> None:
    assert digest(body) == digest(body)
    assert digest(b"<p>word</p>" + body) is not None


def test_a_page_longer_than_a_piece_is_read_as_a_whole() -> None:
    long = PAGE * 20_000
    assert digest(long) != digest(long.replace("three", "four", 1))
    assert digest(long) != digest(long + "four")
    assert digest(long) == digest(long.replace("<p>", "<p id=1>"))


@pytest.mark.parametrize(
    "part", [b"<", b"<a", b"<a '", b"<script ", b"<!-- ", b"<script></script>", b"<a \"'", b"</scrip"]
)
def test_time_is_linear_in_hostile_bytes(part: bytes) -> None:
    def seconds(size: int) -> float:
        begun = time.process_time()
        digest(b"<script>" + part * (size // len(part)))
        return time.process_time() - begun

    assert seconds(2**20) < 10 * (min(seconds(2**18) for _ in range(3)) + 0.1)
