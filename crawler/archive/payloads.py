"""Which payloads are archived already: digest of the payload to the capture, as rows of a store.

A row names the transaction whose records hold the payload. If those records are lost with the end of a file, so is the
row: whoever cuts the file deletes the rows of those transactions.
"""

from __future__ import annotations

import struct

from crawler.archive.capture import Earlier

_VERSION = 1
_ROW = struct.Struct("<BQQ")


class PayloadError(ValueError):
    """The bytes are no row of a known version."""


def encode_payload(sequence: int, earlier: Earlier) -> bytes:
    """The row of a payload whose digest is its key. ``sequence`` is the number of the transaction."""
    return _ROW.pack(_VERSION, sequence, earlier.at) + earlier.url.encode("ascii")


def decode_payload(digest: bytes, row: bytes) -> tuple[int, Earlier]:
    """The inverse: number of the transaction, and the capture. Raises PayloadError."""
    try:
        version, sequence, at = _ROW.unpack_from(row)
        if version != _VERSION:
            raise PayloadError(f"a payload row of version {version}, not {_VERSION}")
        return sequence, Earlier(row[_ROW.size :].decode("ascii"), at, digest)
    except (struct.error, UnicodeDecodeError) as error:
        raise PayloadError(f"not a payload row: {error}") from error
