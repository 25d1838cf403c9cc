"""Time series that stay small."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.metrics.history import MOST, RECENT, History
from tests.metrics.samples import statistics


def test_rates_are_the_differences_of_counters() -> None:
    history = History()
    history.observe(100.0, statistics(pages_fetched=10, links_found=500))
    history.observe(102.0, statistics(pages_fetched=30, links_found=500))
    recent = history.series()["recent"]
    assert recent["t"] == [100.0, 102.0]
    assert recent["pages_per_second"] == [None, 10.0]
    assert recent["links_per_second"] == [None, 0.0]
    assert recent["pending"] == [2_000, 2_000]
    assert recent["fpp_measured"] == [0.0002, 0.0002]
    assert history.point() == {name: values[-1] for name, values in recent.items()}


def test_a_counter_that_began_anew_has_no_rate_at_that_point() -> None:
    history = History()
    for now, pages in enumerate([50, 60, 3, 8]):
        history.observe(float(now), statistics(pages_fetched=pages))
    assert history.series()["recent"]["pages_per_second"] == [None, 10.0, None, 5.0]


def test_what_does_not_exist_is_null() -> None:
    history = History()
    history.observe(1.0, statistics(seen=None, links_found=None))
    history.observe(2.0, statistics(seen=None, links_found=None))
    series = history.series()["all"]
    assert series["fpp_estimated"] == series["fpp_target"] == series["links_per_second"] == [None, None]


def test_the_same_time_twice_counts_once() -> None:
    history = History()
    for now in (5.0, 5.0, 4.0, 6.0):
        history.observe(now, statistics())
    assert history.series()["recent"]["t"] == [5.0, 6.0]


def test_nothing_observed_is_an_empty_series() -> None:
    assert History().series()["all"]["t"] == []
    assert History().point() == {}


@given(st.integers(1, 5_000), st.floats(0.1, 10.0))
def test_long_crawls_stay_bounded_and_keep_their_mean(observations: int, pace: float) -> None:
    history = History()
    stats = statistics()
    for index in range(observations):
        stats["pages_fetched"] = 7 * index
        history.observe(index * pace, stats)
    series = history.series()
    assert len(series["recent"]["t"]) == min(observations, RECENT)
    everything = series["all"]
    assert len(everything["t"]) <= MOST
    assert len(everything["t"]) >= min(observations, MOST // 2)
    # Both ends of the crawl are seen, and thinning does not change a rate.
    assert everything["t"][-1] == (observations - 1) * pace
    assert everything["t"][0] == pytest.approx(0.0, abs=pace * observations / (MOST // 2))
    assert everything["pages_per_second"][1:] == pytest.approx([7 / pace] * (len(everything["t"]) - 1), rel=0.01)
    json.dumps(series, allow_nan=False)
