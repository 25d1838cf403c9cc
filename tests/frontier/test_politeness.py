"""The rules of politeness one by one: what each asks for, and which wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import RETRY_CLASSES, PolitenessSettings, RetrySettings
from crawler.frontier.politeness import (
    HoldReason,
    gap,
    hold_after_failure,
    hold_after_throttle,
    longest_hold,
    snooze,
)
from crawler.frontier.request_outcome import FailureClass, retry_wait, tries_of

PLAIN = PolitenessSettings(jitter=0.0)
names = st.text(max_size=40)


@pytest.mark.parametrize(
    ("settings", "crawl_delay", "latency", "expected"),
    [
        ({"delay": 1.0}, None, None, (1.0, HoldReason.GAP)),
        ({"delay": 1.0}, 0.5, None, (1.0, HoldReason.GAP)),
        ({"delay": 1.0}, 7.0, None, (7.0, HoldReason.CRAWL_DELAY)),
        ({"delay": 1.0, "max_crawl_delay": 5.0}, 86_400.0, None, (5.0, HoldReason.CRAWL_DELAY)),
        ({"delay": 9.0, "max_crawl_delay": 5.0}, 86_400.0, None, (9.0, HoldReason.GAP)),
        ({"delay": 1.0}, None, 50.0, (1.0, HoldReason.GAP)),
        ({"delay": 1.0, "adaptive": 3.0}, None, None, (1.0, HoldReason.GAP)),
        ({"delay": 1.0, "adaptive": 3.0}, None, 0.1, (1.0, HoldReason.GAP)),
        ({"delay": 1.0, "adaptive": 3.0}, None, 2.0, (6.0, HoldReason.ADAPTIVE)),
        ({"delay": 1.0, "adaptive": 3.0, "adaptive_max": 4.0}, None, 2.0, (4.0, HoldReason.ADAPTIVE)),
        ({"delay": 0.0, "adaptive": 3.0, "adaptive_min": 0.5}, None, 0.01, (0.5, HoldReason.ADAPTIVE)),
        ({"delay": 1.0, "adaptive": 3.0}, 8.0, 2.0, (8.0, HoldReason.CRAWL_DELAY)),
        ({"delay": 1.0, "adaptive": 3.0}, 5.0, 2.0, (6.0, HoldReason.ADAPTIVE)),
    ],
)
def test_the_longest_gap_wins_and_is_named(
    settings: dict[str, float], crawl_delay: float | None, latency: float | None, expected: tuple[float, HoldReason]
) -> None:
    assert gap(crawl_delay, latency, PolitenessSettings(**settings)) == expected


def test_retry_after_wins_over_the_back_off_and_is_cut() -> None:
    settings = PolitenessSettings(max_retry_after=100.0)
    assert hold_after_throttle(7.0, 9, settings, "h") == (7.0, HoldReason.RETRY_AFTER)
    assert hold_after_throttle(1e12, 0, settings, "h") == (100.0, HoldReason.RETRY_AFTER)
    assert hold_after_throttle(-5.0, 0, settings, "h") == (0.0, HoldReason.RETRY_AFTER)


def test_back_off_and_snooze_double_up_to_their_bound() -> None:
    settings = PolitenessSettings(jitter=0.0, backoff_first=5.0, backoff_max=30.0, snooze_first=60.0, snooze_max=200.0)
    assert [hold_after_throttle(None, n, settings, "h")[0] for n in range(5)] == [5, 10, 20, 30, 30]
    assert [hold_after_failure(n, settings, "h")[0] for n in range(1, 6)] == [5, 10, 20, 30, 30]
    assert [snooze(n, settings, "h")[0] for n in range(1, 5)] == [60, 120, 200, 200]


@given(names, st.integers(0, 300), st.floats(0, 1))
def test_jitter_only_lengthens_and_no_hold_is_longer_than_the_longest(name: str, level: int, jitter: float) -> None:
    settings = PolitenessSettings(jitter=jitter)
    for hold in (
        lambda with_: hold_after_throttle(None, level, with_, name),
        lambda with_: hold_after_failure(level + 1, with_, name),
        lambda with_: snooze(level + 1, with_, name),
    ):
        wait, plain = hold(settings)[0], hold(PLAIN)[0]
        assert plain <= wait <= plain * (1 + jitter)
        assert wait <= longest_hold(settings)


@pytest.mark.parametrize("name", RETRY_CLASSES)
def test_each_class_has_tries_and_a_wait_of_its_own(name: str) -> None:
    failure = FailureClass[name.upper()]
    general = RetrySettings(tries=4, first_wait=5.0, growth=4.0, jitter=0.0, tls_tries=None)
    assert tries_of(failure, general) == 4
    assert retry_wait(failure, 2, general, "u") == 20.0
    own = RetrySettings(tries=4, first_wait=5.0, growth=2.0, jitter=0.0, **{f"{name}_tries": 7, f"{name}_wait": 3.0})  # type: ignore[arg-type]
    assert tries_of(failure, own) == 7
    assert [retry_wait(failure, n, own, "u") for n in (1, 2, 3)] == [3.0, 6.0, 12.0]
    for other in (FailureClass[each.upper()] for each in RETRY_CLASSES if each not in (name, "tls")):
        assert (tries_of(other, own), retry_wait(other, 1, own, "u")) == (4, 5.0)
