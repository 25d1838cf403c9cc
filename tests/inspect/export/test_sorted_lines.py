"""Lines in order, more of them than are held in memory."""

from __future__ import annotations

import random
from pathlib import Path

from crawler.inspect.export.sorted_lines import SortedLines


def test_lines_come_in_order_however_many_runs_they_took(tmp_path: Path) -> None:
    lines = [f"{number:x} {'x' * (number % 7)}\n".encode() for number in range(700)] * 2
    random.Random(1).shuffle(lines)
    for memory in (1, 40, 500, 10**9):
        runs = tmp_path / str(memory)
        runs.mkdir()
        sorter = SortedLines(runs, memory)
        for line in lines:
            sorter.add(line)
        assert list(sorter) == sorted(lines)
        assert len(list(runs.iterdir())) < 64


def test_without_lines_there_are_none(tmp_path: Path) -> None:
    assert list(SortedLines(tmp_path)) == []
