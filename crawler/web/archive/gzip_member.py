"""Compresses each record to its own gzip member, so that a reader can start at any record.

ISA-L compresses several times faster than zlib, with a similar ratio. Without it, zlib is used, at a level that is fast
enough for a crawl.
"""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Callable, Iterable

try:
    from isal import isal_zlib
except ImportError:  # the optional dependency `warc` is not installed
    isal_zlib = None  # type: ignore[assignment]

_GZIP = 31  # the largest window, and a gzip header
_ISAL_LEVEL = 1
_SHORT = 1_024  # bytes; shorter records compress faster at level 0, because level 1 has a setup cost
_ZLIB_LEVEL = 3


def slow_compression(library: str = "isal") -> str | None:
    """Return a one-line hint on how to install the faster library, or None if it is already installed."""
    if importlib.util.find_spec(library) is not None:
        return None
    return f"without {library}, compressing WARC files takes four times as long: pip install {library}"


def by_isal(data: bytes) -> bytes:
    return isal_zlib.compress(data, 0 if len(data) < _SHORT else _ISAL_LEVEL, _GZIP)


def by_zlib(data: bytes) -> bytes:
    return zlib.compress(data, _ZLIB_LEVEL, _GZIP)


member: Callable[[bytes], bytes] = by_zlib if isal_zlib is None else by_isal


def members(records: Iterable[bytes]) -> bytes:
    """Return the compressed records, for appending to a file."""
    return b"".join([member(each) for each in records])
