"""Whole crawls of machines with disks that burn, through random faults: replicas take over, and nothing is lost, asked
for again without need or written twice, no gap is shortened, and each ends when all is done. That faults are found
shows ``benchmarks/partitions/simulation.py --homes --planted``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.ordeal_of_homes import ordeal_of_homes
from tests.cluster.ordeal_of_members import check


@pytest.mark.parametrize("seed", [1, 8])
def test_a_crawl_survives_the_loss_of_machines(tmp_path: Path, seed: int) -> None:
    assert check(ordeal_of_homes(seed, tmp_path)) == []
