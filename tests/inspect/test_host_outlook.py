"""How fast a host may be asked, and how long its own URLs take."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.base.settings import PolitenessSettings
from crawler.inspect.host_outlook import with_outlook

ROW = {
    "host": "h.test:80",
    "state": "waiting",
    "pending": 10,
    "in_flight": 0,
    "fetched": 0,
    "failed": 0,
    "wait_seconds": 0.0,
    "gap_seconds": 2.0,
    "latency_seconds": None,
    "slowed_seconds": 0.0,
}


def outlook(per_host: int = 1, **changes: Any) -> tuple[Any, Any, Any]:
    (row,) = with_outlook([ROW | changes], lambda _: PolitenessSettings(per_host=per_host))
    return row["pace"], row["seconds_left"], row["share"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (None, 20.0, 0.0)),  # nothing is measured yet
        ({"fetched": 10}, (30.0, 20.0, 0.5)),
        ({"latency_seconds": 1.0, "fetched": 10}, (20.0, 30.0, 0.5)),
        ({"latency_seconds": 1.0, "per_host": 2, "fetched": 10}, (30.0, 20.0, 0.5)),  # the starts are a gap apart
        ({"latency_seconds": 6.0, "per_host": 2, "fetched": 10}, (15.0, 40.0, 0.5)),
        ({"wait_seconds": 100.0, "in_flight": 1, "pending": 4}, (None, 110.0, 0.0)),
        ({"fetched": 20, "failed": 10}, (30.0, 20.0, 0.75)),
        ({"gap_seconds": 0.0}, (None, None, 0.0)),
        ({"gap_seconds": 0.0, "latency_seconds": 0.5, "failed": 10}, (120.0, 5.0, 0.5)),
        ({"slowed_seconds": 60.0, "wait_seconds": 55.0, "pending": 1, "fetched": 1}, (60 / 62, 117.0, 0.5)),
        ({"slowed_seconds": None, "wait_seconds": 55.0, "fetched": 10}, (None, None, 0.5)),  # it does not answer
        ({"slowed_seconds": None, "pending": 0, "state": "idle"}, (None, 0.0, None)),
        ({"pending": 0, "state": "idle"}, (None, 0.0, None)),
        ({"pending": 0, "state": "idle", "gap_seconds": 0.0, "fetched": 3}, (None, 0.0, 1.0)),
        ({"pending": 0, "state": "retired", "failed": 3}, (None, None, None)),  # all that it "did" is to fail
        ({"state": "retired"}, (None, None, 0.0)),
        ({"state": "blocked", "fetched": 30}, (None, None, 0.75)),
        ({"state": "paused", "fetched": 30}, (None, None, 0.75)),
    ],
)
def test_pace_time_and_share(changes: dict[str, Any], expected: tuple[Any, Any, Any]) -> None:
    assert outlook(**changes) == expected


def test_a_crawl_that_stands_still_has_no_pace() -> None:
    (row,) = with_outlook([ROW | {"fetched": 10}], lambda _: PolitenessSettings(), running=False)
    assert (row["pace"], row["seconds_left"]) == (None, 20.0)
