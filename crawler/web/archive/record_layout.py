"""One WARC record: the version, named fields, an empty line, the block, and two line ends."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from crawler.web.archive.labels import digest_label, sha1

VERSION = b"WARC/1.1\r\n"
FIELDS_TYPE = "application/warc-fields"

Field = tuple[str, str]


class Kind(StrEnum):
    """The WARC record types that the crawler writes."""

    WARCINFO = "warcinfo"
    RESPONSE = "response"
    REVISIT = "revisit"
    REQUEST = "request"
    METADATA = "metadata"
    CONVERSION = "conversion"


_BESIDE = (Kind.REQUEST, Kind.METADATA)


def record(kind: Kind, fields: str, content_type: str, block: bytes, body: bytes = b"") -> bytes:
    """Return the bytes of a record. ``fields`` are lines. ``body`` is the rest of the block, which may be long; if
    there is one, ``fields`` contain its digest. The optional digest of the block is omitted if there is a ``body``, and
    in request and metadata records, because computing it would double the cost, and a gzip member has a checksum
    anyway."""
    said = "" if body or kind in _BESIDE else f"WARC-Block-Digest: {digest_label(sha1(block))}\r\n"
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\n{fields}Content-Type: {content_type}\r\n"
        f"{said}Content-Length: {len(block) + len(body)}\r\n\r\n"
    )
    return b"".join((head.encode(), block, body, b"\r\n\r\n"))


def fields_block(fields: Iterable[Field]) -> bytes:
    """Return named values as a block of the type ``application/warc-fields``, without empty values."""
    return lines(fields).encode()


def lines(fields: Iterable[Field]) -> str:
    """Return named values, one per line, without empty values."""
    return "".join(
        [
            f"{name}: {value if value.isprintable() and value.isascii() else one_line(value)}\r\n"
            for name, value in fields
            if value
        ]
    )


def one_line(text: str) -> str:
    """Return the text without line ends, other control characters and surrogates."""
    if text.isascii() and text.isprintable():
        return text
    printable = "".join([each if each.isprintable() or each == " " else "\ufffd" for each in text])
    return printable.encode("utf-8", "replace").decode("utf-8")


def warcinfo(file_name: str, at: str, record_id: str, about: Iterable[Field]) -> bytes:
    """Return the record at the start of a file, which describes the file and the crawl (``about``)."""
    fields = [("WARC-Record-ID", record_id), ("WARC-Date", at), ("WARC-Filename", file_name)]
    described = [
        *about,
        ("format", "WARC File Format 1.1"),
        ("conformsTo", "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"),
    ]
    return record(Kind.WARCINFO, lines(fields), FIELDS_TYPE, fields_block(described))
