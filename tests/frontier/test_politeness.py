"""The rules of politeness one by one: what each asks for, and which wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import PolitenessSettings, RetrySettings
from crawler.frontier import backoff_policy
from crawler.frontier.backoff_policy import JITTER, hold_after_failure, hold_after_throttle, longest_hold, snooze
from crawler.frontier.politeness import HoldReason, gap
from crawler.frontier.request_outcome import FailureClass
from crawler.frontier.retries import retry_wait, tries_of

PLAIN = PolitenessSettings()
names = st.text(max_size=40)


@pytest.mark.parametrize(
    ("settings", "crawl_delay", "expected"),
    [
        ({"delay": 1.0}, None, (1.0, HoldReason.GAP)),
        ({"delay": 1.0}, 0.5, (1.0, HoldReason.GAP)),
        ({"delay": 1.0}, 7.0, (7.0, HoldReason.CRAWL_DELAY)),
        ({"delay": 1.0, "max_crawl_delay": 5.0}, 86_400.0, (5.0, HoldReason.CRAWL_DELAY)),
        ({"delay": 9.0, "max_crawl_delay": 5.0}, 86_400.0, (9.0, HoldReason.GAP)),
    ],
)
def test_the_longest_gap_wins_and_is_named(
    settings: dict[str, float], crawl_delay: float | None, expected: tuple[float, HoldReason]
) -> None:
    assert gap(crawl_delay, PolitenessSettings(**settings)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("patience", "most"), [("usual", 3_600.0), ("short", 30.0), ("endless", 3_600.0)])
def test_retry_after_wins_over_the_back_off_and_is_cut(patience: str, most: float) -> None:
    settings = PolitenessSettings(patience=patience)
    assert hold_after_throttle(7.0, 9, settings, "h") == (7.0, HoldReason.RETRY_AFTER)
    assert hold_after_throttle(1e12, 0, settings, "h") == (most, HoldReason.RETRY_AFTER)
    assert hold_after_throttle(-5.0, 0, settings, "h") == (0.0, HoldReason.RETRY_AFTER)


def test_back_off_and_snooze_double_up_to_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff_policy, "JITTER", 0.0)
    settings = PolitenessSettings(backoff_first=1.0)
    doubled = [1, 2, 4, 8, 16, 32, 64, 120, 120]
    assert [hold_after_throttle(None, n, settings, "h")[0] for n in range(9)] == doubled
    assert [hold_after_failure(n, settings, "h")[0] for n in range(1, 10)] == doubled
    assert [snooze(n, settings, "h")[0] for n in range(1, 9)] == [12, 24, 48, 96, 192, 384, 720, 720]


@given(names, st.integers(0, 300))
def test_jitter_only_lengthens_and_no_hold_is_longer_than_the_longest(name: str, level: int) -> None:
    for wait, plain in (
        (hold_after_throttle(None, level, PLAIN, name)[0], min(5.0 * 2.0**level, 600.0)),
        (hold_after_failure(level + 1, PLAIN, name)[0], min(5.0 * 2.0**level, 600.0)),
        (snooze(level + 1, PLAIN, name)[0], min(60.0 * 2.0**level, 3_600.0)),
    ):
        assert plain <= wait <= plain * (1 + JITTER)
        assert wait <= longest_hold(PLAIN)


@pytest.mark.parametrize(("tries", "throttled"), [(1, 1), (2, 4), (4, 10)])
def test_tries_and_waits_follow_from_the_settings(tries: int, throttled: int) -> None:
    settings = RetrySettings(tries=tries, first_wait=5.0, max_wait=100.0)
    found = {failure: tries_of(failure, settings) for failure in FailureClass}
    assert (found[FailureClass.TIMEOUT], found[FailureClass.THROTTLED], found[FailureClass.TLS]) == (
        tries,
        throttled,
        1,
    )
    for number, wait in enumerate((5.0, 20.0, 80.0, 100.0), 1):
        assert wait <= retry_wait(number, settings, "u") <= 1.1 * wait
