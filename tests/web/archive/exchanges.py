"""Exchanges, and what others read of the records that are made of them."""

from __future__ import annotations

import io
from collections.abc import Iterable

from fastwarc.warc import ArchiveIterator as FastIterator
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from crawler.web.archive.exchange_records import RANDOM_BYTES, Capture, Earlier, payload_digest, records

RANDOM = bytes(range(RANDOM_BYTES))
AT = 1_700_000_000_123  # 2023-11-14T22:13:20.123Z
PAGE = b"<!doctype html><title>Page</title><p>" + b"words and more words " * 40
REQUEST = b"GET /a HTTP/1.1\r\nHost: h.test\r\nUser-Agent: crawler\r\n\r\n"


def head(first: bytes, *headers: tuple[bytes, bytes]) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + first, *[name + b": " + value for name, value in headers], b"", b""])


HTML = head(b"200 OK", (b"Server", b"test"), (b"Content-Type", b"text/html; charset=utf-8"))

# A token, and a value as a server may send it: any bytes but line ends and NUL, no white space around.
names = st.from_regex(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}", fullmatch=True).filter(
    lambda name: name.lower() not in (b"transfer-encoding", b"content-encoding")
)
values = st.binary(max_size=40).map(lambda value: value.translate(None, b"\r\n\0\x0b\x0c").strip())
lines = st.lists(st.tuples(names, values), max_size=6)
heads = st.builds(
    lambda first, headers: head(first, *headers),
    st.sampled_from([b"200 OK", b"204 ", b"301 Moved", b"404 Not Found", b"503 \xff"]),
    lines,
)
captures = st.builds(
    Capture,
    st.just("http://h.test/a"),
    st.integers(0, 4 * 10**12),
    st.just(REQUEST),
    heads,
    st.binary(max_size=3_000),
    st.sampled_from([None, "192.0.2.1", "2001:db8::1"]),
    st.sampled_from(["", "length", "time", "disconnect"]),
)


def exchange(received: bytes, body: bytes, url: str = "http://h.test/a") -> Capture:
    return Capture(url, AT, REQUEST, received, body, "192.0.2.1")


def archived(
    capture: Capture, earlier: Earlier | None = None, about: Iterable[tuple[str, str]] = (("via", "http://h.test/"),)
) -> list[bytes]:
    return records(capture, payload_digest(capture), earlier, about, RANDOM)


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
        beside = str(each.record_type) in ("request", "metadata")
        assert beside or each.verify_block_digest() or "WARC-Payload-Digest" in each.headers, each.headers
    found = []
    for each in FastIterator(io.BytesIO(data)):
        kind, body = str(each.record_type), each.reader.read()
        found.append((kind, body))
    for each in FastIterator(io.BytesIO(data)):
        assert str(each.record_type) != "response" or each.verify_payload_digest(), each.headers
    return found
