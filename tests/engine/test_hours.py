"""Whole crawls in virtual time that may ask hosts only at some hours, judged by what the servers were asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.engine.lifecycle import Stop
from crawler.frontier.host_status import HostState
from crawler.job.job import Job
from tests.engine.test_sites import laboratory
from tests.laboratory import START

CLOSES = START + 100  # which is 22:13:20 UTC
OPENS = START + 1_000
HOURS = {"hours": ["06:00-22:15", "22:30-06:00"], "time_zone": "UTC"}


def test_hosts_wait_for_their_hours_and_the_crawl_for_them(tmp_path: Path) -> None:
    lab, seeds = laboratory(
        tmp_path,
        ["day.test", "any.test"],
        150,
        politeness={"delay": 1.0, **HOURS},
        site=[{"match": "any.test", "hours": []}],
    )
    seen: list[tuple[float, Any, Any]] = []

    async def look(run: Any, job: Job) -> None:
        began = asyncio.get_running_loop().time()
        for wait in (50.0, 110.0, 400.0):
            await asyncio.sleep(began + wait - asyncio.get_running_loop().time())
            now, stats = START + wait, run.stats()
            seen.append((wait, job.frontier.describe("day.test:80", now), (stats["paused"], stats["paused_by"])))

    assert lab.run(*seeds, during=look) is Stop.FINISHED
    day = [asked.begin for asked in lab.requests_to("day.test")]
    assert len(day) == 151
    assert not [at for at in day if CLOSES <= at < OPENS]
    assert day[0] == START
    assert OPENS <= next(at for at in day if at > CLOSES) < OPENS + 2
    assert max(asked.begin for asked in lab.requests_to("any.test")) < START + 200, "it has other hours"
    (_, before, _), (_, closed, busy), (_, later, paused) = seen
    assert before.rule != "hours"
    assert (closed.state, closed.rule, closed.next_time) == (HostState.WAITING, "hours", OPENS)
    assert (later.state, later.rule) == (HostState.WAITING, "hours")
    assert "politeness.hours" in later.reason
    assert busy == (None, None), "the other host is asked"
    assert "22:30:00" in paused[0]
    assert paused[1] == "hours"


def test_hours_hold_over_a_restart(tmp_path: Path) -> None:
    lab, seeds = laboratory(tmp_path, ["day.test"], 200, politeness={"delay": 1.0, **HOURS})
    assert lab.run(*seeds, max_time=200.0) is Stop.MAX_TIME
    first = len(lab.asked)
    assert lab.run(max_time=300.0) is Stop.MAX_TIME
    assert len(lab.asked) == first, "nothing was asked for outside the hours"
    assert lab.run() is Stop.FINISHED
    assert min(asked.begin for asked in lab.asked[first:]) >= OPENS
    assert len(lab.asked) == 201


def test_other_hours_hold_at_once(tmp_path: Path) -> None:
    lab, seeds = laboratory(tmp_path, ["day.test"], 150, politeness={"delay": 1.0, **HOURS})

    async def change(run: Any, _: Job) -> None:
        await asyncio.sleep(300.0)
        run.change(replace(lab.settings, politeness=replace(lab.settings.politeness, hours=())))
        await asyncio.Event().wait()

    assert lab.run(*seeds, during=change) is Stop.FINISHED
    late = [asked.begin - START for asked in lab.asked if asked.begin > CLOSES]
    assert 299.0 < late[0] < 302.0
    assert late[-1] < 400.0
