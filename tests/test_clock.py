"""The clock of a job: a wall clock that is set while the crawl runs changes nothing."""

from __future__ import annotations

import time

import pytest

from crawler.clock import SteadyClock


@pytest.mark.parametrize("jump", [3_600.0, -3_600.0, -1e9])
def test_a_wall_clock_that_is_set_makes_no_time_pass(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    before = clock()
    assert before == pytest.approx(time.time(), abs=60)
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + jump)
    assert before <= clock() < before + 60
    assert SteadyClock()() == pytest.approx(before + jump, abs=60), "the next run begins by the new time"
