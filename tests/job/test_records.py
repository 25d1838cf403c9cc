"""Records of finished URLs, journal events and counters: what is stored comes back, and hostile bytes are an error."""

from __future__ import annotations

import contextlib
import json
import math
import re
from datetime import UTC, datetime
from typing import Any

import msgspec.msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawler.base.settings.parts import OUTPUT_FIELDS, OutputSettings
from crawler.frontier.entry import Entry
from crawler.job.metrics.catalogue import URL_KINDS, Counters
from crawler.job.records import (
    Done,
    Exchanged,
    JournalError,
    Outcome,
    PageRecord,
    Position,
    Profile,
    count_done,
    decode_counters,
    decode_done,
    decode_seen,
    encode_admitted,
    encode_counters,
    encode_done,
    encode_forgotten,
    encode_page,
    sequence_key,
    time_label,
)
from crawler.url.refusal.forbidden_targets import Rule
from crawler.url.scope.bounds import Limit
from tests.frontier.test_entry import entries

u64 = st.integers(0, 2**64 - 1)
u32 = st.integers(0, 2**32 - 1)
outcomes = st.sampled_from(Outcome)
positions = st.builds(
    lambda file, end, length, crc: Position(file, max(end, length), length, crc), file=u32, end=u64, length=u32, crc=u32
)
done_events = st.builds(
    Done,
    outcome=outcomes,
    status=st.none() | st.integers(1, 2**16 - 1),
    entry=entries,
    positions=st.lists(positions, min_size=1, max_size=3).map(tuple),
)
texts = st.none() | st.text(max_size=50)
exchanges = st.builds(
    Exchanged,
    etag=texts,
    last_modified=texts,
    address=texts,
    seconds=st.none() | st.floats(0, 1e6),
    tries=st.none() | u32,
    headers=st.none() | st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=9), min_size=1),
)
profiles = st.builds(Profile, title=texts, language=texts, canonical=texts, charset=texts, payload_digest=texts)
page_records = st.builds(
    PageRecord,
    entry=entries,
    outcome=outcomes,
    fetched_at=st.floats(0, 4e9),
    status=st.none() | st.integers(100, 999),
    error=texts,
    content_type=texts,
    size=st.none() | u64,
    links=u32,
    location=texts,
    exchanged=exchanges,
    profile=profiles,
)


@given(done_events)
def test_a_done_event_comes_back(done: Done) -> None:
    assert decode_done(encode_done(done)) == done


@given(st.binary(max_size=120) | st.binary(max_size=120).map(b"\x03".__add__))
def test_any_bytes_are_a_done_event_or_a_journal_error(data: bytes) -> None:
    try:
        done = decode_done(data)
    except JournalError:
        return
    assert done.positions
    assert all(0 <= position.length <= position.end for position in done.positions)


@given(done_events, st.data())
def test_a_damaged_done_event_is_an_event_or_a_journal_error(done: Done, data: st.DataObject) -> None:
    stored = bytearray(encode_done(done))
    stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(JournalError):
        decode_done(bytes(stored[: data.draw(st.integers(0, len(stored)))]))


def test_another_version_is_named() -> None:
    with pytest.raises(JournalError, match="version 9, not 3"):
        decode_done(b"\x09\x00\xc8\x00\x00")


digests = st.integers(1, 5).flatmap(lambda count: st.binary(min_size=16 * count, max_size=16 * count))


@given(digests)
def test_events_of_the_seen_set_come_back(keys: bytes) -> None:
    assert decode_seen(encode_admitted(keys)) == (False, keys)
    assert decode_seen(encode_forgotten(keys)) == (True, keys)


@given(st.binary(max_size=70) | st.binary(max_size=70).map(b"-".__add__))
def test_any_bytes_are_an_event_of_the_seen_set_or_a_journal_error(data: bytes) -> None:
    try:
        forgotten, keys = decode_seen(data)
    except JournalError:
        return
    assert keys
    assert len(keys) % 16 == 0
    assert data == (encode_forgotten(keys) if forgotten else encode_admitted(keys))


@given(u64, u64)
def test_sequence_keys_sort_by_their_number(one: int, other: int) -> None:
    assert (sequence_key(one) < sequence_key(other)) == (one < other)


