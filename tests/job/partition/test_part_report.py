"""What goes over the carrier for those who look: whatever is there, it is read as what was put, or as nothing."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from crawler.job.partition.part_report import (
    MOST_VALUE,
    Answer,
    HostAsked,
    HostsAsked,
    PartReport,
    Question,
    UrlAsked,
    encode_question,
    encode_report,
    packed,
    unpacked,
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
ASKED = (
    st.builds(HostsAsked, sort=TEXT, descending=st.booleans(), offset=NUMBERS, limit=NUMBERS, q=TEXT)
    | st.builds(HostAsked, name=TEXT)
    | st.builds(UrlAsked, url=TEXT)
)
QUESTIONS = st.builds(Question, id=TEXT, asked=ASKED, partition=st.none() | st.integers(0, 1023))


@given(REPORTS, QUESTIONS, TEXT, CONTENT)
def test_what_was_put_is_read(report: PartReport, question: Question, name: str, content: object) -> None:
    assert unpacked(encode_report(report), PartReport) == report
    assert unpacked(encode_question(question), Question) == question
    answer = Answer(name, content, name)
    assert unpacked(packed(answer), Answer) == answer


@given(st.binary(max_size=200), REPORTS, st.data())
def test_anything_else_is_nothing(junk: bytes, report: PartReport, data: st.DataObject) -> None:
    told = encode_report(report)
    assert told is not None
    place = data.draw(st.integers(0, len(told) - 1))
    for each in (junk, zlib.compress(junk), told[:place], None):
        assert unpacked(each, PartReport) is None
        assert unpacked(each, Question) is None
        assert unpacked(each, Answer) is None


def test_what_would_fill_the_memory_is_not_unpacked() -> None:
    bomb = zlib.compress(b"\xdd\xff\xff\xff\xff" + bytes(64 * 2**20), 9)
    assert len(bomb) < 2 * MOST_VALUE
    assert unpacked(bomb, Answer) is None
