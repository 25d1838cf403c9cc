"""The records of one exchange: response or revisit, request, metadata.

A payload that is already archived is not written again. A revisit record is written instead, which contains the headers
and refers to the first capture. A payload is the body with its content codings, because readers verify its digest
without decoding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from crawler.web.archive.http_block import REQUEST_TYPE, RESPONSE_TYPE, request_block, response_head, status_of
from crawler.web.archive.labels import ID_BYTES, date_label, digest_label, record_id, sha1
from crawler.web.archive.record_layout import FIELDS_TYPE, Field, Kind, fields_block, lines, one_line, record

DOCUMENT_TYPE = "text/html; charset=utf-8"
RECORDS = 3  # maximum number of records per exchange
RANDOM_BYTES = RECORDS * ID_BYTES  # random bytes for the record ids of one exchange

_UNCHANGED = 304
_PROFILE = "http://netpreserve.org/warc/1.1/revisit/"
_IDENTICAL = _PROFILE + "identical-payload-digest"
_NOT_MODIFIED = _PROFILE + "server-not-modified"


class Capture(NamedTuple):
    """An exchange. ``at`` is its start in milliseconds since the epoch. ``request`` and ``head`` are the heads of
    the messages as they were on the wire; ``request`` is empty if unknown. ``body`` has its content codings but no
    transfer coding. ``address`` is the server's, if known. ``truncated`` is the reason for an incomplete body, in the
    terms of the standard: ``length``, ``time``, ``disconnect`` or ``unspecified``; empty if the body is complete."""

    url: str
    at: int
    request: bytes
    head: bytes
    body: bytes
    address: str | None = None
    truncated: str = ""


class Earlier(NamedTuple):
    """The capture that a revisit refers to: its URL, its time, and the digest of its payload if known."""

    url: str
    at: int
    digest: bytes | None = None


def payload_digest(capture: Capture) -> bytes | None:
    """Return the digest for looking up an earlier capture, or None if the body is empty (a revisit would save nothing)
    or truncated (the missing bytes are unknown)."""
    return sha1(capture.body) if capture.body and not capture.truncated else None


def records(
    capture: Capture, digest: bytes | None, earlier: Earlier | None, about: Iterable[Field], random: bytes
) -> list[bytes]:
    """Return the records of an exchange, the response's first. ``digest`` is the result of ``payload_digest``,
    ``earlier`` is the capture with this digest or, for a 304 response, the capture that is still valid. ``about`` has
    the fields of the metadata record, which is omitted if there are none. ``random`` has ``RANDOM_BYTES`` random
    bytes."""
    own = record_id(random[:ID_BYTES])
    about_all = f"WARC-Target-URI: {one_line(capture.url)}\r\nWARC-Date: {date_label(capture.at)}\r\n"
    exchanged = f"{about_all}WARC-IP-Address: {capture.address}\r\n" if capture.address else about_all
    made = [_answer(capture, digest, earlier, f"WARC-Record-ID: {own}\r\n{exchanged}")]
    beside = f"WARC-Concurrent-To: {own}\r\n"
    if capture.request:
        fields = f"WARC-Record-ID: {record_id(random[ID_BYTES : 2 * ID_BYTES])}\r\n{exchanged}{beside}"
        made.append(record(Kind.REQUEST, fields, REQUEST_TYPE, request_block(capture.request)))
    described = fields_block(about)
    if described:
        fields = f"WARC-Record-ID: {record_id(random[2 * ID_BYTES :])}\r\n{about_all}{beside}"
        made.append(record(Kind.METADATA, fields, FIELDS_TYPE, described))
    return made


def conversion(url: str, at: int, answer: bytes, random: bytes, html: bytes, most: int) -> bytes:
    """Return the record of the document that a browser rendered from a response. ``answer`` contains the random bytes
    from which the response's id was made, ``random`` those for the id of the new record. At most ``most`` bytes of
    ``html`` are stored."""
    fields = (
        f"WARC-Record-ID: {record_id(random[:ID_BYTES])}\r\nWARC-Target-URI: {one_line(url)}\r\n"
        f"WARC-Date: {date_label(at)}\r\nWARC-Refers-To: {record_id(answer[:ID_BYTES])}\r\n"
    )
    cut = "WARC-Truncated: length\r\n" if len(html) > most else ""
    return record(Kind.CONVERSION, fields + cut, DOCUMENT_TYPE, b"", html[:most])


def _answer(capture: Capture, digest: bytes | None, earlier: Earlier | None, common: str) -> bytes:
    head = response_head(capture.head)
    if head.find(b"304", 0, head.find(b"\n")) > 0 and status_of(head) == _UNCHANGED:  # the cheap test comes first
        payload = None if earlier is None else earlier.digest
        return _revisit(head, _NOT_MODIFIED, payload, earlier, common)
    if digest is not None and earlier is not None:
        # The standard requires a field stating that the block does not contain the payload.
        return _revisit(head, _IDENTICAL, digest, earlier, f"{common}WARC-Truncated: length\r\n")
    payload = sha1(capture.body) if digest is None else digest
    cut = f"WARC-Truncated: {capture.truncated}\r\n" if capture.truncated else ""
    fields = f"{common}WARC-Payload-Digest: {digest_label(payload)}\r\n{cut}"
    return record(Kind.RESPONSE, fields, RESPONSE_TYPE, head, capture.body)


def _revisit(head: bytes, profile: str, digest: bytes | None, earlier: Earlier | None, common: str) -> bytes:
    fields = [("WARC-Profile", profile)]
    if digest is not None:
        fields.append(("WARC-Payload-Digest", digest_label(digest)))
    if earlier is not None:
        fields.append(("WARC-Refers-To-Target-URI", earlier.url))
        fields.append(("WARC-Refers-To-Date", date_label(earlier.at)))
    return record(Kind.REVISIT, common + lines(fields), RESPONSE_TYPE, head)
