"""What CI compares: ratios of instructions, on clocks that do not go faster because the machine is slow."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.crawl.count_clock import STEP, CountClock
from benchmarks.crawl.instructions import HISTORY, grown, recorded

PYTHON = ".".join(platform.python_version_tuple()[:2])


@pytest.mark.parametrize(("now", "faults"), [(2.09, 0), (2.11, 1), (1.2, 0)])
def test_only_a_ratio_that_has_grown_by_more_than_a_twentieth_is_a_fault(now: float, faults: int) -> None:
    before = {"start, of the floor": 2.0, "crawler: start": 2_400.0}
    # The instructions themselves depend on the libraries and the processor.
    assert len(grown(before, {"start, of the floor": now, "crawler: start": 9_000.0})) == faults


def test_the_last_figures_of_this_python_count(tmp_path: Path) -> None:
    history = tmp_path / "instructions.jsonl"
    assert recorded(history) is None
    lines = [{"python": python, "figures": {"a": number}} for number, python in enumerate([PYTHON, PYTHON, "2.7"])]
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert recorded(history) == {"a": 1}


def test_the_recorded_history_has_what_is_compared() -> None:
    for line in map(json.loads, HISTORY.read_text("utf-8").splitlines()):
        ratios = [name for name in line["figures"] if name.endswith("of the floor")]
        assert sorted(ratios) == ["a page, of the floor", "start, of the floor"]
        assert not grown(line["figures"], line["figures"])


@pytest.mark.parametrize("option", ["--check", "--record"])
def test_a_program_without_its_compiled_module_is_not_compared(option: str) -> None:
    before = HISTORY.read_bytes()
    script = HISTORY.parents[1] / "crawl" / "instructions.py"
    environment = os.environ | {"CRAWLER_NATIVE": "off"}
    ran = subprocess.run([sys.executable, str(script), option], env=environment, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert len(ran.stderr.splitlines()) == 1
    assert HISTORY.read_bytes() == before


@given(st.integers(1, 50), st.floats(0.0, 1e3))
def test_computing_takes_no_time_on_a_clock_of_readings(readings: int, computed: float) -> None:
    real = [0.0]
    clock = CountClock(lambda: real[0])
    for _ in range(readings):
        real[0] += computed
        passed = clock.passed()
    assert passed == pytest.approx(readings * STEP)


def test_waiting_takes_the_time_that_it_takes() -> None:
    real = [0.0]

    def wait(seconds: float) -> str:
        real[0] += seconds
        return "ready"

    clock = CountClock(lambda: real[0])
    assert clock.waiting(wait)(3.0) == "ready"
    assert clock.passed() == pytest.approx(3.0 + STEP)


def test_a_wait_that_is_interrupted_has_taken_its_time() -> None:
    real = [0.0]

    def wait() -> None:
        real[0] += 2.0
        raise InterruptedError

    clock = CountClock(lambda: real[0])
    with pytest.raises(InterruptedError):
        clock.waiting(wait)()
    assert clock.passed() == pytest.approx(2.0 + STEP)
    assert time.monotonic() > 0
