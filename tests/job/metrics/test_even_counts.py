"""Counts of partitions that are told of at different times."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.metrics.history import COUNTERS, EvenCounts, History

PAUSE = 8


def pace(told: list[tuple[int, float, int]], until: int) -> list[float]:
    """Pages per second in the history of a crawl, observed every 16 seconds, whose partitions were told of so."""
    counts, history, found = EvenCounts(COUNTERS), History(), []
    for now in range(until):
        for number, at, pages in told:
            if now - 1 < at <= now:
                counts.note(number, at, {"pages_fetched": pages})
        if now % 16 == 15:
            history.observe(now - PAUSE - 1, counts.at(now - PAUSE - 1))
            found.append(history.point()["pages_per_second"])
    return [each for each in found if each is not None]


def test_a_partition_that_changes_its_process_is_no_burst() -> None:
    """Each of 16 partitions fetches 4 pages a second, and is told of every 8 seconds. At 50 s half of them move: they
    are told of at once, and every 4 seconds from then on."""
    told = []
    for number in range(16):
        times = [float(at) for at in range(1 + number % PAUSE, 50, PAUSE)]
        times += [50.0 + number / 100, *range(54, 200, 4)] if number < 8 else range(int(times[-1]) + PAUSE, 200, PAUSE)
        told += [(number, at, int(4 * at)) for at in times]
    rates = pace(told, 200)
    assert len(rates) >= 10
    assert all(abs(rate - 64.0) < 4.0 for rate in rates[1:]), rates


def test_a_partition_that_is_seen_for_the_first_time_is_no_burst() -> None:
    told = [(0, float(at), 10 * at) for at in range(1, 100)] + [(1, float(at), 5_000) for at in range(50, 100)]
    assert max(pace(told, 100)) == pytest.approx(10.0)


def test_what_was_lost_with_a_process_is_not_counted_again() -> None:
    counts = EvenCounts(["pages_fetched", "commits"])
    for at, pages, commits in ((1.0, 100, 50), (2.0, 96, 0), (3.0, 99, 3), (4.0, 104, 8)):
        counts.note(0, at, {"pages_fetched": pages, "commits": commits})
    assert [counts.at(at) for at in (0.0, 1.0, 3.5, 9.0)] == [
        {"pages_fetched": 100, "commits": 50},
        {"pages_fetched": 100, "commits": 50},
        {"pages_fetched": 102, "commits": 55.5},
        {"pages_fetched": 104, "commits": 58},
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 100), st.integers(0, 1000)), max_size=60))
def test_sums_never_shrink(told: list[tuple[int, float, int]]) -> None:
    counts = EvenCounts(["pages_fetched"])
    for number, at, pages in told:
        counts.note(number, at, {"pages_fetched": pages})
    sums = [counts.at(float(at))["pages_fetched"] for at in range(101)]
    assert all(before <= after + 1e-9 for before, after in pairwise(sums))
