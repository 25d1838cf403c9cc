"""Three figures: the pages per second, the time left with the host that determines it, and the seen-set at the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import asdict

from crawler.base.settings.parts import SeenSettings
from crawler.frontier.pace import HostTime
from crawler.job.metrics.outlook import (
    Look,
    Observed,
    Pace,
    end_words,
    next_look,
    seen_at_end,
    seen_warning,
    time_left,
)
from crawler.seen.exact.seen import make_seen
from crawler.seen.filters import KeyHash, SeenSet
from tests.faulty_store import FaultyStore

STEADY = Pace(3.0, 0.25)


HASH = KeyHash.new("blake2b")


def observed(looks: Sequence[tuple[float, int, int]]) -> Observed:
    """Of (second, URLs left, URLs done), each of them a page."""
    crawl = Observed()
    for second, left, done in looks:
        crawl.look(Look(float(second), left, done, done))
    return crawl


def seen_set(kind: str, keys: int, capacity: int = 1_000) -> SeenSet:
    seen = make_seen(SeenSettings(kind=kind, capacity=capacity), FaultyStore(), HASH)
    seen.restore(HASH.digest_keys([str(number) for number in range(keys)]))
    return seen


def test_pages_per_second_are_those_of_the_last_seconds_or_of_a_minute_without_any() -> None:
    fast = [(second, 100, 30 * second) for second in range(40)]
    assert observed(fast[:1]).pages_per_second is None
    assert observed(fast).pages_per_second == 30.0
    faster = [(second, 100, max(second, 30 * second - 580)) for second in range(60)]
    assert observed(faster).pages_per_second == 30.0
    slow = observed([(second, 100, second // 12) for second in range(49)])
    assert slow.pages_per_second == pytest.approx(4 / 48, rel=0.3)
    silent = observed([*fast, *((second, 100, 1_170) for second in range(40, 120))])
    assert silent.pages_per_second == 0.0
    burst = [(second, 100, 14 * min(second, 10)) for second in range(60)]
    after = [observed(burst[:until]).pages_per_second or 0.0 for until in range(11, 60)]
    assert after == sorted(after, reverse=True), "what came a minute ago comes no faster because nothing comes now"
    silent.forget()
    assert (silent.pages_per_second, silent.pace) == (None, None)


def test_the_pace_is_that_of_a_minute_or_of_thirty_urls() -> None:
    assert observed([(second, 100, second) for second in range(10)]).pace is None, "a pace of some seconds says nothing"
    shrinking = observed([(second, 1_000 - 3 * second, 4 * second) for second in range(200)])
    assert shrinking.pace == Pace(4.0, 0.25)
    assert observed([(second, 100, second // 4) for second in range(20)]).pace == Pace(None, None)
    burst = observed([(second, 300 - 10 * second if second else 1, 10 * second) for second in range(20)]).pace
    assert burst == Pace(10.0, 0.0), "what was found at first is no sign of growth"
    small = observed([(second, max(1, 50 - second) if second > 9 else 4 * second, second) for second in range(50)])
    assert small.pace == Pace(1.0, 0.0), "most links of a small site are on its first pages"
    slow = observed([(second, 100, second // 12) for second in range(600)]).pace
    assert slow is not None
    assert slow.finished == pytest.approx(1 / 12, rel=0.05)


def test_the_time_left_is_that_of_all_together_or_of_the_slowest_host() -> None:
    host = HostTime("slow.test:80", 5, 6.0, 30.0)
    together = time_left(STEADY, 900, host)
    assert together is not None
    assert (together.seconds, together.at_least, together.host) == (400.0, False, None)
    slow = HostTime("slow.test:80", 50, 18.0, 900.0)
    longest = time_left(STEADY, 900, slow)
    assert longest is not None
    assert (longest.seconds, longest.at_least, longest.host) == (900.0, False, "slow.test:80")
    grows = time_left(Pace(3.0, 1.2), 900, host)
    assert grows is not None
    assert (grows.seconds, grows.at_least) == (300.0, True)
    assert "1.2" in grows.why
    failing = HostTime("dead.test:80", 2, 1.0, 500.0, wait_seconds=3.0, reason="no answer", fails=True)
    fails = time_left(STEADY, 900, failing)
    assert fails is not None
    assert (fails.seconds, fails.at_least, fails.host) == (500.0, True, "dead.test:80")
    assert "if dead.test:80 keeps failing" in end_words({"time_left": asdict(fails), "slowest_host": asdict(failing)})
    first = time_left(Pace(None, None), 900, host)
    assert first is not None
    assert (first.seconds, first.at_least, first.host) == (30.0, True, "slow.test:80")
    assert time_left(Pace(None, None), 900, None) is None
    assert time_left(None, 900, host) is None
    assert time_left(STEADY, 0, host) is None


@pytest.mark.parametrize(
    ("kind", "compact_slices"),
    [("scalable", 0), ("scalable", 2), ("counting", 0), ("digest", 0), ("cuckoo", 0), ("bloom", 0), ("bitmap", 0)],
)
def test_the_seen_set_at_the_end_is_what_it_becomes(kind: str, compact_slices: int) -> None:
    seen = seen_set(kind, 600)
    end = seen_at_end(seen.statistics(), seen.parameters(), 900, STEADY, compact_slices)
    assert end is not None
    assert end.urls == len(seen) + 300, "each brings a quarter of a URL, and these bring a quarter of that"
    really = seen_set(kind, 900).statistics()
    assert end.fill == pytest.approx(0.9, abs=0.01)
    assert end.fpp == pytest.approx(really["fpp_estimated"], rel=0.5, abs=1e-9)
    assert seen.statistics()["expected_urls_skipped"] <= end.urls_skipped <= really["expected_urls_skipped"] + 0.2


def test_the_end_is_not_told_before_it_is_in_sight() -> None:
    seen = seen_set("scalable", 600)
    for pace in (None, Pace(None, None), Pace(3.0, 0.9)):
        assert seen_at_end(seen.statistics(), seen.parameters(), 900, pace) is None
    now = seen_at_end(seen.statistics(), seen.parameters(), 0, None)
    assert now is not None
    assert (now.urls, now.fpp) == (len(seen), pytest.approx(seen.statistics()["fpp_estimated"]))
    exact = seen_set("exact", 600)
    assert seen_at_end(exact.statistics(), exact.parameters(), 900, STEADY) is None


@pytest.mark.parametrize(
    ("kind", "keys", "memory", "compact_slices", "cause"),
    [
        ("bloom", 899, None, 0, None),
        ("bloom", 910, None, 0, "full"),
        ("bloom", 1_300, None, 0, "full"),
        ("bitmap", 950, None, 0, "full"),
        ("scalable", 950, None, 0, None),
        ("scalable", 950, 8_000, 0, None),
        ("scalable", 950, 8_000, 2, "memory"),
        ("scalable", 500, 8_000, 2, None),
        ("exact", 950, 0, 2, None),
    ],
)
def test_a_seen_set_that_will_soon_be_too_full_warns(
    kind: str, keys: int, memory: int | None, compact_slices: int, cause: str | None
) -> None:
    seen = seen_set(kind, keys)
    warning = seen_warning(seen.statistics(), seen.parameters(), memory, compact_slices)
    assert (None if warning is None else warning.cause) == cause
    following = next_look(seen.statistics())
    assert following > len(seen)
