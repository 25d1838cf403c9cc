"""The clock of a job: a wall clock that is set while the crawl runs changes nothing, and the next run hears of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from crawler.base.clock import SteadyClock


@pytest.mark.parametrize("jump", [3_600.0, -3_600.0, -1e9])
def test_a_wall_clock_that_is_set_makes_no_time_pass(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    before = clock()
    assert before == pytest.approx(time.time(), abs=60)
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + jump)
    assert before <= clock() < before + 60
    assert SteadyClock()() == pytest.approx(before + jump, abs=60), "the next run begins by the new time"


def test_two_clocks_of_one_boot_tell_by_how_much_the_wall_clock_was_set_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = SteadyClock().anchor
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 3_600)
    after = SteadyClock().anchor
    assert before is not None
    assert after is not None
    assert before.boot == after.boot
    assert after.offset - before.offset == pytest.approx(3_600, abs=0.5)


def test_where_the_system_does_not_tell_of_its_boot_there_is_no_anchor(tmp_path: Path) -> None:
    for content in (None, b"", b"\xff" * 36, b"x" * 10_000):
        path = tmp_path / "boot_id"
        if content is not None:
            path.write_bytes(content)
        assert SteadyClock(path).anchor is None