@given(page_records)
def test_a_record_is_one_line_of_json_with_all_fields(record: PageRecord) -> None:
    line = encode_page(record)
    assert line.isascii()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    row = json.loads(line)
    moment = row.pop("fetched_at")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment)
    assert math.isclose(datetime.fromisoformat(moment).timestamp(), record.fetched_at, abs_tol=0.002)
    wanted = {
        "url": record.entry.href,
        "status": record.status,
        "error": record.error,
        "outcome": record.outcome,
        "depth": record.entry.depth,
        "via": record.entry.via,
        "content_type": record.content_type,
        "bytes": record.size,
        "links": record.links,
    }
    if record.location is not None:
        wanted["location"] = record.location
    if record.entry.probe:
        wanted["probe"] = True
    if record.entry.is_leaf:
        wanted["embedded"] = True
    elif record.entry.reach:
        wanted["hops_outside"] = record.entry.reach
    said = (record.profile._asdict() | record.exchanged._asdict()).items()
    wanted |= {name: value for name, value in said if value is not None}
    assert row == wanted


anything = st.text(st.characters(), max_size=30)  # lone surrogates too: libraries put them into their words
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda nested: st.lists(nested, max_size=3) | st.dictionaries(st.text(max_size=5), nested, max_size=3),
    max_leaves=8,
)


@given(anything, anything, st.dictionaries(st.text(max_size=5), values, min_size=1, max_size=3))
def test_any_text_and_what_code_said_are_read_back_from_one_line_in_ascii(
    error: str, title: str, data: dict[str, Any]
) -> None:
    entry, profile = Entry("http://h.test/", 0), Profile(title=title)
    line = encode_page(PageRecord(entry, Outcome.FAILED, 0.0, error=error, profile=profile, data=data))
    assert line.isascii()
    assert line.count(b"\n") == 1
    row = json.loads(line)
    assert (row["error"], row["title"], row["data"]) == (error, title, data)


@given(st.floats(0, 4e9) | st.integers(0, 4 * 10**9).map(lambda whole: whole + 0.9999996))
def test_a_time_is_cut_to_milliseconds(seconds: float) -> None:
    exact = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    assert time_label(seconds) == exact.replace("+00:00", "Z")


def test_a_setting_may_leave_out_any_field_but_the_headers_which_it_names() -> None:
    assert (*Profile._fields, *Exchanged._fields) == (*OUTPUT_FIELDS, "headers")
    assert set(OutputSettings().fields) == {*OUTPUT_FIELDS} - {"payload_digest"}


COUNTED = list(Counters.__struct_fields__)
counters = st.builds(
    Counters,
    **dict.fromkeys(COUNTED, u64)
    | {
        "urls": st.lists(u64, min_size=len(URL_KINDS), max_size=len(URL_KINDS)),
        "urls_held_back": st.dictionaries(st.sampled_from(Rule), u64),
        "links_left_out": st.dictionaries(st.sampled_from(Limit), u64),
        **dict.fromkeys(
            ("render_requests", "pages_rendered", "status", "calls_code_failed"), st.dictionaries(st.text(), u64)
        ),
        "audited": st.lists(u64),
    },
)


@given(counters)
def test_counters_come_back(counted: Counters) -> None:
    assert decode_counters(encode_counters(counted)) == counted


@given(st.binary(max_size=300) | st.binary(max_size=300).map(b"\x01".__add__))
@example(b"\x01" + msgspec.msgpack.encode([0] * (len(COUNTED) + 1)))
@example(b"\x01" + msgspec.msgpack.encode(["0"]))
def test_any_bytes_are_counters_or_a_journal_error(data: bytes) -> None:
    try:
        counted = decode_counters(data)
    except JournalError:
        return
    assert decode_counters(encode_counters(counted)) == counted


def test_counters_of_a_version_or_with_fields_that_this_program_does_not_know_are_refused() -> None:
    for data in (b"", b"\x02\x90", b"\x01" + msgspec.msgpack.encode([0] * (len(COUNTED) + 1))):
        with pytest.raises(JournalError):
            decode_counters(data)


@given(outcomes, st.none() | st.integers(0, 999))
def test_a_url_counted_and_taken_back_leaves_no_trace(outcome: Outcome, status: int | None) -> None:
    counted = Counters(urls_admitted=1)
    count_done(counted, outcome, status)
    assert (counted.done, counted.pending) == (1, 0)
    count_done(counted, outcome, status, by=-1)
    assert counted == Counters(urls_admitted=1)
