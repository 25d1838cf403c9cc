"""Host records: what must outlive the process comes back, and no bytes are taken for a record that are none."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from crawler.frontier.host import Host, HostRecordError, RevisitLane, decode_host, encode_host, host_name, stored_host
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import FailureClass
from tests.frontier.hosts import made_host

counts = st.integers(0, 2**64 - 1)
times = st.floats(allow_nan=False, allow_infinity=False)


def made(size: int, other: int, **rest: Any) -> Host:
    return made_host("h.test", size=max(size, other), retry_size=min(size, other), **rest)


records = st.builds(
    made,
    size=counts,
    other=counts,
    next_time=times,
    last_request=times,
    hold_reason=st.sampled_from(HoldReason),
    crawl_delay=st.none() | st.floats(0, 1e300),
    backoff=st.integers(0, 255),
    robots_until=times,
    robots_tries=st.integers(0, 127),
    signed=st.booleans(),
    fetched=counts,
    failed=counts,
    size_read=counts,
    seconds=st.floats(0, 1e300),
    latency=st.none() | st.floats(0, 1e6),
    in_a_row=st.integers(0, 255),
    snoozes=st.integers(0, 255),
    server_errors=st.integers(1, 255),
    last=st.none() | st.sampled_from(FailureClass),
    errors=st.none() | st.dictionaries(st.sampled_from(FailureClass), st.integers(1, 2**32 - 1), min_size=1),
    address=st.none() | st.sampled_from(["192.0.2.7", "2001:db8::7"]),
    paused=st.booleans(),
    blocked=st.booleans(),
    retired=st.booleans(),
    opic_score=st.floats(0, 1e300),
    cursor=st.integers(0, 2**128).map(lambda number: b"\x01" + number.to_bytes(17, "big")),
    complete=st.booleans(),
    revisits=st.none() | st.just(RevisitLane(0)),
)


def stored_parts(host: Host) -> tuple[object, ...]:
    """What must come back."""
    reason = host.politeness.hold_reason
    stored = reason if reason <= HoldReason.ERRORS else HoldReason.GAP  # the others are decided anew
    politeness = replace(host.politeness, hold_reason=stored)
    return host.name, host.queue.size, host.queue.retry_size, asdict(politeness), host.failures, asdict(host.tally)


@given(records)
def test_a_record_comes_back(host: Host) -> None:
    back = decode_host("h.test", encode_host(host))
    assert stored_parts(back) == stored_parts(host)
    assert back.queue.cursor.rstrip(b"\0") == host.queue.bound.rstrip(b"\0")
    assert (back.queue.revisits is None) == (host.queue.revisits is None)


@given(st.binary(max_size=120) | st.binary(max_size=166).map(b"\x92\x04".__add__))
def test_any_bytes_are_a_record_or_a_record_error(data: bytes) -> None:
    try:
        host = decode_host("h.test", data)
    except HostRecordError:
        return
    assert math.isfinite(host.politeness.next_time)
    assert 0 <= host.queue.retry_size <= host.queue.size
    assert host.politeness.crawl_delay is None or host.politeness.crawl_delay >= 0


@given(records, st.data())
def test_a_damaged_record_is_a_record_or_a_record_error(host: Host, data: st.DataObject) -> None:
    stored = bytearray(encode_host(host))
    for _ in range(data.draw(st.integers(1, 8))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(HostRecordError):
        decode_host("h.test", bytes(stored))


@given(st.binary(max_size=30))
def test_any_key_is_a_host_or_a_record_error(key: bytes) -> None:
    try:
        name = host_name(key)
    except HostRecordError:
        assert not key or not key.isascii()
        return
    assert name.encode("ascii") == key


@given(records)
def test_the_fields_of_a_record_are_those_of_its_host(host: Host) -> None:
    value = encode_host(host)
    found = stored_host(value)
    assert (found.size, found.politeness.next_time, found.tally.fetched) == (
        host.queue.size,
        host.politeness.next_time,
        host.tally.fetched,
    )
    for odd in (b"", value[:-1], b"\x92\x03" + value[2:]):
        with pytest.raises(HostRecordError):
            stored_host(odd)
