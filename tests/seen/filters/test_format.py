"""The stored segment: what comes back, and what damage is called."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.seen.filters import FormatError, read_segment, write_segment

HEADER = {"layout": "paired", "capacity": 100}
LIMIT = 10**7


def written(payload: bytes, header: dict[str, object] | None = None) -> bytes:
    file = io.BytesIO()
    total = write_segment(file, HEADER if header is None else header, memoryview(payload))
    assert total.size == len(file.getvalue())
    assert file.getvalue().endswith(bytes.fromhex(total.checksum))
    return file.getvalue()


@given(
    st.binary(max_size=3000),
    st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=9)),
)
def test_reading_gives_what_was_written(payload: bytes, header: dict[str, object]) -> None:
    file = io.BytesIO(written(payload, header) + b"more")
    assert read_segment(file, limit=LIMIT) == (header, payload)
    assert file.read() == b"more"


def test_a_payload_of_several_pieces_comes_back() -> None:
    payload = bytes(range(256)) * 12_345
    read = read_segment(io.BytesIO(written(payload)), limit=LIMIT)[1]
    assert read == payload
    assert not read.readonly


@given(st.binary(min_size=1, max_size=200), st.data())
def test_any_flipped_bit_is_found(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(written(payload))
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError):
        read_segment(io.BytesIO(damaged), limit=LIMIT)


@given(st.binary(max_size=200), st.data())
def test_any_truncation_is_found_at_its_offset(payload: bytes, data: st.DataObject) -> None:
    whole = written(payload)
    size = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(FormatError, match=str(size)):
        read_segment(io.BytesIO(whole[:size]), limit=LIMIT)


@pytest.mark.parametrize(("offset", "what"), [(12, "4294967295"), (16, "18446744073709551615")])
def test_absurd_lengths_are_refused_before_anything_is_allocated(offset: int, what: str) -> None:
    absurd = bytearray(written(b"payload"))
    absurd[offset : offset + (4 if offset == 12 else 8)] = b"\xff" * (4 if offset == 12 else 8)
    with pytest.raises(FormatError, match=what):
        read_segment(io.BytesIO(absurd), limit=LIMIT)


def test_a_header_that_is_no_object_is_refused() -> None:
    file = io.BytesIO()
    write_segment(file, ["a", "list"], memoryview(b""))  # type: ignore[arg-type]
    file.seek(0)
    with pytest.raises(FormatError):
        read_segment(file, limit=LIMIT)
