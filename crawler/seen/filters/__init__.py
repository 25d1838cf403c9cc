"""Membership filters: they report whether a URL was seen before.

Every outlink of every page is looked up in the *seen-set*, so the seen-set limits how many URLs a crawl can handle.
Stored exactly, a URL takes about a hundred bytes; in a Bloom filter two to four, but a new URL is occasionally reported
as known and silently skipped. The filters here report how often that happens, before they are built and while they
fill, and how many URLs were lost so far.

The fixed-size filters that a seen-set consists of are in ``crawler.seen.slices``. From low to high:

    protocol          the interface of every kind of seen-set
    segment_format    one stored piece of a seen-set
    filter_file       seen-sets in files
    guava             Bloom filters in the format of Guava
    watched_keys      measures the false-positive rate
    slice_entry, chain
                      slices that form a seen-set, looked up by digests
    key_filter        the same slices, looked up by keys
    chain_compaction  replaces a chain by one larger slice
    scalable, bloom, counting, cuckoo, digest_table
                      the kinds
    kinds             the kinds by name
    planning          computes the sizes of slices before they are created

This package reads no clock and does not depend on asyncio. Only ``filter_file`` opens files, at paths that it is given.
Filters are thread-safe: each call takes the filter's lock.
"""

from __future__ import annotations

from crawler.seen.filters.bloom import Bitmap, BloomFilter
from crawler.seen.filters.chain_compaction import SuccessorSlice
from crawler.seen.filters.counting import CountingFilter
from crawler.seen.filters.cuckoo import CuckooFilter
from crawler.seen.filters.digest_table import DigestTable
from crawler.seen.filters.guava import GuavaBloomFilter
from crawler.seen.filters.key_filter import Filter, ForgettingFilter
from crawler.seen.filters.kinds import KINDS, load, load_seen, make_seen, read_seen, write_seen
from crawler.seen.filters.planning import Plan, not_planned, plan, plan_compacted
from crawler.seen.filters.protocol import (
    Claim,
    Compactable,
    Lookup,
    MeasuredFpp,
    NotForgotten,
    Part,
    SeenSet,
    SeenSnapshot,
    SeenStatistics,
    Segment,
    SliceStatistics,
    TimesAdmitted,
)
from crawler.seen.filters.scalable import ScalableBloomFilter
from crawler.seen.filters.segment_format import FormatError, SegmentSum, read_segment, write_segment
from crawler.seen.slices.digests import DIGEST_BYTES, Key
from crawler.seen.slices.errors import (
    JSON,
    AbsentKeyError,
    CannotForgetError,
    FilterError,
    FullError,
    HashMismatchError,
    NoMemoryError,
)
from crawler.seen.slices.key_hash import BLAKE2B, SEED_ZERO, HashDescription, KeyHash

__all__ = [
    "BLAKE2B",
    "DIGEST_BYTES",
    "JSON",
    "KINDS",
    "SEED_ZERO",
    "AbsentKeyError",
    "Bitmap",
    "BloomFilter",
    "CannotForgetError",
    "Claim",
    "Compactable",
    "CountingFilter",
    "CuckooFilter",
    "DigestTable",
    "Filter",
    "FilterError",
    "ForgettingFilter",
    "FormatError",
    "FullError",
    "GuavaBloomFilter",
    "HashDescription",
    "HashMismatchError",
    "Key",
    "KeyHash",
    "Lookup",
    "MeasuredFpp",
    "NoMemoryError",
    "NotForgotten",
    "Part",
    "Plan",
    "ScalableBloomFilter",
    "SeenSet",
    "SeenSnapshot",
    "SeenStatistics",
    "Segment",
    "SegmentSum",
    "SliceStatistics",
    "SuccessorSlice",
    "TimesAdmitted",
    "load",
    "load_seen",
    "make_seen",
    "not_planned",
    "plan",
    "plan_compacted",
    "read_seen",
    "read_segment",
    "write_seen",
    "write_segment",
]
