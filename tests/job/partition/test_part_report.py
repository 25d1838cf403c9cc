"""What goes over the carrier for those who look: whatever is there, it is read as what was put, or as nothing."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from crawler.job.partition.part_report import (
    MOST_VALUE,
    PartReport,
    decode_report,
    encode_report,
)

TEXT = st.text(max_size=40)
NUMBERS = st.integers(0, 2**40)
CONTENT = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
REPORTS = st.builds(
    PartReport,
    program=TEXT,
    at=st.floats(0, 1e12),
    every=st.floats(0, 1e6),
    last=st.booleans(),
    machine=TEXT,
    directory=TEXT,
    directory_id=TEXT,
    process=NUMBERS,
    stats=st.dictionaries(TEXT, CONTENT, max_size=6),
)


@given(REPORTS)
def test_what_was_put_is_read(report: PartReport) -> None:
    assert decode_report(encode_report(report)) == report


@given(st.binary(max_size=200), REPORTS, st.data())
def test_anything_else_is_nothing(junk: bytes, report: PartReport, data: st.DataObject) -> None:
    told = encode_report(report)
    assert told is not None
    place = data.draw(st.integers(0, len(told) - 1))
    for each in (junk, zlib.compress(junk), told[:place], None):
        assert decode_report(each) is None


def test_what_would_fill_the_memory_is_not_unpacked() -> None:
    bomb = zlib.compress(b"\xdd\xff\xff\xff\xff" + bytes(64 * 2**20), 9)
    assert len(bomb) < 2 * MOST_VALUE
    assert decode_report(bomb) is None
