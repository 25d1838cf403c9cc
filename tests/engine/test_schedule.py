"""Whole crawls in virtual time that have a schedule, judged by what the servers were asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from crawler.base.clock import Anchor
from crawler.engine.lifecycle import Stop
from crawler.job.job import Job
from crawler.job.metrics.sentences import working
from tests.engine.test_sites import laboratory
from tests.laboratory import START

# START is 22:13:20 UTC.
CLOSES, OPENS = START + 100, START + 1_000  # 22:15 and 22:30
WINDOW = {"hours": ["06:00-22:15", "22:30-06:00"], "time_zone": "UTC"}
ROUND = START + 1_000


def test_outside_its_hours_the_crawl_is_paused_and_says_until_when(tmp_path: Path) -> None:
    lab, seeds = laboratory(tmp_path, ["a.test", "b.test"], 150, politeness={"delay": 1.0}, schedule=WINDOW)
    seen: list[Any] = []

    async def look(run: Any, _: Job) -> None:
        began = asyncio.get_running_loop().time()
        for wait in (50.0, 400.0, 1_010.0):
            await asyncio.sleep(began + wait - asyncio.get_running_loop().time())
            seen.append(run.stats())

    assert lab.run(*seeds, during=look) is Stop.FINISHED
    begins = [asked.begin for asked in lab.asked]
    assert not [time for time in begins if CLOSES <= time < OPENS]
    assert min(time for time in begins if time > CLOSES) < OPENS + 2
    before, closed, after = seen
    assert (before["paused_by"], after["paused_by"]) == (None, None)
    assert (closed["state"], closed["paused_by"]) == ("paused", "schedule")
    assert "2023-11-14" in closed["paused"]
    assert working(closed)["mark"] == "wait"
    assert closed["slots"]["reason"] == closed["paused"], "what explain says of a URL that waits"


def test_all_pages_are_visited_again_in_each_round_and_between_them_nothing_is_asked(tmp_path: Path) -> None:
    schedule = {"times": ["22:30", "23:30"], "time_zone": "UTC"}
    lab, seeds = laboratory(tmp_path, ["a.test"], 20, politeness={"delay": 1.0}, schedule=schedule, recrawl={})
    seen: list[Any] = []

    async def look(run: Any, _: Job) -> None:
        await asyncio.sleep(500.0)
        seen.append(run.stats())

    assert lab.run(*seeds, max_time=1_100.0, during=look) is Stop.MAX_TIME
    first = [asked for asked in lab.requests_to("a.test") if asked.begin < ROUND]
    second = [asked for asked in lab.requests_to("a.test") if asked.begin >= ROUND]
    assert max(asked.begin for asked in first) < START + 60
    assert min(asked.begin for asked in second) < ROUND + 3
    assert max(asked.begin for asked in second) < ROUND + 60, "nor a third time before 23:30"
    assert Counter(asked.href for asked in first) == Counter(asked.href for asked in second)
    (waits,) = seen
    assert (waits["state"], waits["paused_by"]) == ("paused", "round")
    assert "2023-11-14" in waits["paused"]


def test_a_round_that_passed_while_no_crawl_ran_is_made_up_for_once(tmp_path: Path) -> None:
    schedule = {"times": ["22:30", "22:45", "23:00"], "time_zone": "UTC"}
    lab, seeds = laboratory(tmp_path, ["a.test"], 10, politeness={"delay": 1.0}, schedule=schedule, recrawl={})
    assert lab.run(*seeds, max_time=100.0) is Stop.MAX_TIME
    first = len(lab.requests_to("a.test"))
    lab.now += 4_000.0
    assert lab.run(max_time=600.0) is Stop.MAX_TIME
    assert len(lab.requests_to("a.test")) == 2 * first


@pytest.mark.parametrize("slept", [600.0, 86_400.0 + 600.0])
def test_a_machine_that_slept_over_the_begin_of_its_hours_goes_on_when_it_wakes(tmp_path: Path, slept: float) -> None:
    lab, seeds = laboratory(tmp_path, ["a.test"], 150, politeness={"delay": 1.0}, schedule=WINDOW)

    async def sleep(*_: Any) -> None:
        await asyncio.sleep(500.0)  # the hours begin in 500 s
        lab.slept = slept

    assert lab.run(*seeds, during=sleep) is Stop.FINISHED
    woke = START + 500 + slept
    after = [asked.begin for asked in lab.asked if asked.begin > CLOSES]
    assert woke <= min(after) < woke + 60


@pytest.mark.parametrize("slept", [86_400.0 + 600.0])
def test_a_machine_that_slept_over_a_round_makes_up_for_it_once_when_it_wakes(tmp_path: Path, slept: float) -> None:
    schedule = {"times": ["22:30"], "time_zone": "UTC"}
    lab, seeds = laboratory(tmp_path, ["a.test"], 20, politeness={"delay": 1.0}, schedule=schedule, recrawl={})

    async def sleep(*_: Any) -> None:
        await asyncio.sleep(500.0)
        lab.slept = slept

    assert lab.run(*seeds, max_time=slept + 620.0, during=sleep) is Stop.MAX_TIME
    woke = START + 500 + slept
    later = [asked for asked in lab.requests_to("a.test") if asked.begin > START + 100]
    assert woke <= min(asked.begin for asked in later) < woke + 60
    assert set(Counter(asked.href for asked in later).values()) == {1}


def moment(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


@pytest.mark.parametrize(("step", "known"), [(-600.0, True), (600.0, False)])
def test_a_clock_that_was_set_between_two_runs_moves_no_round(tmp_path: Path, step: float, known: bool) -> None:
    """Rounds are times of day: whether the clock is known to have been set changes nothing."""
    schedule = {"times": ["22:30"], "time_zone": "UTC"}
    lab, seeds = laboratory(tmp_path, ["a.test"], 5, politeness={"delay": 1.0}, schedule=schedule, recrawl={})
    lab.anchor = Anchor("0" * 36, 0.0)
    assert lab.run(*seeds, max_time=100.0) is Stop.MAX_TIME
    first = len(lab.asked)
    lab.now += step
    lab.anchor = Anchor("0" * 36, step) if known else None
    due = moment("2023-11-14T22:30")
    assert lab.run(max_time=due + 120 - lab.now) is Stop.MAX_TIME
    later = [asked.begin for asked in lab.asked[first:]]
    assert len(later) == first
    assert due <= min(later) < due + 60
