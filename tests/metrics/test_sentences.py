from __future__ import annotations

import pytest

from crawler.metrics import Course, count, duration, forecast, per_second, probability, trust, working
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
    return statistics()["seen"] | {"ledger": None} | changes


def test_trust_says_how_many_were_skipped_of_how_many() -> None:
    stats = statistics(urls_admitted=1_204_329, seen=seen(expected_urls_skipped=3.2))
    assert trust(stats) == "About 3 of 1,204,332 new URLs were probably skipped by mistake."


def test_trust_says_when_probably_none_was() -> None:
    stats = statistics(urls_admitted=9_000, seen=seen(expected_urls_skipped=0.04))
    assert trust(stats) == "No URLs are likely to have been skipped by mistake (expected: 0.04 of 9,000)."
    stats = statistics(urls_admitted=9_000, seen=seen(expected_urls_skipped=3e-23))
    assert trust(stats) == "No URLs are likely to have been skipped by mistake (expected: less than 0.001 of 9,000)."


def test_trust_warns_when_the_target_is_missed() -> None:
    stats = statistics(seen=seen(fpp_estimated=0.002, fpp_target=0.001))
    assert trust(stats).endswith("The estimated fpp is 0.002, above the target of 0.001.")


def test_trust_warns_of_bits_that_the_keys_do_not_explain() -> None:
    stats = statistics(seen=seen(count_suspect=True, count_estimated=7_000.4))
    assert "Do not trust it: its bits are those of 7,000 keys, and 12,345 were added" in trust(stats)


def test_trust_warns_of_a_hash_that_can_be_forged() -> None:
    hashed = {"algorithm": "mmh3", "keyed": True, "forgeable": True}
    assert trust(statistics(seen=seen(hash=hashed))).endswith(
        "Its hash, mmh3, can be forged: a page can hide another URL from it."
    )


def test_trust_of_an_exact_an_empty_and_no_seen_set() -> None:
    assert "exact" in trust(statistics(seen=seen(expected_urls_skipped=None)))
    assert trust(statistics(urls_admitted=0, seen=seen(expected_urls_skipped=0.0))) == "No URL has been seen yet."
    assert trust(statistics(seen=None)) == "There is no seen-set yet."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (61, "1 min 1 s"),
        (3_600, "1 h 0 min"),
        (90_000, "25 h 0 min"),
        (200_000, "2 days"),
    ],
)
def test_times_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_small_rates_have_a_tenth() -> None:
    assert [per_second(value) for value in (0.04, 99.94, 100, 12_345.6)] == ["0.0", "99.9", "100", "12,346"]


@pytest.mark.parametrize(
    ("changes", "pages", "slope", "mark", "text"),
    [
        ({}, 30.0, -20.0, "good", "Working: 30.0 pages/s over the last minute, about 1 min 43 s to go."),
        (
            {},
            30.0,
            5.0,
            "good",
            "Working: 30.0 pages/s over the last minute, the frontier grows by 5.0 URLs/s, at least 30 s to go for "
            "slow.test:80.",
        ),
        ({}, 30.0, None, "good", "Working: 30.0 pages/s over the last minute."),
        ({}, 0.0, 0.0, "wait", "Waiting: no page in the last minute, 64 in flight, 5 hosts pending."),
        ({"urls_pending": 0, "urls_in_flight": 0}, None, None, "wait", "Waiting for seeds: no URLs are pending."),
        ({"state": "paused", "paused": "disk full: no space"}, 9.0, None, "bad", "Disk full: no space."),
        ({"state": "paused", "paused": "closed", "paused_by": "hours"}, 9.0, None, "wait", "Closed."),
        ({"state": "ended"}, None, None, "over", "Ended: 10,000 pages fetched, 81 failed."),
        ({"state": "stopped"}, None, None, "over", "Stopped with 2,000 URLs left: run the same command to resume."),
    ],
)
def test_whether_it_works(
    changes: dict[str, object], pages: float | None, slope: float | None, mark: str, text: str
) -> None:
    assert working(statistics(**changes), pages, slope) == {"mark": mark, "text": text}


def test_before_the_crawl_is_there_nothing_is_claimed() -> None:
    assert working({}, None, None)["text"] == "Starting."
    assert forecast({}) == ""


def ahead(**changes: object) -> dict[str, object]:
    stats = statistics()
    stats["advice"]["forecast"] |= changes
    return stats


def test_what_the_filter_will_hold() -> None:
    assert forecast(ahead()) == (
        "Each finished URL brings 0.42 new ones: at this rate the crawl ends in 11 min 40 s. Then the filter holds "
        "62,345 URLs in 3 slices, 244.1 KiB: fpp 0.0007, about 21 URLs skipped by mistake in all."
    )
    assert forecast(ahead(urls_skipped=1.2)).endswith("about 1 URL skipped by mistake in all.")
    assert forecast(ahead(urls_skipped=0.3)).endswith("fpp 0.0007, probably no URLs skipped by mistake.")
    assert forecast(ahead(urls_skipped=0.0)).endswith("fpp 0.0007, no URLs skipped by mistake.")


def test_a_crawl_without_an_end_is_not_given_one() -> None:
    told = forecast(ahead(when="day", new_per_url=1.3, slices=1))
    assert told.startswith(
        "Each finished URL brings 1.3 new ones: no end in sight. In a day the filter holds 62,345 URLs in 1 slice,"
    )
    assert forecast(ahead(when="day", new_per_url=0.1)).startswith(
        "The crawl never ends: it revisits its pages. In a day the filter holds"
    )


def test_of_a_paused_crawl_no_time_is_told() -> None:
    told = forecast(ahead() | {"state": "paused"})
    assert told.startswith(
        "Each finished URL brings 0.42 new ones: at this rate the crawl ends some time after it resumes. Then the"
    )


def test_nothing_is_forecast_of_a_crawl_that_is_over_or_not_known_yet() -> None:
    assert forecast(ahead() | {"state": "ended"}) == ""
    assert forecast(statistics(advice=None)) == ""
    assert forecast(statistics(advice={"forecast": None})) == ""


def test_the_words_of_a_course_are_of_the_last_minute() -> None:
    course = Course()
    for second in range(100):
        # Slow at first, then thirty pages a second, each with ten new URLs.
        pages = second if second < 20 else 20 + 30 * (second - 20)
        course.observe(float(second), statistics(pages_fetched=pages, urls_admitted=10 * pages, urls_pending=9 * pages))
    words = course.words(statistics())
    assert words["working"]["text"] == (
        "Working: 30.0 pages/s over the last minute, the frontier grows by 270 URLs/s, at least 1 min 9 s to go."
    )
    assert words["forecast"].startswith("Each finished URL brings 0.42 new ones: ")
    # The same as numbers: the 2,064 URLs of the sample at thirty a second.
    assert words["left"] == {"seconds": pytest.approx(2_064 / 30), "at_least": True, "host": None}
    assert course.words(statistics(state="paused"))["left"] is None


def test_trust_tells_what_the_ledger_found() -> None:
    ledger = {"waiting": 12, "confirmed": 5_000, "false_positives": 3}
    assert trust(statistics(seen=seen(expected_urls_skipped=0.0, ledger=ledger))).endswith(
        "The ledger corrected 3 such mistakes; 12 URLs are waiting for it."
    )
