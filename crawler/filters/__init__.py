"""Membership filters: which of these URLs were seen before?

A *seen-set* is asked for every outlink of every page, so it decides how many URLs a crawl can know. Kept
exactly, a URL costs about a hundred bytes; kept in a Bloom filter, two to four, at the price that now and
then a new URL is taken for a known one and silently skipped. The filters here say how often: before they are
built, while they fill, and how many URLs it has cost so far.

From low to high:

    digests    key -> the 128 bits that stand for it, hashed once
    storage    the memory of the bits
    model      how often a blocked filter is wrong, computed
    protocol   what every kind of seen-set offers
    format     one stored piece of a seen-set
    batch      digests prepared for all slices that are asked
    imprint    a slice's memory as it was at one moment, copied while it changes
    slices     what a chain asks of one fixed filter
    guava      Bloom filters as Guava writes them
    blocked, classic, mitz, counting, cuckoo, table
               fixed filters
    sample     the false-positive rate as it really was
    link, chain
               slices that together are a seen-set
    compaction larger slices in place of a chain
    scalable, bloom, growing
               the kinds
    kinds      the kinds by name, and seen-sets in files
    advisor    when a filter will be full, and what it will cost
    projection what it will be when more URLs are in it

Nothing here opens a file, reads a clock or knows asyncio. One thing is asked of the machine, by ``storage`` before it
takes memory: how much is free.
"""

from __future__ import annotations

from crawler.filters.advisor import Advice, Plan, advise, not_planned, plan, plan_compacted
from crawler.filters.bloom import Bitmap, BloomFilter
from crawler.filters.chain import Chain, ForgettingChain
from crawler.filters.compaction import Successor
from crawler.filters.digests import DIGEST_BYTES, digest_keys, digest_lines
from crawler.filters.format import FormatError, SegmentSum, read_segment, write_segment
from crawler.filters.growing import CountingFilter, CuckooFilter, DigestTable
from crawler.filters.guava import GuavaBloomFilter
from crawler.filters.kinds import KINDS, load_seen, make_seen, read_seen, write_seen
from crawler.filters.projection import Projection, project
from crawler.filters.protocol import (
    JSON,
    AbsentKeyError,
    FilterError,
    FullError,
    MeasuredFpp,
    NoMemoryError,
    Part,
    SeenSet,
    SeenSnapshot,
    SeenStatistics,
    Segment,
    SliceStatistics,
)
from crawler.filters.scalable import ScalableBloomFilter

__all__ = [
    "DIGEST_BYTES",
    "JSON",
    "KINDS",
    "AbsentKeyError",
    "Advice",
    "Bitmap",
    "BloomFilter",
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
