"""The protocol between partitions through random faults: each crawl ends, and none while anything is left. Each fault
that is planted is found."""

from __future__ import annotations

import pytest

from tests.examples import TIMES
from tests.partition.protocol_simulation import live

LIVES, A_TEST = 400, 100
SEARCHED = 3_000  # lives in which a planted fault must show


@pytest.mark.parametrize("first", range(0, LIVES * TIMES, A_TEST))
def test_every_crawl_ends_when_nothing_is_left(first: int) -> None:
    lives = {seed: live(seed) for seed in range(first, first + A_TEST)}
    assert {seed: life.wrong for seed, life in lives.items() if life.wrong} == {}
    for fault in ("killed", "power lost", "stopped", "cut off", "forgotten", "failed over", "promoted", "moved"):
        assert any(life.counts[fault] for life in lives.values()), f"none {fault}"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    seeds = itertools.chain([SHOWS.get(fault, 0)], range(SEARCHED))
    with FAULTS[fault]():
        assert any(live(seed).wrong for seed in seeds)
