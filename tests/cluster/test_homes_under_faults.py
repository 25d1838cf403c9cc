"""Whole crawls of machines with disks that burn, through random faults: replicas take over, and nothing is lost, asked
for again without need or written twice, no gap is shortened, and each ends when all is done. Faults that are planted
are found."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.cluster.ordeal_of_homes import ordeal_of_homes, ordeal_of_pairs
from tests.cluster.ordeal_of_members import check
from tests.cluster.planted_in_homes import FAULTS

SEARCHED = 40  # crawls in which a planted fault must show
# Crawls in which some show today: looked at first. ``benchmarks/partitions/simulation.py --homes --planted`` has all.
SHOWS = {
    "an owner's own disk is enough": 0,
    "a directory that is there is the partition": 1,
}


@pytest.mark.parametrize("seed", [1, 8])
def test_a_crawl_survives_the_loss_of_machines(tmp_path: Path, seed: int) -> None:
    assert check(ordeal_of_homes(seed, tmp_path)) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", [9, 10])
def test_a_crawl_with_two_replicas_survives_the_loss_of_two_machines(tmp_path: Path, seed: int) -> None:
    assert check(ordeal_of_pairs(seed, tmp_path)) == []


@pytest.mark.long
@pytest.mark.parametrize("fault", SHOWS)
def test_a_planted_fault_is_found(tmp_path: Path, fault: str) -> None:
    seeds = itertools.chain([SHOWS[fault]], range(SEARCHED))
    with FAULTS[fault]():
        assert any(check(ordeal_of_homes(seed, tmp_path / str(at))) for at, seed in enumerate(seeds))
