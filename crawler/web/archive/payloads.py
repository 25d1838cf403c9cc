"""Which payloads are archived already: digest of the payload to the capture, as rows of a store. Other rows have the
capture that an answer 304 calls valid: those that may be asked for so again, by what they are asked with.

A row begins with the sequence number of the record whose parts have the payload. If those are lost with the end of a
file, so is the row: whoever cuts the file deletes the rows from that number on.
"""

from __future__ import annotations

import hashlib
import re
import struct
from typing import NamedTuple

from crawler.web.archive.capture_records import Earlier

DIGEST = 20  # bytes of a digest
SEQUENCE = 8  # of the number at the beginning of a row

_VERSION = 1
_CAPTURE = struct.Struct("<BQ")
_CONDITION = re.compile(rb"(?m)^(if-none-match|if-modified-since): *([^\r\n]*)", re.IGNORECASE)


class PayloadError(ValueError):
    """The bytes are no row of a known version."""


def encode_payload(at: int, url: str) -> bytes:
    """The row of a payload whose digest is its key, less its sequence number."""
    return _CAPTURE.pack(_VERSION, at) + url.encode("ascii")


class Validators(NamedTuple):
    """What a server is asked whether it is still valid: the values of ``ETag`` and ``Last-Modified``."""

    etag: str | None
    modified: str | None


NO_VALIDATORS = Validators(None, None)


def sent_validators(request: bytes) -> Validators:
    """The validators of a conditional request, by its head."""
    found = {name.lower(): value.decode("latin-1") for name, value in _CONDITION.findall(request)}
    return Validators(found.get(b"if-none-match"), found.get(b"if-modified-since"))


def validity_key(url: str, stated: Validators) -> bytes:
    """The key of the row whose capture is valid as long as the server says so of its validators. It is no SHA-1, or a
    payload could be made that takes the place of the row."""
    told = "\n".join((url, stated.etag or "", stated.modified or "")).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(told, digest_size=DIGEST, person=b"not modified").digest()


def decode_payload(key: bytes, row: bytes) -> Earlier:
    """The capture that a row names, whose payload has the key as its digest, unless that is a ``validity_key``. Raises
    PayloadError."""
    try:
        version, at = _CAPTURE.unpack_from(row, SEQUENCE)
        if version != _VERSION:
            raise PayloadError(f"a payload row of version {version}, not {_VERSION}")
        url = row[SEQUENCE + _CAPTURE.size :].decode("ascii")
    except (struct.error, UnicodeDecodeError) as error:
        raise PayloadError(f"not a payload row: {error}") from error
    if not url or len(key) != DIGEST:
        raise PayloadError("not a payload row: its URL or its digest is missing")
    return Earlier(url, at, key)
