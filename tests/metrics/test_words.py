from __future__ import annotations

import pytest

from crawler.metrics import count, probability, trust
from tests.metrics.samples import statistics


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.001, "0.001"),
        (0.00214, "0.0021"),
        (2.14e-5, "2.1e-5"),
        (3e-12, "3.0e-12"),
        (1, "1"),
    ],
)
def test_probabilities_have_two_digits(value: float | None, text: str) -> None:
    assert probability(value) == text


def test_counts_are_read_by_thousands() -> None:
    assert count(1_204_332) == "1,204,332"
    assert count(None) == "-"


def seen(**changes: object) -> dict[str, object]:
    return statistics()["seen"] | changes


def test_trust_says_how_many_were_skipped_of_how_many() -> None:
    stats = statistics(urls_admitted=1_204_329, seen=seen(expected_urls_skipped=3.2))
    assert trust(stats) == "Of 1,204,332 new URLs about 3 were taken for seen and skipped by mistake."


def test_trust_says_when_probably_none_was() -> None:
    stats = statistics(urls_admitted=9_000, seen=seen(expected_urls_skipped=0.04))
    assert trust(stats) == "Of 9,000 new URLs probably none was skipped by mistake (0.04 expected)."
    stats = statistics(urls_admitted=9_000, seen=seen(expected_urls_skipped=3e-23))
    assert trust(stats) == "Of 9,000 new URLs probably none was skipped by mistake (fewer than 0.001 expected)."


def test_trust_warns_when_the_target_is_missed() -> None:
    stats = statistics(seen=seen(fpp_estimated=0.002, fpp_target=0.001))
    assert trust(stats).endswith("The filter is worse than asked for: 0.002, not 0.001.")


def test_trust_of_an_exact_an_empty_and_no_seen_set() -> None:
    assert "exact" in trust(statistics(seen=seen(expected_urls_skipped=None)))
    assert trust(statistics(urls_admitted=0, seen=seen(expected_urls_skipped=0.0))) == "No URL has been seen yet."
    assert trust(statistics(seen=None)) == "There is no seen-set yet."
