"""What the terminal shows, and what a log gets."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from crawler.engine.lifecycle import Stop
from crawler.service.facade import Result
from crawler.service.progress.last_lines import ending
from crawler.service.progress.live_line import Progress
from tests.job.metrics.samples import statistics


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_figures_and_is_left_clean(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    with Progress(terminal) as progress:
        progress.update(statistics())
        shown = terminal.getvalue()
        before = len(shown)
    assert "9,900 pages with status 2xx, 100" in shown
    # The cursor comes back.
    assert "\x1b[?25h" in terminal.getvalue()[before:]


def ended(reason: Stop = Stop.FINISHED, **changes: Any) -> str:
    return ending(Result(reason, statistics(**changes), None, 1, None), Path("a job"))


@pytest.mark.parametrize(
    ("changes", "live", "last"),
    [
        ({"ledger": {"waiting": 0, "confirmed": 9, "false_positives": 0, "fpp": 0.0}}, False, False),
        ({"ledger": {"waiting": 0, "confirmed": 9, "false_positives": 1, "fpp": 0.1}}, False, True),
        ({"ledger": None}, True, True),
        ({"ledger": None, "fpp_bound": 0.0}, False, False),
        ({"fpp_estimated": 0.002}, True, True),
    ],
)
def test_the_seen_set_is_mentioned_only_if_it_is_news(changes: dict[str, Any], live: bool, last: bool) -> None:
    seen, log = statistics()["seen"] | changes, io.StringIO()
    Progress(log).update(statistics(seen=seen))
    assert ("fpp" in log.getvalue()) is live
    assert ("seen-set" in ended(seen=seen)) is last


def test_the_urls_of_some_partitions_are_not_those_of_the_crawl() -> None:
    whole = [{"state": "ended"}, {"state": "ended"}]
    assert "partitions" not in ended(partitions=whole)
    some = ended(partitions=[*whole, {"state": "absent"}])
    assert "in 2 of 3 partitions" in some
    assert "dashboard" not in some, "it would show only these"


def test_what_to_do_next_is_not_said_of_a_directory_that_is_left() -> None:
    result = Result(Stop.INTERRUPTED, statistics(), None, 1, None)
    said, drained = (ending(result, Path("a job"), goes_on=goes_on) for goes_on in (True, False))
    assert said.startswith(f"{drained}\n")
    assert "next" not in drained
