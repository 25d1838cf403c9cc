"""Numbers as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.figures import probability

# On the terminal and on the page: ``tests/service/dashboard/test_page.py`` asks the page.
PROBABILITIES = [
    (0.0, "0"),
    (7.3e-20, "practically 0"),
    (1.5e-15, "1 in 670 trillion"),
    (3e-12, "1 in 330 billion"),
    (9.96e-10, "1 in 1 billion"),
    (1e-7, "1 in 10 million"),
    (4e-7, "1 in 2.5 million"),
    (9.99e-7, "1 in 1 million"),
    (1.04e-6, "1 in 960,000"),
    (2.14e-5, "1 in 47,000"),
    (0.0001, "1 in 10,000"),
    (0.001, "1 in 1,000"),
    (0.0016, "1 in 630"),
    (0.00214, "1 in 470"),
    (0.0099, "1 in 100"),
    (0.01, "1%"),
    (0.0214, "2.1%"),
    (0.125, "13%"),
    (0.99996, "99%"),
    (1.0, "100%"),
]


@pytest.mark.parametrize(("value", "text"), [(None, "-"), *PROBABILITIES])
def test_probabilities_have_one_notation(value: float | None, text: str) -> None:
    assert probability(value) == text


@given(st.floats(0, 1))
def test_no_probability_needs_a_calculator(value: float) -> None:
    text = probability(value)
    assert not re.search("[0-9]e", text)
    assert len(text) <= 17
    if text.endswith("%"):
        assert float(text[:-1]) / 100 == pytest.approx(value, rel=0.06)
    found = re.fullmatch(r"1 in ([\d.,]+)(?: (million|billion|trillion))?", text)
    if found is not None:
        named = {None: 1.0, "million": 1e6, "billion": 1e9, "trillion": 1e12}
        often = float(found[1].replace(",", "")) * named[found[2]]
        assert 1 / often == pytest.approx(value, rel=0.06)
