"""Numbers as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.figures import count, probability, share


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (7.3e-20, "practically 0"),
        (3e-12, "1 in 333 billion"),
        (9.96e-10, "1 in 1 billion"),
        (1e-7, "1 in 10 million"),
        (9.99e-7, "1 in 1 million"),
        (2.14e-5, "0.000021"),
        (0.0001, "0.0001"),
        (0.00214, "0.0021"),
        (0.001, "0.001"),
        (0.99996, "nearly 1"),
        (1, "1"),
    ],
)
def test_probabilities_are_read_without_exponents(value: float | None, text: str) -> None:
    assert probability(value) == text


@given(st.floats(0, 1))
def test_no_probability_needs_a_calculator(value: float) -> None:
    text = probability(value)
    assert not re.search("[0-9]e", text)
    assert len(text) <= 16
    if re.fullmatch(r"0\.\d+", text):
        assert float(text) == pytest.approx(value, rel=0.05)
    found = re.fullmatch(r"1 in ([\d.]+) (million|billion|trillion)", text)
    if found is not None:
        often = float(found[1]) * {"million": 1e6, "billion": 1e9, "trillion": 1e12}[found[2]]
        assert 1 / often == pytest.approx(value, rel=0.06)


def test_shares_are_whole_only_if_they_are() -> None:
    told = [share(value) for value in (0.0, 0.0001, 0.02, 0.996, 1.0, 1.2)]
    assert told == ["0%", "less than 1%", "2%", "99%", "100%", "120%"]


def test_counts_are_read_by_thousands() -> None:
    assert count(1_204_332) == "1,204,332"
    assert count(None) == "-"
