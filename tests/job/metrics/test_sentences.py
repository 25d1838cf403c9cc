from __future__ import annotations

import pytest

from crawler.job.metrics.sentences import standing, trust, working
from tests.job.metrics.samples import statistics


def seen(**changes: object) -> dict[str, object]:
    return statistics()["seen"] | {"ledger": None} | changes


def test_trust_says_how_many_were_skipped_of_how_many() -> None:
    stats = statistics(urls_admitted=1_204_329, seen=seen(expected_urls_skipped=3.2))
    assert trust(stats) == "About 3 of 1,204,332 new URLs were probably skipped by mistake."


def test_trust_warns_when_the_target_is_missed() -> None:
    stats = statistics(seen=seen(fpp_estimated=0.002, fpp_target=0.001))
    assert trust(stats).endswith("The estimated fpp is 1 in 500, above the target of 1 in 1,000.")


def test_trust_warns_of_bits_that_the_keys_do_not_explain() -> None:
    stats = statistics(seen=seen(count_suspect=True, count_estimated=7_000.4))
    assert "Do not trust it: its bits are those of 7,000 keys, and 12,345 were added" in trust(stats)


@pytest.mark.parametrize(
    ("changes", "mark"),
    [
        ({}, "good"),
        ({"time_left": None}, "good"),
        ({"pages_per_second": 0.0}, "wait"),
        ({"pages_per_second": None}, "good"),
        ({"pages_per_second": None, "pages_fetched": 0}, "wait"),
        ({"pages_per_second": None, "urls_pending": 0, "urls_in_flight": 0}, "wait"),
        ({"state": "paused", "paused": "disk full: no space"}, "bad"),
        ({"state": "paused", "paused": "closed", "paused_by": "hours"}, "wait"),
        ({"state": "ended"}, "over"),
        ({"state": "ended", "pages_fetched": 0}, "bad"),
        ({"state": "stopped"}, "over"),
        ({"state": "stopping"}, "wait"),
        ({"state": ""}, "wait"),
    ],
)
def test_whether_it_works(changes: dict[str, object], mark: str) -> None:
    assert working(statistics(**changes))["mark"] == mark


def test_a_working_crawl_tells_its_pace_and_the_host_that_determines_its_end() -> None:
    text = working(statistics())["text"]
    assert "30.0 pages/s" in text
    assert "1 min 43 s" in text
    assert "slow.test:80" in text


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
    assert working(stats)["text"] == (
        "All found pages visited once; keeping them fresh (no end): 100 revisits, 7 found a change."
    )
    first = stats | {"urls_pending": 41}
    assert standing(first) == "running"
    assert standing(stats | {"endless": False}) == "running", "what is tried again by hand has an end"
