"""Time series that stay small."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.metrics.history import HOUR, MOST, RECENT, History, HistoryError
from tests.job.metrics.samples import statistics


def test_the_last_moment_is_no_spike() -> None:
    history = History()
    for now, pages in ((10.0, 0), (11.0, 5), (12.0, 10), (12.05, 11)):
        history.observe(now, {"pages_fetched": pages})
    series = history.series()["recent"]
    assert (series["t"], series["pages_per_second"]) == ([10.0, 11.0, 12.05], [None, 5.0, round(6 / 1.05, 3)])
    assert history.point()["pages_per_second"] == round(6 / 1.05, 3)


def test_rates_are_the_differences_of_counters() -> None:
    history = History()
    history.observe(100.0, statistics(pages_fetched=10, links_found=500))
    history.observe(102.0, statistics(pages_fetched=30, links_found=500))
    recent = history.series()["recent"]
    assert recent["t"] == [100.0, 102.0]
    assert recent["pages_per_second"] == [None, 10.0]
    assert recent["bytes_per_second"] == [None, 0.0]
    assert recent["pending"] == [2_000, 2_000]
    assert recent["fpp_measured"] == [0.0002, 0.0002]
    assert history.point() == {name: values[-1] for name, values in recent.items()}


@given(st.integers(1, 5_000), st.floats(1.0, 10.0))
def test_long_crawls_stay_bounded_and_keep_their_mean(observations: int, pace: float) -> None:
    history = History()
    stats = statistics()
    for index in range(observations):
        stats["pages_fetched"] = 7 * index
        history.observe(index * pace, stats)
    series = history.series()
    end = (observations - 1) * pace
    for name, span, step in (("recent", RECENT, pace), ("hour", HOUR, max(10.0, pace))):
        times = series[name]["t"]
        assert end - times[0] == pytest.approx(min(end, span), abs=2 * step)
        # The last may follow closely: it is always there.
        assert all(later - earlier >= min(9.5, step) * 0.999 for earlier, later in pairwise(times[:-1]))
        assert len(times) <= span / min(9.5, step) + 3
    everything = series["all"]
    assert len(everything["t"]) <= MOST
    assert len(everything["t"]) >= min(observations, MOST // 2)
    # Both ends of the crawl are seen, and thinning does not change a rate.
    assert everything["t"][0] == pytest.approx(0.0, abs=pace * observations / (MOST // 2))
    for kept in series.values():
        assert kept["t"][-1] == end
        assert kept["pages_per_second"][1:] == pytest.approx([7 / pace] * (len(kept["t"]) - 1), rel=0.01)
    json.dumps(series, allow_nan=False)


@given(st.integers(0, 1_500), st.floats(1.0, 20.0), st.floats(0.0, 5_000.0))
def test_a_history_taken_up_again_goes_on(observations: int, pace: float, pause: float) -> None:
    history, again = History(), History()
    stats = statistics(seen=None)
    for index in range(observations):
        stats["pages_fetched"] = 7 * index
        history.observe(index * pace, stats)
    now = observations * pace + pause
    again.restore(json.loads(json.dumps(history.dump())), now)
    assert again.dump() == history.dump()
    last = statistics(pages_fetched=7 * observations)
    again.observe(now, last)
    series = again.series()
    assert series["all"]["t"][-1] == now
    assert all(now - time <= RECENT for time in series["recent"]["t"])
    assert all(value is None for value in series["all"]["fpp_estimated"][:-1])
    if observations > 1:
        assert series["all"]["pages_per_second"][1] == pytest.approx(7 / pace, rel=0.01)


def test_a_clock_set_back_drops_what_would_lie_ahead() -> None:
    history, again = History(), History()
    for now in (10.0, 20.0, 30.0):
        history.observe(now, statistics())
    again.restore(history.dump(), 25.0)
    again.observe(25.0, statistics())
    assert again.series()["all"]["t"] == [10.0, 20.0, 25.0]


@pytest.mark.parametrize(
    "change",
    [
        {"recent": {}},
        {"recent": {"t": "1 2", "pages_fetched": "1"}},
        {"hour": {"t": "2 1"}},
        {"hour": {"t": "1 nan"}},
        {"all": {"t": " ".join(map(str, range(MOST + 1)))}},
        {"all": None},
    ],
    ids=repr,
)
def test_what_is_no_history_is_refused_whole(change: dict[str, Any]) -> None:
    history = History()
    history.observe(1.0, statistics())
    again = History()
    with pytest.raises(HistoryError, match="not a history"):
        again.restore(history.dump() | change, 5.0)
    assert again.series()["all"]["t"] == []


def observed(begin: int, seconds: int, pages: int) -> History:
    """A job that fetches so many pages a second from then on."""
    history = History()
    for second in range(seconds + 1):
        history.observe(begin + second, statistics(pages_fetched=pages * second, urls_pending=10, urls_in_flight=1))
    return history


def test_histories_of_several_jobs_are_added() -> None:
    pooled = History.pooled([observed(1000, 100, 3), observed(1050, 80, 5), History()])
    recent = pooled.series()["recent"]
    rates = dict(zip(recent["t"], recent["pages_per_second"], strict=True))
    assert (rates[1040], rates[1080], rates[1120]) == (3, 8, 5)
    pending = dict(zip(recent["t"], recent["pending"], strict=True))
    assert (pending[1040], pending[1080], pending[1130]) == (10, 20, 20)
    assert pooled.series()["all"]["t"][-1] == 1130
    assert History.pooled([History(), History()]).series() == History().series()


def test_one_history_keeps_its_pace_and_goes_on() -> None:
    one = observed(1000, 2000, 4)
    pooled = History.pooled([one])
    for name in ("recent", "hour", "all"):
        series = pooled.series()[name]
        assert sorted(set(series["t"])) == series["t"]
        assert series["pages_per_second"][1:] == pytest.approx([4] * (len(series["t"]) - 1), abs=0.01)
        assert len(series["t"]) <= 600
    pooled.observe(3001, statistics(pages_fetched=8004))
    assert pooled.point()["pages_per_second"] == 4
    kept = History()
    kept.restore(pooled.dump(), 4000)
    assert kept.series()["all"] == pooled.series()["all"]
