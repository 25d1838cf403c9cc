"""Membership filters: which of these URLs were seen before?

A *seen-set* is asked for every outlink of every page, so it decides how many URLs a crawl can know. Kept
exactly, a URL costs about a hundred bytes; kept in a Bloom filter, two to four, at the price that now and
then a new URL is taken for a known one and silently skipped. The filters here say how often: before they are
built, while they fill, and how many URLs it has cost so far.

The filters of fixed size that a seen-set is made of are in ``crawler.slices``. From low to high:

    protocol          what every kind of seen-set offers
    segment_format    one stored piece of a seen-set
    guava             Bloom filters as Guava writes them
    watched_keys      the false-positive rate as it really was
    slice_entry, chain
                      slices that together are a seen-set
    chain_compaction  one larger slice in place of a chain
    scalable, bloom, growing
                      the kinds
    kinds             the kinds by name, and seen-sets in files
    advisor           when a filter will be full, and what it will cost
    projection        what it will be when more URLs are in it

Nothing here opens a file, reads a clock or knows asyncio.
"""

from __future__ import annotations

from crawler.filters.advisor import Advice, Plan, advise, not_planned, plan, plan_compacted
from crawler.filters.bloom import Bitmap, BloomFilter
from crawler.filters.chain import Chain, ForgettingChain
from crawler.filters.chain_compaction import Successor
from crawler.filters.growing import CountingFilter, CuckooFilter, DigestTable
from crawler.filters.guava import GuavaBloomFilter
from crawler.filters.kinds import KINDS, load_seen, make_seen, read_seen, write_seen
from crawler.filters.projection import Projection, project
from crawler.filters.protocol import (
    MeasuredFpp,
    Part,
    SeenSet,
    SeenSnapshot,
    SeenStatistics,
    Segment,
    SliceStatistics,
)
from crawler.filters.scalable import ScalableBloomFilter
from crawler.filters.segment_format import FormatError, SegmentSum, read_segment, write_segment
from crawler.slices.digests import DIGEST_BYTES, digest_keys, digest_lines
from crawler.slices.errors import JSON, AbsentKeyError, CannotForgetError, FilterError, FullError, NoMemoryError

__all__ = [
    "DIGEST_BYTES",
    "JSON",
    "KINDS",
    "AbsentKeyError",
    "Advice",
    "Bitmap",
    "BloomFilter",
    "CannotForgetError",
    "Chain",
    "CountingFilter",
    "CuckooFilter",
    "DigestTable",
    "FilterError",
    "ForgettingChain",
    "FormatError",
    "FullError",
    "GuavaBloomFilter",
    "MeasuredFpp",
    "NoMemoryError",
    "Part",
    "Plan",
    "Projection",
    "ScalableBloomFilter",
    "SeenSet",
    "SeenSnapshot",
    "SeenStatistics",
    "Segment",
    "SegmentSum",
    "SliceStatistics",
    "Successor",
    "advise",
    "digest_keys",
    "digest_lines",
    "load_seen",
    "make_seen",
    "not_planned",
    "plan",
    "plan_compacted",
    "project",
    "read_seen",
    "read_segment",
    "write_seen",
    "write_segment",
]
