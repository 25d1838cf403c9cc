"""What CI compares: ratios of instructions."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.crawl.instructions import HISTORY, grown


@pytest.mark.parametrize(("now", "faults"), [(2.09, 0), (2.11, 1), (1.2, 0)])
def test_only_a_ratio_that_has_grown_by_more_than_a_twentieth_is_a_fault(now: float, faults: int) -> None:
    before = {"start, of the floor": 2.0, "crawler: start": 2_400.0}
    # The instructions themselves depend on the libraries and the processor.
    assert len(grown(before, {"start, of the floor": now, "crawler: start": 9_000.0})) == faults


@pytest.mark.parametrize("option", ["--check", "--record"])
def test_a_program_without_its_compiled_module_is_not_compared(option: str) -> None:
    before = HISTORY.read_bytes()
    script = HISTORY.parents[1] / "crawl" / "instructions.py"
    environment = os.environ | {"CRAWLER_NATIVE": "off"}
    ran = subprocess.run([sys.executable, str(script), option], env=environment, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert len(ran.stderr.splitlines()) == 1
    assert HISTORY.read_bytes() == before
