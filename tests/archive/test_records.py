"""The records of an exchange. What they say is asked of warcio and FastWARC."""

from __future__ import annotations

import gzip
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.archive.capture import Earlier, payload_digest
from crawler.archive.gzip_member import by_isal, by_zlib, member, members
from crawler.archive.http_block import Answer, Request, request_block, response_head
from crawler.archive.labels import date_label, digest_label, milliseconds, record_id, sha1
from crawler.archive.warc_record import warcinfo
from tests.archive.exchanges import (
    AT,
    HTML,
    PAGE,
    RANDOM,
    answers,
    archived,
    blocks,
    bodies,
    exchange,
    fast_bodies,
    fields,
    headers,
)
from tests.examples import TIMES

ANSWER = Answer(200, b"OK", HTML, PAGE)
EARLIER = Earlier("http://h.test/first", AT - 60_000)


@settings(max_examples=20 * TIMES)
@given(answers)
@example(Answer(200, b"OK", (), b""))
@example(Answer(200, b"OK", ((b"X", b"\xff\xc3\xa4"), (b"x", b""), (b"X", b"again")), b"\r\n\r\nWARC/1.1\r\n\x1f\x8b"))
def test_whatever_was_received_comes_back(answer: Answer) -> None:
    data = members(archived(exchange(answer)))
    kinds = [kind for kind, _ in blocks(data)]
    assert kinds == ["response", "request", "metadata"]
    assert blocks(data)[0][1] == response_head(answer) + answer.body
    assert bodies(data)[0] == fast_bodies(data)[0] == ("response", answer.body)
    written = fields(data)[0]
    assert written["WARC-Payload-Digest"] == digest_label(sha1(answer.body))
    assert written.get("WARC-Truncated", "") == answer.truncated


@settings(max_examples=10 * TIMES)
@given(headers)
def test_whatever_was_sent_comes_back(sent: list[tuple[bytes, bytes]]) -> None:
    capture = exchange(ANSWER)._replace(request=Request(b"/a?b", sent))
    kind, block = blocks(members(archived(capture)))[1]
    lines = [name + b": " + value for name, value in sent if name.lower() not in (b"cookie", b"authorization")]
    assert (kind, block) == ("request", b"\r\n".join([b"GET /a?b HTTP/1.1", *lines, b"", b""]))


def test_a_response_and_what_belongs_to_it() -> None:
    response, request, metadata = fields(members(archived(exchange(ANSWER), about=[("via", "http://h.test/")])))
    assert response["WARC-Type"] == "response"
    assert response["WARC-Target-URI"] == "http://h.test/a"
    assert response["WARC-Date"] == "2023-11-14T22:13:20.123Z"
    assert response["WARC-IP-Address"] == "192.0.2.1"
    assert response["Content-Type"] == "application/http; msgtype=response"
    assert "WARC-Truncated" not in response
    assert "WARC-Concurrent-To" not in response
    for each in (request, metadata):
        assert each["WARC-Concurrent-To"] == response["WARC-Record-ID"]
        assert each["WARC-Date"] == response["WARC-Date"]
    ids = {each["WARC-Record-ID"] for each in (response, request, metadata)}
    assert len(ids) == 3


def test_what_is_not_known_is_left_out() -> None:
    capture = exchange(ANSWER)._replace(address=None, request=None)
    (response,) = fields(members(archived(capture, about=())))
    assert "WARC-IP-Address" not in response


def test_the_transfer_coding_is_gone_and_named_otherwise() -> None:
    answer = ANSWER._replace(headers=((b"transfer-Encoding", b"chunked"), (b"Content-Encoding", b"gzip")))
    head = response_head(answer)
    assert head == b"HTTP/1.1 200 OK\r\nX-Orig-transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    assert bodies(members(archived(exchange(answer))))[0] == ("response", PAGE)


def test_no_header_breaks_out_of_its_line() -> None:
    folded = Answer(200, b"O\r\nK", ((b"X", b"a\r\n b\nc\rd"),), b"")
    assert response_head(folded) == b"HTTP/1.1 200 O K\r\nX: a  b c d\r\n\r\n"


