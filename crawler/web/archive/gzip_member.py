"""A record as a gzip member of its own, so that a reader can begin at any record.

ISA-L compresses several times faster than zlib, and pages about as well. Without it zlib does, at a level that costs
what a crawl can bear.
"""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Callable, Iterable

try:
    from isal import isal_zlib
except ImportError:  # the extra `warc` is not installed
    isal_zlib = None  # type: ignore[assignment]

_GZIP = 31  # the largest window, and a gzip header
_ISAL_LEVEL = 1
_SHORT = 1_024  # bytes: the tables of level 1 take longer to set up than such a record takes at level 0
_ZLIB_LEVEL = 3


def slow_compression(library: str = "isal") -> str | None:
    """One line that says how to install what compresses fast; None if it is installed."""
    if importlib.util.find_spec(library) is not None:
        return None
    return f"the output warc costs four times as much time to compress without {library}: pip install {library}"


def by_isal(data: bytes) -> bytes:
    return isal_zlib.compress(data, 0 if len(data) < _SHORT else _ISAL_LEVEL, _GZIP)


def by_zlib(data: bytes) -> bytes:
    return zlib.compress(data, _ZLIB_LEVEL, _GZIP)


member: Callable[[bytes], bytes] = by_zlib if isal_zlib is None else by_isal


def members(records: Iterable[bytes]) -> bytes:
    """The records as they are appended to a file."""
    return b"".join([member(each) for each in records])
