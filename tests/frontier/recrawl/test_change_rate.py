"""The estimate of how often a page changes."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.recrawl.change_rate import after_visit, first_guess

DAY = 86_400.0


@pytest.mark.parametrize("rate", [1 / 10, 1.0, 10.0])
def test_the_estimate_comes_near_the_rate_though_visits_are_irregular(rate: float) -> None:
    chance, found = random.Random(3), []
    for _ in range(40):
        known = guess = first_guess(DAY)
        for _ in range(60):
            elapsed = chance.choice([0.2, 0.7, 1.5]) * DAY / rate
            changed = chance.random() < -math.expm1(-rate * elapsed / DAY)
            known = after_visit(known, elapsed, changed=changed, first=guess)
        found.append(known.mean * DAY)
    assert 0.7 * rate < sum(found) / len(found) < 1.5 * rate


def test_a_page_may_change_its_habits() -> None:
    guess = known = first_guess(DAY)
    for _ in range(100):
        known = after_visit(known, DAY, changed=False, first=guess)
    calm = known.mean * DAY
    assert calm < 0.06
    for _ in range(40):
        known = after_visit(known, DAY, changed=True, first=guess)
    assert known.mean * DAY > 10 * calm


@given(st.lists(st.tuples(st.floats(0, 1e9), st.booleans()), max_size=60), st.floats(1e-3, 1e9))
def test_no_history_leads_to_a_number_that_is_not_finite_and_positive(
    history: list[tuple[float, bool]], interval: float
) -> None:
    known = guess = first_guess(interval)
    for elapsed, changed in history:
        before = known.mean
        known = after_visit(known, elapsed, changed=changed, first=guess)
        assert 0 < known.shape < math.inf
        assert 0 < known.exposure < math.inf
        assert 0 < known.mean < math.inf
        assert before > 0
        assert 0 <= known.unchanged(elapsed) <= 1
