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
    ScalableBloomFilter,
)
from crawler.seen.filters.watched_keys import WatchedKeys, wilson
from tests.hashing import HASH


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
