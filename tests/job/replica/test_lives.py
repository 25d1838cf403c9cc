"""A disk is lost, and the replica goes on: nothing is missing, nothing comes twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import SeenSettings
from tests.chance import CHANCE
from tests.durability.power import KEEPING
from tests.job.replica.lives import live

KINDS = [KEEPING.seen, *(SeenSettings(kind=kind, capacity=400) for kind in ("bloom", "exact", "counting", "cuckoo"))]


@pytest.mark.parametrize("seed", range(12))
def test_a_crawl_whose_disks_are_lost_is_whole(seed: int, tmp_path: Path) -> None:
    CHANCE.seed(seed)
    life = live(seed, tmp_path, replace(KEEPING, seen=KINDS[seed % len(KINDS)]))
    assert not life.missing
    assert not life.twice
    assert not life.broken
    assert not life.unseen
    assert life.copies