def test_nothing_that_logs_in_is_archived() -> None:
    secrets = ((b"Authorization", b"Basic secret"), (b"cookie", b"secret"), (b"Proxy-authorization", b"secret"))
    assert request_block(Request(b"/", (*secrets, (b"Host", b"h")))) == b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


def test_a_known_payload_is_not_written_again() -> None:
    data = members(archived(exchange(ANSWER), EARLIER))
    assert [kind for kind, _ in blocks(data)] == ["revisit", "request", "metadata"]
    revisit = fields(data)[0]
    assert revisit["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert revisit["WARC-Payload-Digest"] == digest_label(sha1(PAGE))
    assert revisit["WARC-Refers-To-Target-URI"] == "http://h.test/first"
    assert revisit["WARC-Refers-To-Date"] == "2023-11-14T22:12:20.123Z"
    assert revisit["WARC-Truncated"] == "length"
    assert blocks(data)[0][1] == response_head(ANSWER)
    assert bodies(data)[0] == ("revisit", b"")


@pytest.mark.parametrize("answer", [ANSWER._replace(body=b""), ANSWER._replace(truncated="length")])
def test_an_empty_or_cut_payload_is_no_reason_for_a_revisit(answer: Answer) -> None:
    assert payload_digest(answer) is None
    assert fields(members(archived(exchange(answer), EARLIER)))[0]["WARC-Type"] == "response"


@pytest.mark.parametrize("earlier", [None, EARLIER, EARLIER._replace(digest=sha1(PAGE))])
def test_not_modified_is_a_revisit(earlier: Earlier | None) -> None:
    answer = Answer(304, b"Not Modified", ((b"ETag", b'"1"'),), b"")
    revisit = fields(members(archived(exchange(answer), earlier)))[0]
    assert revisit["WARC-Type"] == "revisit"
    assert revisit["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
    assert revisit.get("WARC-Refers-To-Target-URI") == (earlier and earlier.url)
    digest = None if earlier is None or earlier.digest is None else digest_label(earlier.digest)
    assert revisit.get("WARC-Payload-Digest") == digest


def test_the_head_of_a_file_says_what_wrote_it() -> None:
    data = members(
        [warcinfo("crawl-000001.warc.gz", date_label(AT), record_id(RANDOM[:16]), [("software", "crawler")])]
    )
    (info,) = fields(data)
    ((kind, block),) = blocks(data)
    assert (kind, info["WARC-Filename"]) == ("warcinfo", "crawl-000001.warc.gz")
    assert info["Content-Type"] == "application/warc-fields"
    assert block.splitlines()[:2] == [b"software: crawler", b"format: WARC File Format 1.1"]


@given(st.text(max_size=30))
def test_no_field_breaks_out_of_its_line(text: str) -> None:
    data = members(archived(exchange(ANSWER), about=[("title", text), ("end", "1")]))
    lines = blocks(data)[2][1].split(b"\r\n")
    assert len(lines) == (3 if text else 2)
    assert lines[-2:] == [b"end: 1", b""]
    assert not text.isprintable() or not text or lines[0].decode() == f"title: {text}"


def test_dates_lose_no_millisecond() -> None:
    assert date_label(milliseconds(1_700_000_000.9995)) == "2023-11-14T22:13:20.999Z"
    assert date_label(0) == "1970-01-01T00:00:00.000Z"


@given(st.binary(min_size=16, max_size=16))
def test_an_id_is_a_random_uuid(random: bytes) -> None:
    assert re.fullmatch(
        r"<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}>", record_id(random)
    )
    assert record_id(random)[10:18] == random.hex()[:8]


@pytest.mark.parametrize("compress", [by_isal, by_zlib, member])
def test_a_member_is_gzip_of_no_time_and_place(compress: object) -> None:
    assert callable(compress)
    made = compress(PAGE)
    assert gzip.decompress(made) == PAGE
    assert made == compress(PAGE)
    assert len(made) < len(PAGE) / 4
