"""What holds for the tests themselves while they run: a limit of time, and Ctrl-C for the programs they start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import ROOT


def pytest_in_a_worker(*words: str | Path) -> tuple[int, str]:
    """Run pytest with one worker and these words: its exit code, and what it printed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1"]
    ran = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, check=False, cwd=ROOT)
    return ran.returncode, ran.stdout + ran.stderr


def test_every_test_has_a_limit(request: pytest.FixtureRequest) -> None:
    limit, last = float(request.config.getini("timeout")), float(request.config.getini("faulthandler_timeout"))
    assert 0 < limit < last
    assert request.config.getini("faulthandler_exit_on_timeout")
    for item in request.session.items:
        for mark in item.iter_markers("timeout"):
            assert 0 < mark.args[0] < last, item.nodeid


def test_programs_start_with_ctrl_c_at_its_default() -> None:
    """The same for the signal of a closed terminal."""
    asked = "from signal import *; print(getsignal(SIGINT) is default_int_handler, getsignal(SIGHUP) is SIG_DFL)"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ran.stdout == "True True\n"


def test_so_they_do_where_pytest_was_started_with_it_ignored() -> None:
    """As under ``nohup``, or behind ``&`` in a script."""
    name = f"{Path(__file__)}::{test_programs_start_with_ctrl_c_at_its_default.__name__}"
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        code, told = pytest_in_a_worker(name)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    assert code == 0, told
