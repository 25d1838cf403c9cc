"""Exchanges, and what others read of the records that are made of them."""

from __future__ import annotations

import io
from collections.abc import Iterable

from fastwarc.warc import ArchiveIterator as FastIterator
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from crawler.archive.capture import RANDOM_BYTES, Capture, Earlier, payload_digest, records
from crawler.archive.http_block import Answer, Headers, Request

RANDOM = bytes(range(RANDOM_BYTES))
AT = 1_700_000_000_123  # 2023-11-14T22:13:20.123Z
PAGE = b"<!doctype html><title>Page</title><p>" + b"words and more words " * 40
HTML: Headers = ((b"Server", b"test"), (b"Content-Type", b"text/html; charset=utf-8"))

# A token, and a value as a server may send it: any bytes but line ends and NUL, no white space around.
names = st.from_regex(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}", fullmatch=True).filter(
    lambda name: name.lower() not in (b"transfer-encoding", b"content-encoding")
)
values = st.binary(max_size=40).map(lambda value: value.translate(None, b"\r\n\0\x0b\x0c").strip())
headers = st.lists(st.tuples(names, values), max_size=6)
answers = st.builds(
    Answer,
    st.sampled_from([200, 204, 301, 404, 503]),
    st.sampled_from([b"OK", b"", b"Not Found", b"\xff"]),
    headers,
    st.binary(max_size=3_000),
    st.sampled_from(["", "length", "time", "disconnect"]),
)


def exchange(answer: Answer, url: str = "http://h.test/a", at: int = AT) -> Capture:
    request = Request(b"/a", ((b"Host", b"h.test"), (b"User-Agent", b"crawler")))
    return Capture(url, at, "192.0.2.1", request, answer)


def archived(
    capture: Capture, earlier: Earlier | None = None, about: Iterable[tuple[str, str]] = (("via", "http://h.test/"),)
) -> list[bytes]:
    return records(capture, payload_digest(capture.answer), earlier, about, RANDOM)


def blocks(data: bytes) -> list[tuple[str, bytes]]:
    """Kind and block of each record, byte for byte, as warcio reads them."""
    return [(each.rec_type, each.raw_stream.read()) for each in ArchiveIterator(io.BytesIO(data), no_record_parse=True)]


def bodies(data: bytes) -> list[tuple[str, bytes]]:
    """Kind and body of each record as warcio reads them, which raises if a digest is wrong."""
    return [
        (each.rec_type, each.raw_stream.read()) for each in ArchiveIterator(io.BytesIO(data), check_digests="raise")
    ]


def fields(data: bytes) -> list[dict[str, str]]:
    """The named fields of each record."""
    return [dict(each.rec_headers.headers) for each in ArchiveIterator(io.BytesIO(data))]


def fast_bodies(data: bytes) -> list[tuple[str, bytes]]:
    """Kind and body of each record as FastWARC reads them, its digests compared."""
    for each in FastIterator(io.BytesIO(data), parse_http=False):
        assert each.verify_block_digest(), each.headers
    found = []
    for each in FastIterator(io.BytesIO(data)):
        kind, body = str(each.record_type), each.reader.read()
        found.append((kind, body))
    for each in FastIterator(io.BytesIO(data)):
        assert str(each.record_type) != "response" or each.verify_payload_digest(), each.headers
    return found
