"""Membership filters: which of these URLs were seen before?

A *seen-set* is asked for every outlink of every page, so it decides how many URLs a crawl can know. Kept
exactly, a URL costs about a hundred bytes; kept in a Bloom filter, two to four, at the price that now and
then a new URL is taken for a known one and silently skipped. The filters here say how often: before they are
built, while they fill, and how many URLs it has cost so far.

The filters of fixed size that a seen-set is made of are in ``crawler.seen.slices``. From low to high:

    protocol          what every kind of seen-set offers
    segment_format    one stored piece of a seen-set
    filter_file       seen-sets in files
    guava             Bloom filters as Guava writes them
    watched_keys      the false-positive rate, measured
    slice_entry, chain
                      slices that together are a seen-set, asked by digests
    key_filter        the same, asked by keys
    chain_compaction  one larger slice in place of a chain
    scalable, bloom, counting, cuckoo, digest_table
                      the kinds
    kinds             the kinds by name
    planning          the sizes of slices, before they are made

Nothing here reads a clock or knows asyncio. Only ``filter_file`` opens files, and only those it is given the path of.
Any number of threads may use a filter: each call takes its lock.
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
