"""The records of an exchange. What they say is asked of warcio and FastWARC."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.web.archive.exchange_records import Capture, Earlier, payload_digest
from crawler.web.archive.gzip_member import members
from crawler.web.archive.http_block import request_block, response_head, status_of
from crawler.web.archive.labels import date_label, digest_label, record_id, sha1
from crawler.web.archive.record_layout import warcinfo
from tests.examples import TIMES
from tests.web.archive.exchanges import (
    AT,
    HTML,
    PAGE,
    RANDOM,
    REQUEST,
    archived,
    blocks,
    bodies,
    captures,
    exchange,
    fast_bodies,
    fields,
    head,
    lines,
)

CAPTURE = exchange(HTML, PAGE)
EARLIER = Earlier("http://h.test/first", AT - 60_000)


@settings(max_examples=20 * TIMES)
@given(captures)
@example(exchange(head(b"200 OK"), b""))
@example(exchange(head(b"200 OK", (b"X", b"\xff\xc3\xa4"), (b"x", b"")), b"\r\n\r\nWARC/1.1\r\n\x1f\x8b"))
def test_whatever_was_received_comes_back(capture: Capture) -> None:
    data = members(archived(capture))
    kinds = [kind for kind, _ in blocks(data)]
    assert kinds == ["response", "request", "metadata"]
    assert blocks(data)[0][1] == capture.head + capture.body
    assert bodies(data)[0] == fast_bodies(data)[0] == ("response", capture.body)
    written = fields(data)[0]
    assert written["WARC-Payload-Digest"] == digest_label(sha1(capture.body))
    assert written.get("WARC-Truncated", "") == capture.truncated
    assert written.get("WARC-IP-Address") == capture.address


@settings(max_examples=10 * TIMES)
@given(lines)
def test_whatever_was_sent_comes_back(sent: list[tuple[bytes, bytes]]) -> None:
    request = b"\r\n".join([b"GET /a?b HTTP/1.1", *[name + b": " + value for name, value in sent], b"", b""])
    assert blocks(members(archived(CAPTURE._replace(request=request))))[1] == ("request", request)


def test_a_response_and_what_belongs_to_it() -> None:
    response, request, metadata = fields(members(archived(CAPTURE, about=[("via", "http://h.test/")])))
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
        assert not [name for name in each if name.endswith("Digest")]
    ids = {each["WARC-Record-ID"] for each in (response, request, metadata)}
    assert len(ids) == 3


def test_what_is_not_known_is_left_out() -> None:
    (response,) = fields(members(archived(CAPTURE._replace(address=None, request=b""), about=())))
    assert "WARC-IP-Address" not in response


def test_the_transfer_coding_is_gone_and_named_otherwise() -> None:
    received = head(b"200 OK", (b"transfer-Encoding", b"chunked"), (b"X", b"transfer-encoding: no"))
    renamed = b"HTTP/1.1 200 OK\r\nX-Orig-transfer-Encoding: chunked\r\nX: transfer-encoding: no\r\n\r\n"
    assert response_head(received) == renamed
    data = members(archived(exchange(received, PAGE)))
    assert bodies(data)[0] == fast_bodies(data)[0] == ("response", PAGE)


@pytest.mark.parametrize("end", [b"", b"\r\n", b"\r\n\r\n"])
def test_a_head_ends_in_one_empty_line(end: bytes) -> None:
    assert response_head(b"HTTP/1.1 200 OK\r\nA: b" + end) == b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"
    assert request_block(REQUEST.rstrip() + end) == REQUEST


@pytest.mark.parametrize(
    ("first", "status"),
    [(b"HTTP/1.1 304 Not Modified", 304), (b"HTTP/1.0  200", 200), (b"HTTP/1.1 3040", None), (b"", None)],
)
def test_the_status_of_a_head(first: bytes, status: int | None) -> None:
    assert status_of(first) == status


def test_a_known_payload_is_not_written_again() -> None:
    data = members(archived(CAPTURE, EARLIER))
    assert [kind for kind, _ in blocks(data)] == ["revisit", "request", "metadata"]
    revisit = fields(data)[0]
    assert revisit["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert revisit["WARC-Payload-Digest"] == digest_label(sha1(PAGE))
    assert revisit["WARC-Refers-To-Target-URI"] == "http://h.test/first"
    assert revisit["WARC-Refers-To-Date"] == "2023-11-14T22:12:20.123Z"
    assert revisit["WARC-Truncated"] == "length"
    assert blocks(data)[0][1] == HTML
    assert bodies(data)[0] == ("revisit", b"")


@pytest.mark.parametrize("capture", [CAPTURE._replace(body=b""), CAPTURE._replace(truncated="length")])
def test_an_empty_or_cut_payload_is_no_reason_for_a_revisit(capture: Capture) -> None:
    assert payload_digest(capture) is None
    assert fields(members(archived(capture, EARLIER)))[0]["WARC-Type"] == "response"


@pytest.mark.parametrize("earlier", [None, EARLIER, EARLIER._replace(digest=sha1(PAGE))])
def test_not_modified_is_a_revisit(earlier: Earlier | None) -> None:
    capture = exchange(head(b"304 Not Modified", (b"ETag", b'"1"')), b"")
    revisit = fields(members(archived(capture, earlier)))[0]
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
    data = members(archived(CAPTURE, about=[("title", text), ("end", "1")]))
    lines = blocks(data)[2][1].split(b"\r\n")
    assert len(lines) == (3 if text else 2)
    assert lines[-2:] == [b"end: 1", b""]
    assert not text.isprintable() or not text or lines[0].decode() == f"title: {text}"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # warcio leaves its temporary files to the garbage collector
def test_the_example_that_strips_cookies(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text("utf-8")
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    capture = exchange(head(b"200 OK", (b"Set-Cookie", b"a=b"), (b"X", b"y"), (b"set-cookie", b"c=d")), PAGE)
    data, out = members([*archived(capture), *archived(capture, EARLIER)]), io.BytesIO()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=out))
    exec(found[1], {})
    stripped = out.getvalue()
    assert bodies(stripped) == fast_bodies(stripped) == bodies(data)
    assert [block for kind, block in blocks(stripped) if kind == "revisit"] == [head(b"200 OK", (b"X", b"y"))]
    assert b"ookie" not in gzip.decompress(stripped)
