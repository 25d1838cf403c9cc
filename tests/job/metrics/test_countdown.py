"""The time left is one number that follows what is measured, and does not come and go."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crawler.job.metrics import Countdown, Look


def figures(left: int, slowest: float) -> dict[str, Any]:
    host = {"name": "slow.test:80", "pending": left, "seconds_per_url": 1.0, "seconds": slowest, "hosts": 1}
    return {"urls_pending": left, "slowest_host": host, "least_seconds": 0.0, "endless": False}


@given(
    finished=st.lists(st.integers(0, 20), min_size=30, max_size=120),
    slowest=st.lists(st.floats(1, 10_000), min_size=120, max_size=120),
)
def test_it_is_never_below_the_slowest_host_and_never_goes_away(finished: list[int], slowest: list[float]) -> None:
    countdown, done, left = Countdown(), 0, 5_000
    for second, number in enumerate(finished):
        done, left = done + number, left - number
        told = countdown.look(Look(float(second), left, done), figures(left, slowest[second]))
        assert (told is None) == (second < 10)
        assert told is None or told.seconds >= slowest[second]


@given(swing=st.floats(0, 0.3), period=st.integers(1, 20))
def test_what_swings_is_told_steadily(swing: float, period: int) -> None:
    """The truth is that the crawl ends at 1,000 s; what is measured is wrong by some share, now so, now so."""
    countdown, before = Countdown(), None
    for second in range(800):
        truth = 1_000.0 - second
        wrong = 1 + swing * (1 if second // period % 2 else -1)
        told = countdown.look(Look(float(second), 1_000 - second, second), figures(1_000 - second, truth * wrong))
        if told is None:
            continue
        assert truth * (1 - swing) - 1 <= told.seconds <= truth * (1 + swing) * 1.2 + 60
        assert before is None or told.seconds - before >= -0.2 * truth, "it falls step by step"
        before = told.seconds


def test_a_crawl_without_an_end_or_without_urls_has_none() -> None:
    countdown = Countdown()
    for second in range(30):
        assert countdown.look(Look(float(second), 100, second), figures(100, 5.0) | {"endless": True}) is None
    assert countdown.look(Look(31.0, 0, 130), figures(0, 0.0)) is None


def test_after_a_pause_it_begins_anew() -> None:
    countdown = Countdown()
    for second in range(30):
        countdown.look(Look(float(second), 1_000 - second, second), figures(1_000 - second, 5.0))
    assert countdown.told is not None
    countdown.forget()
    assert countdown.told is None
    assert countdown.look(Look(500.0, 970, 30), figures(970, 5.0)) is None
