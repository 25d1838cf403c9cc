"""Whole crawls of several members through random faults: nothing is lost, asked for again without need or written
twice, no gap is shortened, no request begins late, and each ends when all is done. That faults are found shows
``benchmarks/partitions/simulation.py --planted``, and of the protocol alone ``tests/job/partition``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import ordeal_of_members
from tests.cluster.ordeal_of_members import check, ordeal
from tests.examples import TIMES


@pytest.mark.parametrize("seed", range(4 * TIMES))
def test_a_crawl_survives_its_faults(tmp_path: Path, seed: int) -> None:
    assert check(ordeal(seed, tmp_path)) == []


@pytest.mark.parametrize("seed", range(2 * TIMES))
def test_a_takeover_keeps_the_gaps(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordeal_of_members, "DELAYS", ordeal_of_members.LONG_DELAYS)
    assert check(ordeal(seed, tmp_path)) == []


def test_the_same_seed_has_the_same_crawl(tmp_path: Path) -> None:
    first, second = (ordeal(8, tmp_path / name) for name in ("first", "second"))
    assert first == second
