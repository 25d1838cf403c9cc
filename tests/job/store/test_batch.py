"""The encoding of a batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Batch, BatchError, Family

KNOWN = Batch()
KNOWN.put(Family.HOSTS, b"h.test:80", b"\x01\x02")
KNOWN.delete(Family.PENDING, b"h.test:80\0slot")
KNOWN.delete_range(Family.DONE, b"", bytes(8))

some = st.binary(max_size=40)
changes = st.one_of(
    st.tuples(st.sampled_from(Family), some, some, st.none()),
    st.tuples(st.sampled_from(Family), some, st.none(), st.none()),
    st.tuples(st.sampled_from(Family), some, st.none(), some),
)


@given(st.lists(changes, max_size=20))
def test_what_is_encoded_is_decoded(wanted: list[tuple[Family, bytes, bytes | None, bytes | None]]) -> None:
    batch = Batch()
    batch.changes = list(wanted)
    assert Batch.decode(batch.encode()).changes == wanted


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: KNOWN.encode()[:6] + tail))
def test_other_bytes_are_no_batch(data: bytes) -> None:
    try:
        found = Batch.decode(data)
    except BatchError:
        return
    assert Batch.decode(found.encode()).changes == found.changes


@given(st.integers(0, len(KNOWN.encode()) - 1))
def test_a_batch_that_is_cut_is_none(size: int) -> None:
    with pytest.raises(BatchError):
        Batch.decode(KNOWN.encode()[:size])
    with pytest.raises(BatchError):
        Batch.decode(KNOWN.encode() + bytes(1 + size % 3))
