"""Whole crawls of several members through random faults: nothing is lost, nothing is written twice, no gap is
shortened, and each ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.ordeal_of_members import check, ordeal
from tests.examples import TIMES


@pytest.mark.parametrize("seed", range(3 * TIMES))
def test_a_crawl_survives_its_faults(tmp_path: Path, seed: int) -> None:
    assert check(ordeal(seed, tmp_path)) == []
