from __future__ import annotations

import pytest

from crawler.job.metrics import Course, duration, forecast, per_second, standing, time_left, trust, working
from tests.job.metrics.samples import statistics


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
    assert trust(stats).endswith("The estimated fpp is 1 in 500, above the target of 1 in 1,000.")


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
            "Working: 30.0 pages/s over the last minute, pending URLs grow by 5.0/s, at least 30 s to go for "
            "slow.test:80.",
        ),
        ({}, 30.0, None, "good", "Working: 30.0 pages/s over the last minute."),
        ({}, 0.0, 0.0, "wait", "Waiting: no page in the last minute, 64 in flight, 5 hosts pending."),
        ({}, None, None, "good", "Running: 10,000 pages fetched so far."),
        (
            {"pages_fetched": 0},
            None,
            None,
            "wait",
            "Waiting: no page has come yet, 64 in flight, 5 hosts pending.",
        ),
        ({"urls_pending": 0, "urls_in_flight": 0}, None, None, "wait", "Waiting for seeds: no URLs are pending."),
        ({"state": "paused", "paused": "disk full: no space"}, 9.0, None, "bad", "Disk full: no space."),
        ({"state": "paused", "paused": "closed", "paused_by": "hours"}, 9.0, None, "wait", "Closed."),
        (
            {"state": "ended", "pages_fetched": 0, "pages_failed": 1, "urls_excluded": 0, "urls_held_back": {}},
            None,
            None,
            "bad",
            "No seed could be fetched: 1 failed.",
        ),
        ({"state": "ended"}, None, None, "over", "Ended: 10,000 pages fetched, 81 failed."),
        ({"state": "stopped"}, None, None, "over", "Stopped with 2,000 URLs pending: run the same command to resume."),
    ],
)
def test_whether_it_works(
    changes: dict[str, object], pages: float | None, slope: float | None, mark: str, text: str
) -> None:
    assert working(statistics(**changes), pages, slope) == {"mark": mark, "text": text}


def test_a_run_that_has_just_begun_is_told_as_long_as_it_lasts() -> None:
    course = Course()
    course.observe(0.0, statistics(pages_fetched=215, urls_admitted=3_000, urls_pending=2_000))
    assert course.words(statistics(pages_fetched=215))["working"]["text"] == "Running: 215 pages fetched so far."
    for second in range(1, 16):
        pages = 215 + 10 * second
        now = statistics(pages_fetched=pages, urls_admitted=3_000, urls_pending=2_000 - 10 * second, slowest_host=None)
        course.observe(float(second), now)
        text = course.words(now)["working"]["text"]
        assert text.startswith(f"Working: 10.0 pages/s over the last {min(second, 10)} s")
        assert ("to go" in text) == (second >= 10), "a pace of a few seconds tells nothing"
    silent = Course()
    for second in range(6):
        silent.observe(float(second), statistics(pages_fetched=3))
    assert silent.words(statistics(pages_fetched=3))["working"]["text"].startswith("Waiting: no page in the last 5 s, ")


def test_a_frontier_that_begins_to_shrink_does_not_take_an_hour() -> None:
    stats = statistics(slowest_host=None)  # 2,064 URLs left, of which twenty a second are finished
    told = [time_left(stats, new - 20.0, new) for new in (30.0, 20.0, 19.9, 12.0, 8.0, 2.0, 0.0)]
    assert [(round(each.seconds), each.at_least) for each in told if each is not None] == [
        *[(103, True)] * 5,  # at least what is known now
        (115, False),
        (103, False),
    ]


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
        "62,345 URLs in 3 slices, 244.1 KiB: fpp 1 in 1,400, about 21 URLs skipped by mistake in all."
    )
    assert forecast(ahead(urls_skipped=1.2)).endswith("about 1 URL skipped by mistake in all.")
    assert forecast(ahead(urls_skipped=0.3)).endswith("fpp 1 in 1,400, probably no URLs skipped by mistake.")
    assert forecast(ahead(urls_skipped=0.0)).endswith("fpp 1 in 1,400, no URLs skipped by mistake.")


def test_a_crawl_without_an_end_is_not_given_one() -> None:
    told = forecast(ahead(when="day", new_per_url=1.3, slices=1))
    assert told.startswith(
        "Each finished URL brings 1.3 new ones: no end in sight. In a day the filter holds 62,345 URLs in 1 slice,"
    )
    assert forecast(ahead(when="day", new_per_url=0.1)).startswith(
        "The crawl never ends: it revisits its pages. In a day the filter holds"
    )


