"""The seekable format of zstd: what is written is read in parts, and by others as a whole."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.output.seekable_zstd import (
    DamagedFrameError,
    PlainReader,
    SeekableError,
    SeekableReader,
    SeekableWriter,
    frames_of,
)
from crawler.web.fetch.content_coding import zstd

PIECES = st.lists(st.binary(max_size=200), max_size=8)


def written(pieces: list[bytes]) -> bytes:
    file = io.BytesIO()
    writer = SeekableWriter(file.write)
    for piece in pieces:
        writer.add(piece)
    writer.end()
    return file.getvalue()


@given(PIECES, st.data())
def test_any_part_of_the_text_is_read(pieces: list[bytes], data: st.DataObject) -> None:
    text, file = b"".join(pieces), written(pieces)
    reader = SeekableReader(io.BytesIO(file))
    assert reader.size == len(text)
    at = data.draw(st.integers(0, len(text)))
    size = data.draw(st.integers(0, len(text) + 5))
    found = b""
    while len(found) < size and (piece := reader.read(size - len(found), at + len(found))):
        found += piece
    assert found == text[at : at + size]
    assert reader.read(9, len(text)) == b""


@given(PIECES)
def test_other_readers_read_the_whole_text(pieces: list[bytes]) -> None:
    assert zstd.decompress(written(pieces)) == b"".join(pieces)


@given(PIECES, st.data())
def test_a_file_that_is_cut_or_flipped_gives_no_other_text(pieces: list[bytes], data: st.DataObject) -> None:
    """A frame that cannot be read is zeros; without a table there is no text."""
    text, file = b"".join(pieces), bytearray(written(pieces))
    with pytest.raises(SeekableError):
        frames_of(io.BytesIO(file[: data.draw(st.integers(0, len(file) - 1))]))
    frames = frames_of(io.BytesIO(file))
    if frames:
        at = data.draw(st.integers(0, frames[-1].start + frames[-1].size - 1))
        file[at] ^= 1 << data.draw(st.integers(0, 7))
    reader = SeekableReader(io.BytesIO(file))
    for frame in frames:
        found = b""
        while len(found) < frame.length and (piece := reader.read(frame.length, frame.text + len(found))):
            found += piece
        assert found in (text[frame.text : frame.text + frame.length], bytes(frame.length))


def test_tables_with_checksums_are_read_too() -> None:
    """Our own have none: each frame has its own."""
    frame = zstd.compress(b"text")
    entry = struct.pack("<III", len(frame), 4, 0)
    table = entry + struct.pack("<IBI", 1, 0x80, 0x8F92EAB1)
    file = frame + struct.pack("<II", 0x184D2A5E, len(table)) + table
    assert SeekableReader(io.BytesIO(file)).read(9, 1) == b"ext"


def test_a_reader_that_wants_all_is_told_of_a_damaged_frame() -> None:
    file = bytearray(written([b"first", b"second", b"third"]))
    (_, second, _) = frames_of(io.BytesIO(file))
    file[second.start + second.size - 1] ^= 1  # of its checksum
    reader = SeekableReader(io.BytesIO(file), whole=True)
    assert list(reader.damaged()) == [second]
    assert (reader.read(9, 0), reader.read(9, 11)) == (b"first", b"third")
    with pytest.raises(DamagedFrameError) as raised:
        reader.read(9, 7)
    assert raised.value.frame == second


def test_a_file_without_a_table_is_read_from_its_start() -> None:
    text = bytes(range(256)) * 2_000  # several pieces
    for file in (zstd.compress(text), zstd.compress(text[:300_000]) + zstd.compress(text[300_000:])):
        reader = PlainReader(io.BytesIO(file))
        for offset in (400_000, 3, 511_990, 0):
            assert reader.read(5, offset) == text[offset : offset + 5]
        assert reader.read(5, len(text)) == b""
        assert PlainReader(io.BytesIO(file)).end() == (len(text), True)
    cut = zstd.compress(text[:300_000]) + zstd.compress(text[300_000:])[:-9]
    size, is_whole = PlainReader(io.BytesIO(cut)).end()
    assert not is_whole
    assert 0 < size < len(text)
    assert PlainReader(io.BytesIO(b"")).end() == (0, False)
