"""Nothing is lost between partitions, and nothing comes twice, whatever happens to what lies between them and to their
power. Each fault that is planted is found."""

from __future__ import annotations

import itertools

import pytest

from tests.job.partition.chain_simulation import FAULTS, live

LIVES, A_TEST = 200, 25
SEARCHED = 300  # lives in which a planted fault must show
# Lives in which each shows today: looked at first.
SHOWS = {
    "a row goes when the carrier has it": 1,
    "a parcel is acknowledged before it is durable": 2,
    "an epoch is used again": 3,
    "an older epoch is accepted": 93,
    "the row of the inlet is written before": 12,
    "the inlet is in memory": 14,
    "the outbox is in memory": 0,
    "the sent cache outlives its process": 11,
}


@pytest.mark.parametrize("first", range(0, LIVES, A_TEST))
def test_every_url_is_admitted_once_where_it_belongs(first: int) -> None:
    lives = {seed: live(seed) for seed in range(first, first + A_TEST)}
    assert {seed: life for seed, life in lives.items() if not life.is_right} == {}
    assert sum(life.cuts for life in lives.values()) > A_TEST, "the faults come"
    assert sum(life.repeated for life in lives.values()) > A_TEST


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    seeds = itertools.chain([SHOWS[fault]], range(SEARCHED))
    assert any(not live(seed, FAULTS[fault]()).is_right for seed in seeds)
