"""What happened, told from the statistics and from the crawl, in a ring for each kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crawler.job.metrics.crawl_history import CrawlHistory, CrawlHistoryError
from crawler.job.metrics.events import Events, Kind
from tests.job.metrics.samples import statistics


def told(history: CrawlHistory) -> list[tuple[str, str]]:
    return [(event["kind"], event["text"]) for event in history.events.after(0)]


def observed(*changes: dict[str, Any]) -> CrawlHistory:
    history = CrawlHistory()
    for now, change in enumerate(changes, start=1_000):
        history.observe(float(now), statistics(**change))
    return history


def test_the_charts_end_where_the_crawl_ended_also_when_it_is_shown_again() -> None:
    history, again = CrawlHistory(), CrawlHistory()
    for now, stats in ((1.0, {}), (2.0, {"urls_pending": 191}), (2.4, {"urls_pending": 216, "state": "stopped"})):
        history.observe(now, statistics(**stats))
    again.restore(history.dump(), 9.0)
    for now in (9.0, 10.0):
        again.observe(now, statistics(urls_pending=216, state="stopped"))
    for each in (history, again):
        series = each.figures.series()["all"]
        assert (series["t"], series["pending"]) == ([1.0, 2.4], [2_000, 216])


def test_a_full_disk_a_warning_and_the_end_are_told() -> None:
    warned = {"text": "the next slice has no room", "cause": "memory"}
    history = observed(
        {"seen_warning": None},
        {"seen_warning": None, "paused": "No space left"},
        {"seen_warning": None},
        {"seen_warning": warned},
        {"seen_warning": warned},
        {"state": "ended", "seen_warning": None},
    )
    assert told(history) == [
        ("run", "paused: No space left"),
        ("run", "resumed"),
        ("slice", "the next slice has no room"),
        ("run", "the crawl has ended, 9,900 pages with status 2xx, 100 with 4xx or 5xx, 81 URLs failed"),
    ]


def test_a_sentence_is_cut_where_a_page_made_it_long() -> None:
    events = Events()
    events.add(1.0, Kind.ERROR, "x" * 100_000)
    assert len(events.after(0)[0]["text"]) == 400


def test_a_course_taken_up_again_goes_on() -> None:
    history, again = observed({}, {"paused": "No space left"}), CrawlHistory()
    again.restore(json.loads(json.dumps(history.dump())), 2_000.0)
    assert again.dump() == history.dump()
    again.events.add(2_000.0, Kind.RUN, "resumed")
    assert [event["number"] for event in again.events.after(0)] == [1, 2]


@pytest.mark.parametrize(
    "damage",
    [
        {"events": None},
        {"events": [{"number": 1}]},
        {"history": {}},
        {"history": 3},
        {"stopped": 3},
        {"pages_parsed": 3},
        {"pages_parsed": {"tokens": "many"}},
    ],
)
def test_what_is_no_course_is_refused_whole(damage: dict[str, Any]) -> None:
    again = CrawlHistory()
    with pytest.raises(CrawlHistoryError):
        again.restore(observed({}, {"state": "ended"}).dump() | damage, 2_000.0)
    assert again.events.last == 0
    assert again.figures.point() == {}


def test_the_charts_end_when_the_crawl_has_ended() -> None:
    history = observed({}, {}, {"state": "ended"}, {"state": "ended"}, {"state": "ended"})
    assert history.figures.series()["all"]["t"][-1] == 1_002.0
    again = CrawlHistory()
    again.restore(history.dump(), 5_000.0)
    again.observe(5_000.0, statistics(state="ended"))
    assert again.figures.series()["all"]["t"][-1] == 1_002.0
    again.observe(5_001.0, statistics(state="running"))
    assert again.figures.series()["all"]["t"][-1] == 5_001.0, "it resumed"
