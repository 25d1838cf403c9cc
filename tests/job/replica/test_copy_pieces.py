"""Steps and copies of a job as bytes: what is written is read again, nothing else is, and no path leads elsewhere."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.replica.copy_pieces import CopyBegin, CopyEnd, FilePart, HandOver, Piece, decode_piece
from crawler.job.replica.replica_codec import Message, ReplicaCodec
from crawler.job.replica.seal import ChunkError, Kind, Sealing
from crawler.job.replica.step_codec import START, Chunk, Mark, Step, Written

SECRET = b"the secret of a crawl"
CODEC = ReplicaCodec(SECRET)
NUMBERS = st.integers(0, 2**64 - 1)
PARTITIONS = st.integers(0, 2**16 - 1)
PATHS = st.from_regex(r"\A[A-Za-z0-9_-][A-Za-z0-9_.-]{0,20}(/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,20}){0,3}\Z")
PARTS = st.lists(st.builds(FilePart, PATHS, NUMBERS, st.binary(max_size=200)), max_size=5)
STEPS = st.lists(
    st.builds(
        Step,
        st.binary(max_size=200),
        st.lists(st.builds(Written, st.integers(0, 2**32 - 1), NUMBERS, st.binary(max_size=100)), max_size=3),
        st.lists(st.tuples(st.binary(min_size=32, max_size=32), st.binary(max_size=100)), max_size=2),
    ),
    max_size=4,
)
MESSAGES = st.one_of(
    st.builds(Chunk, st.integers(0, 1023), NUMBERS, NUMBERS, st.integers(1, 2**63), STEPS),
    st.builds(CopyBegin, PARTITIONS, NUMBERS),
    st.builds(Piece, PARTITIONS, NUMBERS, NUMBERS, PARTS),
    st.builds(CopyEnd, PARTITIONS, NUMBERS, NUMBERS),
    st.builds(HandOver, PARTITIONS, NUMBERS, NUMBERS),
)


@given(MESSAGES)
def test_what_is_written_is_read_again(message: Message) -> None:
    decoded = CODEC.decode(CODEC.encode(message))
    assert decoded == message
    assert type(decoded) is type(message)


@given(MESSAGES, st.data())
def test_damage_is_told(message: Message, data: st.DataObject) -> None:
    whole = CODEC.encode(message)
    at = data.draw(st.integers(0, len(whole) - 1))
    other = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    for damaged in (whole[:at] + other + whole[at + 1 :], whole[:at], whole + b"\0"):
        with pytest.raises(ChunkError):
            CODEC.decode(damaged)


@given(st.sampled_from(Kind), st.binary(max_size=300))
def test_any_content_is_read_or_refused(kind: Kind, content: bytes) -> None:
    sealed = Sealing(SECRET).close(kind, 1, content)
    try:
        message = CODEC.decode(sealed)
    except ChunkError:
        return
    assert CODEC.decode(CODEC.encode(message)) == message


@given(PARTS, st.data())
def test_any_change_of_a_piece_is_read_or_refused(parts: list[FilePart], data: st.DataObject) -> None:
    """Also with a seal that fits, as a member of the crawl with a fault would make it."""
    content = bytearray(Sealing(SECRET).open(CODEC.encode(Piece(1, 2, 3, parts))).content)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        piece = decode_piece(1, memoryview(bytes(content)))
    except ChunkError:
        return
    for path, _, _ in piece.parts:
        assert not path.startswith("/")
        assert ".." not in path.split("/")


BAD = ["", "/etc/passwd", "../x", "a/../x", "a//b", "a/", ".hidden", "a/./b", "a\0b", "a b", "ä", "a\n", "x" * 256]
BAD += ["/".join("abcdefghi"), "/".join(["x" * 100] * 6)]


@pytest.mark.parametrize("path", BAD)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        CODEC.encode(Piece(1, 2, 0, [FilePart(path, 0, b"")]))
    name = path.encode()
    text = struct.pack(">IH", 1, len(name)) + name + struct.pack(">QI", 0, 1) + b"x"
    with pytest.raises(ChunkError):
        decode_piece(1, memoryview(struct.pack(">QQB", 2, 0, 0) + text))


def test_steps_of_another_crawl_are_none() -> None:
    with pytest.raises(ChunkError, match="another crawl"):
        ReplicaCodec(b"another secret").decode(CODEC.encode(Chunk(3, 7, 7, 1, [Step(b"batch")])))


def test_a_chunk_says_which_state_it_follows() -> None:
    first = Chunk(3, 9, 7, 41, [Step(b"a"), Step(b"b")])
    assert first.follows == Mark(7, 40)
    assert first.reaches == Mark(9, 42)


@given(st.builds(Mark, NUMBERS, NUMBERS))
def test_a_mark_is_read_again(mark: Mark) -> None:
    assert Mark.decode(mark.encode()) == mark


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02" + bytes(16)])
def test_other_bytes_are_no_mark(value: bytes) -> None:
    with pytest.raises(ChunkError):
        Mark.decode(value)
    assert Mark.decode(None) == START
