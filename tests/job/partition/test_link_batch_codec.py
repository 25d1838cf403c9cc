"""Batches on a carrier: what comes back is what was sent, and everything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.partition.link_batch_codec import Ack, LinkBatch, LinkBatchCodec, LinkBatchError

CODEC = LinkBatchCodec(b"secret of a crawl")
u16, u64 = st.integers(0, 2**16 - 1), st.integers(0, 2**64 - 1)
link_batches = st.builds(LinkBatch, u16, u16, u64, u64, st.lists(st.binary(max_size=40), max_size=6))
acks = st.builds(Ack, u16, u16, u64, u64)


@given(link_batches | acks)
def test_they_come_back(sent: LinkBatch | Ack) -> None:
    back = CODEC.decode(CODEC.encode(sent))
    assert type(back) is type(sent)
    assert back == sent


@given(link_batches | acks, st.data())
def test_a_damaged_one_is_refused(sent: LinkBatch | Ack, data: st.DataObject) -> None:
    encoded = bytearray(CODEC.encode(sent))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(LinkBatchError):
        CODEC.decode(bytes(encoded))


@given(link_batches | acks, st.data())
def test_a_part_of_one_is_refused(sent: LinkBatch | Ack, data: st.DataObject) -> None:
    encoded = CODEC.encode(sent)
    with pytest.raises(LinkBatchError):
        CODEC.decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(LinkBatchError):
        CODEC.decode(encoded + b"x")


@given(link_batches | acks)
def test_one_of_another_crawl_is_refused(sent: LinkBatch | Ack) -> None:
    with pytest.raises(LinkBatchError, match="another crawl"):
        LinkBatchCodec(b"secret of another").decode(CODEC.encode(sent))


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: b"\xca\x01\x01" + data))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(LinkBatchError):
        CODEC.decode(data)


def test_a_newer_version_says_so() -> None:
    encoded = CODEC.encode(Ack(1, 2, 3, 4))
    with pytest.raises(LinkBatchError, match="a batch has version 9, not 2"):
        CODEC.decode(encoded[:1] + b"\x09" + encoded[2:])
