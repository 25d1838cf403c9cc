"""Finds payloads that are already archived, using rows that map the digest of a payload to its capture. Other rows map
the validators of a later conditional request to the capture that a 304 response would confirm.

A row starts with the sequence number of the record whose parts contain the payload. If the end of a file is cut off,
the rows of the records that it contained must be deleted too.
"""

from __future__ import annotations

import hashlib
import re
import struct
from typing import NamedTuple

from crawler.web.archive.exchange_records import Earlier

DIGEST = 20  # bytes of a digest
SEQUENCE = 8  # bytes of the sequence number at the start of a row

_VERSION = 1
_CAPTURE = struct.Struct("<BQ")
_CONDITION = re.compile(rb"(?m)^(if-none-match|if-modified-since): *([^\r\n]*)", re.IGNORECASE)


class PayloadError(ValueError):
    """The bytes are not a row of a known version."""


def encode_payload(at: int, url: str) -> bytes:
    """Return the row of a payload whose digest is its key, without the sequence number."""
    return _CAPTURE.pack(_VERSION, at) + url.encode("ascii")


class Validators(NamedTuple):
    """The validators of a response: the values of ``ETag`` and ``Last-Modified``."""

    etag: str | None
    modified: str | None


NO_VALIDATORS = Validators(None, None)


def sent_validators(request: bytes) -> Validators:
    """Return the validators in the head of a conditional request."""
    found = {name.lower(): value.decode("latin-1") for name, value in _CONDITION.findall(request)}
    return Validators(found.get(b"if-none-match"), found.get(b"if-modified-since"))


def validity_key(url: str, stated: Validators) -> bytes:
    """Return the key of the row for a URL and its validators. The key is not a SHA-1 digest; otherwise an attacker
    could make a payload whose row replaces this one."""
    told = "\n".join((url, stated.etag or "", stated.modified or "")).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(told, digest_size=DIGEST, person=b"not modified").digest()


def decode_payload(key: bytes, row: bytes) -> Earlier:
    """Return the capture that a row describes. The row's ``key`` becomes the digest of the capture's payload, unless
    the key is a ``validity_key``. Raises PayloadError."""
    try:
        version, at = _CAPTURE.unpack_from(row, SEQUENCE)
        if version != _VERSION:
            raise PayloadError(f"the payload row has version {version}, not {_VERSION}")
        url = row[SEQUENCE + _CAPTURE.size :].decode("ascii")
    except (struct.error, UnicodeDecodeError) as error:
        raise PayloadError(f"not a payload row: {error}") from error
    if not url or len(key) != DIGEST:
        raise PayloadError("not a payload row: its URL or its digest is missing")
    return Earlier(url, at, key)
