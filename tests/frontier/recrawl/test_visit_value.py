"""The times of revisits that spend a budget where it buys freshness."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.frontier.freshness import DAY, Fixed, Freshness, best, run
from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.recrawl.change_rate import ChangeRate
from crawler.frontier.recrawl.visit_value import Budget, interval_at, worth

SETTINGS = RecrawlSettings(enabled=True)
rates = st.builds(ChangeRate, st.floats(0.01, 1e3), st.floats(1, 1e9))


@given(rates, st.floats(1, 1e8), st.floats(1.01, 10))
def test_a_visit_is_worth_more_the_longer_it_waits_and_never_more_than_the_wait(
    rate: ChangeRate, seconds: float, factor: float
) -> None:
    less, more = worth(rate, seconds), worth(rate, factor * seconds)
    assert -1e-6 * seconds <= less <= seconds
    assert more >= less - 1e-6 * seconds


@given(rates, st.floats(1e-3, 1e9))
def test_the_interval_is_within_its_bounds_and_worth_the_threshold(rate: ChangeRate, threshold: float) -> None:
    interval = interval_at(rate, threshold, 3_600.0, 30 * DAY)
    assert 3_599 <= interval <= 30 * DAY
    if interval < 30 * DAY:
        assert worth(rate, interval * 1.01) >= threshold - 1e-6 * interval


@given(st.lists(rates, max_size=50), st.none() | st.floats())
def test_any_pages_leave_a_threshold_that_can_be_stored(pages: list[ChangeRate], threshold: float | None) -> None:
    budget = Budget(SETTINGS, threshold)
    for rate in pages:
        assert SETTINGS.min_interval <= budget.interval(rate) <= SETTINGS.max_interval
        assert 0 < budget.threshold < math.inf


def test_the_budget_is_kept_and_buys_more_freshness_than_a_fixed_interval() -> None:
    chance = random.Random(7)
    web = [0.3 * chance.lognormvariate(0, 1.5) for _ in range(60)]
    fresh, visits = run(web, Freshness(len(web)))
    assert 0.85 < visits < 1.1
    fixed, bound = run(web, Fixed(1 / visits))[0], best(web, visits)
    assert fixed + 0.01 < fresh <= bound + 0.02
