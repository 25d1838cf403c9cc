"""The scalable chain against a plain set, at its seams: batches, growth, snapshots."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from crawler.seen.filters import (
    DIGEST_BYTES,
    ScalableBloomFilter,
    SeenSet,
    Segment,
)
from tests.hashing import HASH, digest_keys, random_digests


def urls(start: int, stop: int) -> list[str]:
    return [f"https://www.example.org/{number % 97}/page?id={number}" for number in range(start, stop)]


def slices(seen: SeenSet) -> list[Segment]:
    return [segment for segment in seen.snapshot().segments if segment.name.startswith("slice")]


def contents(seen: SeenSet) -> tuple[object, list[bytes]]:
    return seen.snapshot().state, [bytes(segment.buffer) for segment in slices(seen)]


def told(seen: SeenSet) -> dict[str, object]:
    """All figures that are a function of the new keys: false positives leave no trace in the journal."""
    return {**seen.statistics(), "fpp_measured": None}


@given(st.lists(st.integers(0, 3000).map(str), max_size=300), st.sampled_from(["paired", "blocked"]))
def test_the_plain_loop_and_numpy_agree_bit_by_bit(keys: list[str], layout: str) -> None:
    """Also where the filter is so full that it is often wrong: fpp 0.5."""
    whole = ScalableBloomFilter(0.5, 40, layout=layout, hash=HASH)
    single = ScalableBloomFilter(0.5, 40, layout=layout, hash=HASH)
    for start in range(0, len(keys), 30):
        part = digest_keys(keys[start : start + 30])
        one_by_one = [
            single.contains_digests(part[at : at + DIGEST_BYTES])[0] for at in range(0, len(part), DIGEST_BYTES)
        ]
        assert whole.contains_digests(part) == one_by_one
        fresh = whole.add_digests(part)
        new = b"".join(part[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES] for at in fresh)
        for at in range(0, len(new), DIGEST_BYTES):
            single.restore(new[at : at + DIGEST_BYTES])
    assert contents(whole) == contents(single)


def test_keys_that_share_a_block_within_one_batch_are_all_kept() -> None:
    """4,000 keys into 60 blocks: every block is written dozens of times by one batch."""
    seen = ScalableBloomFilter(0.9, 400, growth=1.0, hash=HASH)
    keys = urls(0, 4000)
    seen.add_many(keys)
    assert all(seen.contains_many(keys))


def test_a_million_keys_from_a_first_slice_of_a_quarter_million_stay_within_the_bound() -> None:
    bound = 0.001
    seen = ScalableBloomFilter(bound, 250_000, hash=HASH)
    skipped = 0
    for part in range(100):
        skipped += 10_000 - len(seen.add_digests(random_digests(part, 10_000)))
    for part in range(100):
        assert all(seen.contains_digests(random_digests(part, 10_000)))
    absent = 500_000
    wrong = sum(sum(seen.contains_digests(random_digests(part, 50_000))) for part in range(1_000, 1_010))
    assert wrong <= bound * absent + 3 * math.sqrt(bound * absent)
    figures = seen.statistics()
    estimated = figures["fpp_estimated"] * absent
    assert abs(wrong - estimated) <= 4 * math.sqrt(estimated) + 0.03 * estimated
    assert abs(skipped - figures["expected_urls_skipped"]) <= 4 * math.sqrt(skipped)
    assert figures["count"] == 1_000_000 - skipped == len(seen)
    assert abs(figures["count_estimated"] / len(seen) - 1) < 0.01
