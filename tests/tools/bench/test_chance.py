"""The yardsticks are right."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.studies.chance import expected_collisions, poisson_range


def test_a_million_keys_of_32_bits_collide_116_times() -> None:
    assert expected_collisions(1_000_000) == pytest.approx(116.4, abs=0.1)
    low, high = poisson_range(expected_collisions(1_000_000))
    assert (low, high) == (96, 138)


@given(st.integers(1, 60), st.integers(1, 8))
def test_expected_collisions_are_keys_less_the_distinct_values(keys: int, bits: int) -> None:
    values = 2**bits
    exact = keys - values * (1 - (1 - Fraction(1, values)) ** keys)
    assert expected_collisions(keys, bits) == pytest.approx(float(exact), abs=1e-9)


@given(st.floats(0.0, 300.0))
def test_the_range_holds_95_of_100_and_no_end_is_idle(mean: float) -> None:
    low, high = poisson_range(mean)
    chances = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) if mean else float(k == 0) for k in range(800)]
    assert sum(chances[:low]) <= 0.025
    assert sum(chances[: low + 1]) > 0.025
    assert sum(chances[: high + 1]) >= 0.975 - 1e-9
    assert sum(chances[:high]) < 0.975