def test_a_forecast_that_is_not_steady_is_not_told() -> None:
    early = forecast(ahead(steady=False))
    assert early == "Each finished URL brings 0.42 new ones at present: too early to tell when the crawl ends."
    assert forecast(ahead(steady=False, when="day", new_per_url=7.0)).endswith("too early to tell when the crawl ends.")
    assert forecast(ahead(steady=True)) == forecast(ahead())


def test_no_new_urls_are_none() -> None:
    for few in (0.0, 0.001):
        assert forecast(ahead(new_per_url=few)).startswith("Hardly any new URLs are found: at this rate the crawl ends")
    assert forecast(ahead(new_per_url=1)).startswith("Each finished URL brings 1 new one: ")


def test_of_a_paused_crawl_no_time_is_told() -> None:
    told = forecast(ahead() | {"state": "paused"})
    assert told.startswith(
        "Each finished URL brings 0.42 new ones: at this rate the crawl ends some time after it resumes. Then the"
    )


def test_nothing_is_forecast_of_a_crawl_that_is_over_or_not_known_yet() -> None:
    assert forecast(ahead() | {"state": "ended"}) == ""
    assert forecast(statistics(advice=None)) == ""
    assert forecast(statistics(advice={"forecast": None})) == ""


def test_the_words_of_a_course_are_of_the_last_seconds() -> None:
    course = Course()
    for second in range(100):
        # Slow at first, then thirty pages a second, each with ten new URLs.
        pages = second if second < 20 else 20 + 30 * (second - 20)
        course.observe(float(second), statistics(pages_fetched=pages, urls_admitted=10 * pages, urls_pending=9 * pages))
    words = course.words(statistics())
    assert words["working"]["text"] == (
        "Working: 30.0 pages/s over the last 10 s, pending URLs grow by 270/s, at least 1 min 9 s to go."
    )
    assert words["forecast"].startswith("Each finished URL brings 0.42 new ones: ")
    # The same as numbers: the 2,064 URLs of the sample at thirty a second.
    assert words["left"] == {"seconds": pytest.approx(2_064 / 30), "at_least": True, "host": None}
    assert course.words(statistics(state="paused"))["left"] is None


def test_trust_tells_what_the_ledger_found() -> None:
    ledger = {"waiting": 12, "confirmed": 5_000, "false_positives": 3}
    said = "No URL is skipped by mistake: the ledger caught "
    assert trust(statistics(seen=seen(expected_urls_skipped=0.0, ledger=ledger))).startswith(
        f"{said}3 false positives (1 in 4,100) among 12,345 new URLs; 12 URLs wait for it."
    )
    ledger |= {"waiting": 1, "false_positives": 0}
    assert trust(statistics(seen=seen(expected_urls_skipped=0.0, ledger=ledger))).startswith(
        f"{said}0 false positives among 12,345 new URLs; 1 URL waits for it."
    )
    ledger |= {"waiting": 0}
    assert trust(statistics(seen=seen(expected_urls_skipped=0.0, ledger=ledger))).startswith(
        f"{said}0 false positives among 12,345 new URLs."
    )


def test_a_planned_wait_is_no_alarm_and_an_empty_end_is_one() -> None:
    waits = [statistics(state="paused", paused="x", paused_by=by) for by in ("hours", "round", "schedule")]
    assert [standing(stats) for stats in waits] == ["waiting"] * 3
    assert standing(statistics(state="paused", paused="x", paused_by="user")) == "paused"
    assert standing(statistics(state="ended")) == "ended"
    assert standing(statistics(state="ended", pages_fetched=0)) == "failed"
    assert standing({}) == ""


def test_a_crawl_without_an_end_is_told_as_keeping_its_pages_fresh() -> None:
    again = {"urls_pending": 40, "urls_in_flight": 2, "revisits_pending": 42, "revisits": 142, "revisits_changed": 7}
    stats = statistics(endless=True, pages_failed=0, urls_excluded=0, **again)
    assert standing(stats) == "keeping fresh"
    assert working(stats, 30.0, -20.0)["text"] == (
        "All found pages visited once; keeping them fresh (no end): 100 revisits, 7 found a change."
    )
    first = stats | {"urls_pending": 41}
    assert standing(first) == "running"
    assert time_left(first, -20.0) is None
    assert standing(stats | {"endless": False}) == "running", "what is tried again by hand has an end"


def test_a_slow_crawl_is_not_called_waiting_between_two_pages() -> None:
    course = Course()
    for second in range(48):
        course.observe(float(second), statistics(pages_fetched=second // 12, slowest_host=None))
    assert course.words(statistics())["doing"].startswith("Working: 0.1 pages/s over the last 47 s")
