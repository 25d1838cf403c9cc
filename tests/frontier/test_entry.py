"""Entries and their keys: what is stored comes back, in the order in which it is to be taken; nothing else does."""

from __future__ import annotations

import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.entry import (
    CLASSES,
    CRASHES_MOST,
    FRESH_END,
    FRESH_START,
    RETRY_START,
    Entry,
    EntryError,
    decode_entry,
    encode_entry,
    fresh_slot,
    is_retry,
    pending_key,
    retry_slot,
    retry_time,
    revisit_slot,
    split_pending_key,
)

URL_TEXT = string.ascii_letters + string.digits + "-._~:/?#[]@!$&'()*+,;=%"
hrefs = st.text(URL_TEXT, min_size=1, max_size=200).map("http://h.test/".__add__)
hosts = st.text(string.ascii_lowercase + string.digits + ".:-[]", min_size=1, max_size=80)
bytes_ = st.integers(0, 255)
numbers = st.integers(0, 2**64 - 1)
classes = st.integers(0, CLASSES - 1)
times = st.floats(0, 1e12)
entries = st.builds(
    Entry,
    href=hrefs,
    chain=st.binary(max_size=5).map(lambda some: some * 9),
    depth=st.integers(0, 2**32 - 1),
    via=st.none() | hrefs,
    seed=st.booleans(),
    redirects=bytes_,
    tries=bytes_,
    throttled=bytes_,
    priority=classes,
    score=st.floats(0, 2.0**100, width=32),
    crashes=st.integers(0, CRASHES_MOST),
    probe=st.booleans(),
    reach=st.integers(0, 3),
    changefreq=st.integers(0, 3),
    last=st.integers(0, 7),
    cut=st.sampled_from([None, "length", "chunked"]),
)
slots = (
    st.builds(fresh_slot, numbers, classes, numbers)
    | st.builds(retry_slot, times, numbers)
    | st.builds(revisit_slot, numbers)
)


@given(entries)
def test_an_entry_comes_back(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


@given(st.binary(max_size=100))
def test_any_bytes_are_an_entry_or_an_entry_error(data: bytes) -> None:
    try:
        entry = decode_entry(data)
    except EntryError:
        return
    assert decode_entry(encode_entry(entry)) == entry


@given(entries, st.data())
def test_a_damaged_entry_is_an_entry_or_an_entry_error(entry: Entry, data: st.DataObject) -> None:
    stored = bytearray(encode_entry(entry))
    stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(bytes_)
    with contextlib.suppress(EntryError):
        decode_entry(bytes(stored[: data.draw(st.integers(0, len(stored)))]))


@given(hosts, slots)
def test_a_key_comes_back(host: str, slot: bytes) -> None:
    assert split_pending_key(pending_key(host, slot)) == (host, slot)


@given(st.binary(max_size=40) | st.builds(pending_key, hosts, st.binary(max_size=20)))
def test_any_bytes_are_a_key_or_an_entry_error(key: bytes) -> None:
    try:
        host, slot = split_pending_key(key)
    except EntryError:
        return
    assert pending_key(host, slot) == key
    if is_retry(slot):
        assert retry_time(slot) >= 0


@pytest.mark.parametrize(
    "key", [b"", b"h", b"\0", b"h\0", b"h\0\x02" + bytes(17), b"h\0\x01", b"\xff\0\x01" + bytes(17)]
)
def test_keys_that_are_none(key: bytes) -> None:
    with pytest.raises(EntryError):
        split_pending_key(key)


@given(hosts, slots, hosts, slots)
def test_the_entries_of_a_host_lie_together(host: str, slot: bytes, other: str, other_slot: bytes) -> None:
    key = pending_key(host, slot)
    assert pending_key(host, RETRY_START) <= key < pending_key(host, FRESH_END)
    assert (key < pending_key(host, FRESH_START)) == is_retry(slot)
    if other != host:
        foreign = pending_key(other, other_slot)
        assert not pending_key(host, RETRY_START) <= foreign < pending_key(host, FRESH_END)
