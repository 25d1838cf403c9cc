"""Whole crawls of several members through random faults: nothing is lost, asked for again without need or written
twice, no gap is shortened, no request begins late, and each ends when all is done. Each fault that is planted is
found."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.cluster.ordeal_of_members import check, ordeal
from tests.cluster.planted_in_members import FAULTS, long_delays
from tests.examples import TIMES

SEARCHED = 40  # crawls in which a planted fault must show
# Crawls in which each shows today: looked at first. The simulation of the protocol alone finds more of them, sooner.
SHOWS = {
    "no acknowledgement counts as one": 0,
    "a row goes when the carrier has it": 0,
    "a parcel is acknowledged before it is durable": 16,
    "an older epoch is accepted": 1,
    "a parcel is taken although one before it is missing": 3,
    "a parcel's number is written in a batch before it": 83,
    "the end is asked for once, and not of the streams": 43,
    "the end counts what is not durable": 9,
    "no gap after a takeover": 65,
    "a claim holds for ever": 0,
    "the fence is not asked when a request is sent": 0,
}
AT_ONCE = {"no acknowledgement counts as one", "a row goes when the carrier has it", "an older epoch is accepted"}


@pytest.mark.parametrize("seed", range(4 * TIMES))
def test_a_crawl_survives_its_faults(tmp_path: Path, seed: int) -> None:
    assert check(ordeal(seed, tmp_path)) == []


@pytest.mark.parametrize("seed", range(2 * TIMES))
def test_a_takeover_keeps_the_gaps(tmp_path: Path, seed: int) -> None:
    with long_delays():
        assert check(ordeal(seed, tmp_path)) == []


def test_the_same_seed_has_the_same_crawl(tmp_path: Path) -> None:
    first, second = (ordeal(8, tmp_path / name) for name in ("first", "second"))
    assert first == second


@pytest.mark.parametrize(
    "fault", [fault if fault in AT_ONCE else pytest.param(fault, marks=pytest.mark.long) for fault in SHOWS]
)
def test_a_planted_fault_is_found(tmp_path: Path, fault: str) -> None:
    seeds = itertools.chain([SHOWS[fault]], range(SEARCHED))
    with FAULTS[fault]():
        assert any(check(ordeal(seed, tmp_path / str(at))) for at, seed in enumerate(seeds))
