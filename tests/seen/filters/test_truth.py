"""Are the figures about false positives true? Simulations against an exact set."""

from __future__ import annotations

import math
import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.seen.filters import (
    Bitmap,
    BloomFilter,
    CountingFilter,
    FilterError,
    ScalableBloomFilter,
    load_seen,
)
from crawler.seen.filters.watched_keys import WatchedKeys, wilson
from crawler.seen.slices.blocked_slice import Batch, BlockedSlice
from crawler.seen.slices.digests import digest_words
from tests.examples import TIMES
from tests.hashing import HASH, random_digests
from tests.seen.filters.kinds import Maker


def batch_of(digests: bytes) -> Batch:
    return Batch(digest_words(digests))


def random_halves(seed: int, count: int) -> npt.NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), np.uint64)


@pytest.mark.parametrize("layout", ["paired", "blocked"])
def test_the_expected_number_of_skipped_urls_is_what_a_simulation_skips(layout: str) -> None:
    """Thirty crawls over several slices each, many keys asked more than once: a key is skipped once at most."""
    skipped = expected = 0.0
    for crawl in range(30):
        draw = random.Random(crawl)
        seen = ScalableBloomFilter(0.1, 500, layout=layout, hash=HASH)
        asked: set[str] = set()
        for _ in range(200):
            batch = [f"{crawl}/{draw.randrange(6000)}" for _ in range(draw.randrange(1, 40))]
            asked.update(batch)
            seen.add_many(batch)
        skipped += len(asked) - len(seen)
        expected += seen.statistics()["expected_urls_skipped"]
    assert expected > 1000
    assert abs(skipped - expected) <= 4 * math.sqrt(expected)


def test_the_measured_rate_is_the_rate_among_all_keys() -> None:
    seen = ScalableBloomFilter(0.05, 4000, hash=HASH)
    asked = 0
    for start in range(0, 200_000, 700):
        keys = [f"https://example.org/{number}" for number in range(start, start + 700)]
        asked += len(keys)
        seen.add_many(keys)
        seen.add_many(keys[::3])  # known keys tell nothing and must not count
    truth = (asked - len(seen)) / asked
    measured = seen.statistics()["fpp_measured"]
    assert measured is not None
    assert 2**15 <= measured["sample"] <= 2**16
    assert measured["low"] < measured["value"] < measured["high"]
    # Four standard deviations of a sample of that size.
    assert abs(measured["value"] - truth) < 4 * math.sqrt(truth / measured["sample"])


def test_one_by_one_and_in_batches_the_same_keys_are_watched() -> None:
    halves = random_halves(1, 5000)
    batched, single = WatchedKeys(100), WatchedKeys(100)
    for start in range(0, len(halves), 64):
        batched.watch(halves[start : start + 64], np.arange(0, 64, 2))
    for position, (h1, h2) in enumerate(halves.tolist()):
        single.watch_one(h1, h2, position % 64 % 2 == 0)
    assert batched.dump() == single.dump()
    measured = batched.measured()
    assert measured is not None
    assert 0.2 < measured["value"] < 0.8


@given(st.integers(1, 40), st.integers(0, 2000), st.integers(0, 99))
def test_the_number_of_watched_keys_is_bounded_and_stored(limit: int, count: int, seed: int) -> None:
    watched = WatchedKeys(limit)
    watched.watch(random_halves(seed, count), np.array([0, 3, 7]))
    measured = watched.measured()
    assert count or measured is None
    assert measured is None or 0 < measured["sample"] <= limit
    again = WatchedKeys.load(watched.dump())
    assert again.measured() == measured
    more = random_halves(seed + 100, 50)
    for copy in (watched, again):
        copy.watch(more)
    assert again.dump() == watched.dump()


@pytest.mark.parametrize("damaged", [b"", b"short", bytes(23), np.array([5, 99, 0], "<u8").tobytes()])
def test_watched_keys_that_are_none_are_refused(damaged: bytes) -> None:
    with pytest.raises(FilterError, match="watched keys"):
        WatchedKeys.load(memoryview(damaged))


@pytest.mark.parametrize(
    ("wrong", "sample", "low", "high"),
    [
        (0, 10, 0.0, 0.2775328),
        (1, 10, 0.0178762, 0.4041500),
        (15, 148, 0.0623864, 0.1604872),
        (10, 10, 0.7224672, 1.0),
    ],
)
def test_wilson_intervals(wrong: int, sample: int, low: float, high: float) -> None:
    """15 of 148 is Newcombe's (1998) example: 0.0624 to 0.1605; all follow from the formula by hand."""
    assert wilson(wrong, sample) == pytest.approx((low, high), abs=1e-6)


SHAPES = [(times, batch) for times in (3, 6, 12) for batch in (50, 1_000)]


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("fpp", [0.3, 0.02, 1e-3])
def test_fill_tells_count_and_fpp(blocks: int, fpp: float) -> None:
    """The figures read off the bits: the number of keys within 1%, the fpp as often as it happens."""
    part = BlockedSlice.sized(150_000, fpp, blocks=blocks)
    asked = round(150_000 / (1 - fpp))
    for start in range(0, asked, 5000):
        part.put(batch_of(random_digests(start + 1, min(5000, asked - start))))
    assert part.count_estimated() == pytest.approx(asked, rel=0.01)
    absent = 400_000
    wrong = int(part.holds(batch_of(random_digests(0, absent))).sum())
    for told in (part.fpp_estimated(), part.fpp_at(asked), fpp):
        assert wrong == pytest.approx(told * absent, abs=4 * math.sqrt(told * absent) + 0.05 * told * absent)


# In short batches and a little overfull, in long ones and very much so: a long look crosses them.
@pytest.mark.parametrize(("times", "batch"), [(3, 50), (12, 1_000)] if TIMES == 1 else SHAPES)
@pytest.mark.parametrize(
    "make",
    [
        lambda: BloomFilter(10_000, 0.01, hash=HASH),
        lambda: BloomFilter(10_000, 0.01, layout="blocked", hash=HASH),
        lambda: BloomFilter(10_000, 0.01, layout="classic", hash=HASH),
        lambda: Bitmap(10_000, 0.1, hash=HASH),
        lambda: CountingFilter(0.001, 10_000, growth=None, hash=HASH),
    ],
)
def test_what_an_overfull_filter_has_skipped_is_told_whatever_the_batches(make: Maker, times: int, batch: int) -> None:
    skipped = expected = 0.0
    for number in range(2):
        seen, draw = make(), np.random.default_rng(number)
        for _ in range(0, 10_000 * times, batch):
            seen.add_digests(draw.bytes(16 * batch))
        skipped += 10_000 * times - len(seen)
        expected += seen.statistics()["expected_urls_skipped"]
    assert expected == pytest.approx(skipped, rel=0.1)


def test_what_an_overfull_filter_has_skipped_is_told_the_same_after_it_was_stored() -> None:
    seen = BloomFilter(1_000, 0.01, hash=HASH)
    seen.add_digests(np.random.default_rng(1).bytes(16 * 9_000))
    shot = seen.snapshot()
    again = load_seen(shot.state, {part.name: memoryview(bytearray(part.buffer)) for part in shot.segments})
    assert again.statistics() == seen.statistics()
