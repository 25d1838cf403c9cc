"""The reader of WARC files: it finds what warcio finds, and says where a file is damaged."""

from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.web.archive.exchange_records import Capture
from crawler.web.archive.gzip_member import member, members
from crawler.web.archive.warc_reader import FoundRecord, WarcError, read_records
from tests.examples import TIMES
from tests.web.archive.exchanges import HTML, PAGE, archived, blocks, captures, exchange

ALL = 2**30
FILE = members(archived(exchange(HTML, PAGE)) * 2)


def found(data: bytes, most: int = ALL) -> list[FoundRecord]:
    return list(read_records(io.BytesIO(data).read, most))


@settings(max_examples=10 * TIMES)
@given(st.lists(captures, max_size=3), st.integers(0, 200))
def test_it_finds_every_record(received: list[Capture], most: int) -> None:
    data = b"".join([members(archived(capture)) for capture in received])
    records = found(data)
    assert [(each.fields["warc-type"], each.block) for each in records] == blocks(data)
    for each in records:
        assert gzip.decompress(data[each.offset : each.offset + each.length]).startswith(b"WARC/1.1\r\n")
    assert sum(each.length for each in records) == len(data)
    assert [each.block for each in found(data, most)] == [each.block[:most] for each in records]


@settings(max_examples=30 * TIMES)
@given(st.integers(1, len(FILE) - 1))
def test_a_torn_file_is_an_error_at_the_record_that_is_torn(end: int) -> None:
    starts = [each.offset for each in found(FILE)]
    if end in starts:
        assert len(found(FILE[:end])) == starts.index(end)
        return
    with pytest.raises(WarcError) as raised:
        found(FILE[:end])
    assert raised.value.offset == max(start for start in starts if start < end)


@settings(max_examples=60 * TIMES)
@given(st.integers(0, len(FILE) - 1), st.integers(1, 255))
def test_a_damaged_file_is_an_error_or_reads_the_same(at: int, flip: int) -> None:
    damaged = bytearray(FILE)
    damaged[at] ^= flip
    whole, read, error = found(FILE), list[FoundRecord](), None
    try:
        read += read_records(io.BytesIO(bytes(damaged)).read, ALL)
    except WarcError as raised:
        error = raised
    # Some bytes of a gzip header mean nothing: its time, its operating system.
    assert read == whole if error is None else error.offset <= at


@pytest.mark.parametrize(
    "record",
    [
        b"WARC/1.0\r\nContent-Length: 0\r\n\r\n\r\n\r\n",
        b"WARC/1.1\r\n\r\n\r\n\r\n",
        b"WARC/1.1\r\nContent-Length: +1\r\n\r\nx\r\n\r\n",
        b"WARC/1.1\r\nContent-Length: 2\r\n\r\nx\r\n\r\n",
        b"WARC/1.1\r\nContent-Length: 1\r\n\r\nxy\r\n\r\n",
        b"WARC/1.1\r\nContent-Length: 1\r\n\r\nx\r\n\r\r",
        b"WARC/1.1\r\nContent-Length: 1\r\n",
        b"WARC/1.1\r\n" + b"x" * 5_000_000,
    ],
)
def test_what_is_not_a_record_is_an_error(record: bytes) -> None:
    with pytest.raises(WarcError):
        found(FILE + member(record))
