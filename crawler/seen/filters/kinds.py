"""The kinds of seen-set by name, and seen-sets in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from crawler.base.settings.parts import SeenSettings
from crawler.seen.filters.bloom import Bitmap, BloomFilter
from crawler.seen.filters.chain import damaged
from crawler.seen.filters.counting import CountingFilter
from crawler.seen.filters.cuckoo import CuckooFilter
from crawler.seen.filters.digest_table import DigestTable
from crawler.seen.filters.filter_file import FilePath, read_file, read_parts
from crawler.seen.filters.key_filter import Filter
from crawler.seen.filters.scalable import ScalableBloomFilter
from crawler.seen.slices.errors import FilterError
from crawler.seen.slices.key_hash import KeyHash

_CLASSES: dict[str, type[Filter]] = {
    made.kind: made for made in (ScalableBloomFilter, BloomFilter, CountingFilter, CuckooFilter, DigestTable, Bitmap)
}
KINDS = tuple(_CLASSES)


def make_seen(settings: SeenSettings, hash: KeyHash | None = None) -> Filter:
    """Return an empty seen-set of the kind in ``settings``; if ``hash`` is None, it gets a hash with a secret of its
    own.

    Raises ``FilterError`` for an unknown kind or invalid parameters.
    """
    hash = hash or KeyHash.new(settings.hash)
    fpp, capacity = settings.fpp, settings.capacity
    match settings.kind:
        case "scalable":
            return ScalableBloomFilter(fpp, capacity, layout=settings.layout, hash=hash)
        case "bloom":
            return BloomFilter(capacity, fpp, layout=settings.layout, hash=hash)
        case "counting":
            return CountingFilter(fpp, capacity, hash=hash)
        case "cuckoo":
            return CuckooFilter(fpp, capacity, hash=hash)
        case "digest":
            return DigestTable(capacity, hash=hash)
        case "bitmap":
            return Bitmap(capacity, fpp, hash=hash)
        case unknown:
            raise _unknown(unknown)


def load_seen(state: Mapping[str, Any], segments: Mapping[str, memoryview]) -> Filter:
    """Load a snapshot's seen-set from its state and the stored buffers of its segments, by name.

    To get the current seen-set, the caller must then ``restore`` the keys added since the snapshot, in order.
    Raises ``FilterError`` if the parts do not fit together.
    """
    try:
        kind = state["parameters"]["kind"]
        known = kind in _CLASSES
    except (LookupError, TypeError) as problem:
        raise damaged(problem) from problem
    if not known:
        raise _unknown(kind)
    return _CLASSES[kind].from_snapshot(state, segments)


def _unknown(kind: object) -> FilterError:
    return FilterError(f"unknown kind of seen-set: {kind}; use one of {', '.join(KINDS)}")


def load(path: FilePath) -> Filter:
    """Load the filter in the file at ``path``, whatever its kind. Raises ``FormatError``, ``FilterError``,
    ``OSError``."""
    found = read_file(path)
    return load_seen(found.state, found.segments)


def write_seen(out: BinaryIO, seen: Filter) -> None:
    """Write ``seen`` at ``out``'s position, in the format of ``Filter.save``."""
    seen.write_to(out)


def read_seen(inp: BinaryIO, *, limit: int) -> Filter:
    """Read the output of ``write_seen``. ``limit`` bounds the bytes of a segment; the size of the file is a good
    choice.

    Raises ``FormatError`` for bytes in another format, ``FilterError`` for parts that do not fit together.
    """
    found = read_parts(inp, limit)
    return load_seen(found.state, found.segments)
