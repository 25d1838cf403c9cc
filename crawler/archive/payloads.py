"""Which payloads are archived already: digest of the payload to the capture, as rows of a store.

A row begins with the sequence number of the record whose parts have the payload. If those are lost with the end of a
file, so is the row: whoever cuts the file deletes the rows from that number on.
"""

from __future__ import annotations

import struct

from crawler.archive.capture_records import Earlier

DIGEST = 20  # bytes of a digest
SEQUENCE = 8  # of the number at the beginning of a row

_VERSION = 1
_CAPTURE = struct.Struct("<BQ")


class PayloadError(ValueError):
    """The bytes are no row of a known version."""


def encode_payload(at: int, url: str) -> bytes:
    """The row of a payload whose digest is its key, less its sequence number."""
    return _CAPTURE.pack(_VERSION, at) + url.encode("ascii")


def decode_payload(digest: bytes, row: bytes) -> Earlier:
    """The capture that has the payload. Raises PayloadError."""
    try:
        version, at = _CAPTURE.unpack_from(row, SEQUENCE)
        if version != _VERSION:
            raise PayloadError(f"a payload row of version {version}, not {_VERSION}")
        url = row[SEQUENCE + _CAPTURE.size :].decode("ascii")
    except (struct.error, UnicodeDecodeError) as error:
        raise PayloadError(f"not a payload row: {error}") from error
    if not url or len(digest) != DIGEST:
        raise PayloadError("not a payload row: its URL or its digest is missing")
    return Earlier(url, at, digest)


DIGEST = 20  # bytes of a digest
