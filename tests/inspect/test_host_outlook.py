"""How fast a host may be asked, and how long its own URLs take."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.inspect.host_outlook import with_outlook
from crawler.settings import PolitenessSettings

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
        ({}, (30.0, 20.0, 0.0)),
        ({"latency_seconds": 1.0}, (20.0, 30.0, 0.0)),
        ({"latency_seconds": 1.0, "per_host": 2}, (30.0, 20.0, 0.0)),  # the starts are a gap apart
        ({"latency_seconds": 6.0, "per_host": 2}, (15.0, 40.0, 0.0)),
        ({"wait_seconds": 100.0, "in_flight": 1, "pending": 4}, (30.0, 110.0, 0.0)),
        ({"fetched": 20, "failed": 10}, (30.0, 20.0, 0.75)),
        ({"gap_seconds": 0.0}, (None, None, 0.0)),
        ({"gap_seconds": 0.0, "latency_seconds": 0.5}, (120.0, 5.0, 0.0)),
        ({"slowed_seconds": 60.0, "wait_seconds": 55.0, "pending": 1}, (30.0, 117.0, 0.0)),
        ({"slowed_seconds": None, "wait_seconds": 55.0}, (30.0, None, 0.0)),  # it does not answer
        ({"slowed_seconds": None, "pending": 0, "state": "idle"}, (30.0, 0.0, None)),
        ({"pending": 0, "state": "idle"}, (30.0, 0.0, None)),
        ({"pending": 0, "state": "idle", "gap_seconds": 0.0, "fetched": 3}, (None, 0.0, 1.0)),
        ({"state": "retired"}, (30.0, None, 0.0)),
        ({"state": "blocked", "fetched": 30}, (30.0, None, 0.75)),
        ({"state": "paused"}, (30.0, None, 0.0)),
    ],
)
def test_pace_time_and_share(changes: dict[str, Any], expected: tuple[Any, Any, Any]) -> None:
    assert outlook(**changes) == expected
