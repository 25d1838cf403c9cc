"""The pages about the filters, held to the code."""

from __future__ import annotations

import io
import re

import pytest

from crawler.seen.filters import KINDS, SEED_ZERO, ScalableBloomFilter, read_segment
from crawler.seen.filters.planning import plan
from crawler.seen.slices.bit_storage import adopt_words
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from crawler.seen.slices.layouts import BLOOM_LAYOUTS, stored_slice
from tests.documents import page
from tests.hashing import HASH

FORMAT = page("format-slice.md")
FILTERS = page("filters.md")


def example() -> bytes:
    rows = re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} ?){1,16})", FORMAT, re.MULTILINE)
    return bytes.fromhex("".join(rows))


def test_the_example_of_the_format_is_the_slice_that_the_text_says() -> None:
    header, payload = read_segment(io.BytesIO(example()), limit=1000)
    assert header == {"layout": "paired", "hashes": 16, "blocks_per_region": 3, "capacity": 2, "fpp": 0.01}
    words = adopt_words(payload)
    assert words[8] == 1 << 14 | 1 << 57
    assert {at // 4 for at in words.nonzero()[0].tolist()} == {2, 5}
    key = "https://example.org/"
    assert SEED_ZERO.digest_keys([key]).hex() in FORMAT
    part = stored_slice(header, words)
    assert part.holds(Batch(digest_words(SEED_ZERO.digest_keys([key, "https://example.com/"])))).tolist() == [
        True,
        False,
    ]
    # A new slice with that key has the very same bits.
    again = type(part)(part.shape, 3)  # type: ignore[attr-defined, call-arg]
    again.put(Batch(digest_words(SEED_ZERO.digest_keys([key]))))
    assert again.words.tolist() == words.tolist()


def test_every_layout_that_can_be_stored_is_in_the_format() -> None:
    for layout in (*BLOOM_LAYOUTS, "counters", "cuckoo", "table"):
        assert f"| `{layout}` |" in FORMAT


def test_the_table_of_kinds_gives_the_sizes_that_are_planned() -> None:
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\| ([\d.]+) GB \|", FILTERS, re.MULTILINE))
    assert set(rows) == set(KINDS)
    for made in plan(10**9):
        assert float(rows[made.kind]) == pytest.approx(made.size / 1e9, rel=0.02)


def test_every_figure_of_the_statistics_is_explained() -> None:
    figures = ScalableBloomFilter(hash=HASH).statistics()
    explained = set(re.findall(r"`(?:slices\[\]\.)?(\w+)`", FILTERS))
    plain = {"kind", "slices", "bytes", "bits_per_url", "capacity", "bits", "hashes"}
    assert set(figures) - plain <= explained
    assert set(figures["slices"][0]) - plain <= explained
