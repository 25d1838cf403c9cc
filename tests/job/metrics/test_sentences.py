from __future__ import annotations

import pytest

from crawler.job.metrics.sentences import standing, trust, working
from tests.job.metrics.samples import statistics


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
        ({"state": "paused", "paused": "paused by user", "paused_by": "user"}, "wait"),
        ({"state": "ended"}, "over"),
        ({"state": "ended", "pages_fetched": 0}, "bad"),
        ({"state": "stopped"}, "over"),
        ({"state": "stopping"}, "wait"),
        ({"state": ""}, "wait"),
    ],
)
def test_whether_it_works(changes: dict[str, object], mark: str) -> None:
    assert working(statistics(**changes))["mark"] == mark


def test_a_crawl_that_waits_for_one_retry_does_not_count_as_working() -> None:
    slowest = {"name": "h.test", "pending": 1, "seconds_per_url": 1.0, "seconds": 36.0, "hosts": 1}
    slowest |= {"wait_seconds": 35.0, "reason": "its URLs failed and will be retried"}
    stats = statistics(pages_per_second=0.4, urls_pending=1, urls_in_flight=0, hosts_pending=1, slowest_host=slowest)
    assert working(stats)["mark"] == "wait"
    assert "h.test" in working(stats)["text"]
    assert "35 s" in working(stats)["text"]
    for other in ({"urls_in_flight": 1}, {"hosts_pending": 2}, {"slowest_host": slowest | {"reason": ""}}):
        assert working(stats | other)["mark"] == "good", other


def test_the_headline_says_when_the_crawl_ends_and_why_or_that_it_cannot_tell() -> None:
    assert "about 1 min 43 s" in working(statistics())["text"]
    assert "slow.test:80: 5 pending URLs, one every 6.0 s" in working(statistics())["text"]
    left = {"seconds": 103.2, "at_least": False, "host": None, "why": "", "like": ""}
    assert "slow.test" not in working(statistics(time_left=left))["text"], "all hosts together take longer"
    bound = left | {"at_least": True, "host": "slow.test:80", "why": "each URL done adds 1.4 new ones"}
    for unknown, words in ((bound, "each URL done adds 1.4 new ones"), (None, "Cannot tell yet")):
        text = working(statistics(time_left=unknown))["text"]
        assert words in text
        assert "about" not in text
        assert ("slow.test" in text) == bool(unknown), "the bound is that of a host, which may be mended"


def test_pages_with_an_error_are_named_as_such_at_the_end() -> None:
    ended = {"state": "ended", "pages_by_status": {"2xx": 9, "4xx": 4, "5xx": 1}, "urls_by_outcome": {"fetched": 14}}
    assert "9 pages with status 2xx, 5 with" in working(statistics(**ended))["text"]


def test_a_ledger_that_checked_nothing_has_lost_nothing_to_tell_of() -> None:
    seen = statistics()["seen"]
    assert "none lost" in trust({"urls_admitted": 9, "seen": seen})
    unused = seen | {"ledger": {"waiting": 3, "confirmed": 0, "false_positives": 0, "fpp": 0.0}}
    assert "checked yet; 3 URLs" in trust({"urls_admitted": 9, "seen": unused})
    unused["ledger"] |= {"waiting": 0}
    assert "none did so far." in trust({"urls_admitted": 9, "seen": unused}), "also at the end"


def test_a_planned_wait_is_no_alarm_and_an_empty_end_is_one() -> None:
    waits = [statistics(state="paused", paused="x", paused_by=by) for by in ("hours", "round", "schedule")]
    assert [standing(stats) for stats in waits] == ["waiting"] * 3
    assert standing(statistics(state="paused", paused="x", paused_by="user")) == "paused"
    assert standing(statistics(state="ended")) == "ended"
    assert standing(statistics(state="ended", pages_fetched=0)) == "failed"
    assert standing({}) == ""


def test_a_crawl_without_an_end_is_told_as_keeping_its_pages_fresh() -> None:
    again = {"urls_pending": 40, "urls_in_flight": 2, "revisits_pending": 42, "revisits": 142, "revisits_changed": 7}
    stats = statistics(endless=True, urls_by_outcome={}, **again)
    assert standing(stats) == "keeping fresh"
    assert working(stats)["mark"] == "good"
    first = stats | {"urls_pending": 41}
    assert standing(first) == "running"
    assert standing(stats | {"endless": False}) == "running", "what is tried again by hand has an end"
