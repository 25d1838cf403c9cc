"""Envelopes: what was written is read, and any other bytes are an EnvelopeError that names the file."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.checkpoint.envelope import (
    MOST_BYTES,
    EnvelopeError,
    UnknownVersionError,
    decode_envelope,
    encode_envelope,
    read_envelope,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
contents = st.dictionaries(st.text(), json_values, max_size=5)


def decode(data: bytes) -> dict[str, Any]:
    return decode_envelope(data, "crawler-test", 3, "some.json")


def sealed(body: bytes) -> bytes:
    """An envelope with the right checksum round any bytes."""
    return b"crawler-test 3 " + mmh3.hash_bytes(body).hex().encode() + b"\n" + body


@given(contents)
def test_the_content_comes_back(content: dict[str, Any]) -> None:
    data = encode_envelope("crawler-test", 3, content)
    assert decode(data) == content
    assert data.isascii()


@given(contents, st.data())
def test_every_byte_is_covered(content: dict[str, Any], data: st.DataObject) -> None:
    stored = bytearray(encode_envelope("crawler-test", 3, content))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(EnvelopeError, match=r"^some\.json: "):
        decode(bytes(stored))


@given(contents, st.data())
def test_a_file_that_is_cut_off_is_an_error(content: dict[str, Any], data: st.DataObject) -> None:
    stored = encode_envelope("crawler-test", 3, content)
    with pytest.raises(EnvelopeError, match=r"^some\.json: .*offset \d+"):
        decode(stored[: data.draw(st.integers(0, len(stored) - 1))])


@given(st.binary() | st.binary().map(b"crawler-test 3 ".__add__))
def test_any_other_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(EnvelopeError, match=r"^some\.json: "):
        decode(data)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"[]\n", "not a JSON object"),
        (b"{\xff}", "not JSON"),
        (b'{"a":' + b"9" * 5_000 + b"}", "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_hostile_body_under_a_right_checksum_is_an_error(body: bytes, words: str) -> None:
    with pytest.raises(EnvelopeError, match=words):
        decode(sealed(body))


def test_numbers_that_json_does_not_have_come_through_for_the_reader_to_judge() -> None:
    assert decode(sealed(b'{"a": Infinity}')) == {"a": math.inf}


def test_another_version_is_told_from_damage_and_both_versions_are_named() -> None:
    data = encode_envelope("crawler-test", 12, {})
    with pytest.raises(UnknownVersionError, match=r"some\.json: crawler-test version 12, .* version 3"):
        decode(data)


def test_the_head_of_another_kind_is_not_taken() -> None:
    with pytest.raises(EnvelopeError, match="not a crawler-test file") as refused:
        decode(encode_envelope("crawler-job", 3, {}))
    assert not isinstance(refused.value, UnknownVersionError)


def test_a_first_line_without_end_costs_no_more_than_its_first_bytes() -> None:
    with pytest.raises(EnvelopeError) as refused:
        decode(b"crawler-test " * 1_000_000)
    assert len(str(refused.value)) < 200


def test_a_file_of_whatever_size_is_read_in_little_room(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(encode_envelope("made", 1, {"x": 1}))
    assert read_envelope(path, "made", 1, "job.json") == {"x": 1}
    os.truncate(path, 2**40)
    with pytest.raises(EnvelopeError, match=f"job.json: larger than {MOST_BYTES} bytes"):
        read_envelope(path, "made", 1, "job.json")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.json")
    with pytest.raises(EnvelopeError, match=r"job\.json: not a file"):
        read_envelope(tmp_path / "job.json", "made", 1, "job.json")
    with pytest.raises(IsADirectoryError):
        read_envelope(tmp_path, "made", 1, "job.json")
