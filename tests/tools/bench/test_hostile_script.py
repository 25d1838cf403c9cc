"""The long form of the hostile tests runs, with a few of its hosts."""

from __future__ import annotations

import re

import pytest

from benchmarks.hostile.run import main
from benchmarks.hostile.traps import TRAPS


def test_some_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(TRAPS) == 20
    assert main(["--pages", "8", "--only", "redirects without end"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^redirects without end +12  redirect 11$", told, re.M)
    assert "8 of 8 pages" in told
