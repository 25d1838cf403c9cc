"""Membership filters: which of these URLs were seen before?

A *seen-set* is asked for every outlink of every page, so it is the part that decides how many URLs a crawl
can know. Kept exactly, a URL costs about a hundred bytes; kept in a Bloom filter, two to four, at the price
that now and then a new URL is taken for a known one and silently skipped. The filters here say how often:
before they are built, while they fill, and how many URLs it has cost so far.

From low to high:

    digests    key -> the 128 bits that stand for it, hashed once
    storage    the memory of the bits
    model      how often a filter is wrong, computed
    blocked    one fixed filter whose keys keep to one or two blocks
    scalable   a chain of them for a number of keys that nobody knows beforehand
    protocol   what every kind of seen-set offers
    format     one stored piece of a seen-set

Nothing here opens a file, reads a clock or knows asyncio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawler.filters.digests import DIGEST_BYTES, digest_keys, digest_lines
from crawler.filters.format import FormatError, SegmentSum, read_segment, write_segment
from crawler.filters.protocol import (
    JSON,
    FilterError,
    MeasuredFpp,
    SeenSet,
    SeenSnapshot,
    SeenStatistics,
    Segment,
    SliceStatistics,
)
from crawler.filters.scalable import ScalableBloomFilter
from crawler.settings import SeenSettings

__all__ = [
    "DIGEST_BYTES",
    "JSON",
    "FilterError",
    "FormatError",
    "MeasuredFpp",
    "ScalableBloomFilter",
    "SeenSet",
    "SeenSnapshot",
    "SeenStatistics",
    "Segment",
    "SegmentSum",
    "SliceStatistics",
    "digest_keys",
    "digest_lines",
    "load_seen",
    "make_seen",
    "read_segment",
    "write_segment",
]


def make_seen(settings: SeenSettings) -> SeenSet:
    """An empty seen-set of the kind asked for.

    Raises ``FilterError`` when there is no such kind, or none with these parameters.
    """
    if settings.kind == ScalableBloomFilter.kind:
        return ScalableBloomFilter(
            settings.fpp, settings.capacity, growth=settings.growth, tightening=settings.tightening
        )
    raise FilterError(f"there is no seen-set of kind {settings.kind}")


def load_seen(state: Mapping[str, Any], segments: Mapping[str, memoryview]) -> SeenSet:
    """The seen-set of a snapshot: its state, and its segments' stored buffers by name.

    Restoring the keys that were new since (``restore``, in their order) then gives the seen-set as it was.
    Raises ``FilterError`` when the parts do not fit together.
    """
    kind = state["parameters"]["kind"]
    if kind == ScalableBloomFilter.kind:
        return ScalableBloomFilter.from_snapshot(state, segments)
    raise FilterError(f"there is no seen-set of kind {kind}")
