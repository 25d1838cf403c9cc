"""Steps of a job as bytes: what is written is read again, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.replica.replica_codec import ReplicaCodec
from crawler.job.replica.seal import ChunkError
from crawler.job.replica.step_codec import START, Chunk, Mark, Step, Written

SECRET = b"the secret of a crawl"
NUMBERS = st.integers(0, 2**64 - 1)
STEPS = st.lists(
    st.builds(
        Step,
        st.binary(max_size=200),
        st.lists(st.builds(Written, st.integers(0, 2**32 - 1), NUMBERS, st.binary(max_size=100)), max_size=3),
        st.lists(st.tuples(st.binary(min_size=32, max_size=32), st.binary(max_size=100)), max_size=2),
    ),
    max_size=4,
)
CHUNKS = st.builds(Chunk, st.integers(0, 1023), NUMBERS, NUMBERS, st.integers(1, 2**63), STEPS)


@given(CHUNKS)
def test_what_is_written_is_read_again(chunk: Chunk) -> None:
    assert ReplicaCodec(SECRET).decode(ReplicaCodec(SECRET).encode(chunk)) == chunk


@given(CHUNKS, st.data())
def test_damage_is_told(chunk: Chunk, data: st.DataObject) -> None:
    whole = ReplicaCodec(SECRET).encode(chunk)
    at = data.draw(st.integers(0, len(whole) - 1))
    other = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    for damaged in (whole[:at] + other + whole[at + 1 :], whole[:at], whole + b"\0"):
        with pytest.raises(ChunkError):
            ReplicaCodec(SECRET).decode(damaged)


def test_steps_of_another_crawl_are_none() -> None:
    chunk = Chunk(3, 7, 7, 1, [Step(b"batch")])
    with pytest.raises(ChunkError, match="another crawl"):
        ReplicaCodec(b"another secret").decode(ReplicaCodec(SECRET).encode(chunk))


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
