"""Rows of text, and what goes to and from the processes that extract it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.web.extract.page_text import BYTES_MOST, About, Extracted, NoText, decode_text, encode_text, text_row

ABOUT = About("http://h.test/", "2023-11-14T22:13:20.000Z", None, None)


@given(st.text())
def test_a_text_is_the_same_after_its_way_out_of_the_process(text: str) -> None:
    sent = text.replace("\0", "").encode("utf-8", "replace").decode()
    for found in (Extracted(sent), Extracted("", sent, b'{"a":[1]}', "en", "some 1.0"), Extracted(structured=b"{}")):
        assert decode_text([encode_text(found)]) == found


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"x",
        encode_text(Extracted("text")) + b"x",
        encode_text(Extracted("abcd")).replace(b"abcd", b"ab\xffd"),
        *(encode_text(Extracted(structured=data)) for data in (b"[]", b"{", b'{"a":\n1}')),
        encode_text(Extracted(extractor="a" * 201)),
        msgspec.msgpack.encode(Extracted("a" * (BYTES_MOST + 1))),
        b"\x91" * 100_000,
    ],
)
def test_what_is_no_text_is_refused(payload: bytes) -> None:
    with pytest.raises((ValueError, msgspec.MsgspecError, RecursionError)):
        decode_text([payload])


@given(st.text())
def test_a_row_is_one_line_for_every_reader_of_lines(text: str) -> None:
    row = text_row(About("http://h.test/", "then", text, text), Extracted(text, text))
    assert len(row.decode().splitlines()) == 1
    assert row.endswith(b"\n")
    said = text.encode("utf-8", "replace").decode()
    read = json.loads(row)
    assert [read[key] for key in ("title", "language", "text", "markdown")] == [said] * 4


def test_what_a_row_says() -> None:
    row = json.loads(
        text_row(About("http://h.test/", "then", "T", "en"), Extracted("", None, None, "de", "some 1.0", cut=True))
    )
    assert row == {
        "url": "http://h.test/",
        "fetched_at": "then",
        "title": "T",
        "language": "en",
        "detected_language": "de",
        "text": "",
        "cut": True,
        "extractor": "some 1.0",
        "digest": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }
    assert json.loads(text_row(ABOUT, NoText("why"))) == {
        "url": "http://h.test/",
        "fetched_at": "2023-11-14T22:13:20.000Z",
        "error": "why",
    }
