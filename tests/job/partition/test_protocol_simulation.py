"""The protocol between partitions through random faults: each crawl ends, and none while anything is left. Each fault
that is planted is found."""

from __future__ import annotations

import itertools

import pytest

from tests.examples import TIMES
from tests.job.partition.planted_in_protocol import FAULTS
from tests.job.partition.protocol_simulation import live

LIVES, A_TEST = 400, 100
SEARCHED = 5_000  # lives in which a planted fault must show
# Lives in which each shows today: looked at first.
SHOWS = {
    "no acknowledgement counts as one": 0,
    "a row goes when it is sent": 0,
    "a batch is acknowledged before it is durable": 553,
    "an acknowledgement of another epoch counts": 136,
    "an older epoch is accepted": 1,
    "a batch is taken although one before it is missing": 704,
    "a batch is taken twice": 0,
    "a batch's number is written in a batch before it": 151,
    "the outbox is in memory": 0,
    "the numbers of batches go on in a new epoch": 1,
    "the sent cache outlives its process": 11,
    "a widened scope is not told": 0,
    "a claim is renewed whoever holds it": 0,
    "requests begin for as long as a claim holds": 1,
    "the end is asked for once": 719,
    "the end is asked for once, and not of the streams": 21,
    "the end is not asked of the outboxes": 34,
    "an answer to an older round counts": 51,
    "an older grant of pages counts": 43,
    "a grant of an earlier coordinator counts": 199,
    "what was lent is lent again": 0,
    "a new lender lends at once": 43,
    "a share holds from when it is heard": 18,
}


@pytest.mark.parametrize("first", range(0, LIVES * TIMES, A_TEST))
def test_every_crawl_ends_when_nothing_is_left(first: int) -> None:
    lives = {seed: live(seed) for seed in range(first, first + A_TEST)}
    assert {seed: life.wrong for seed, life in lives.items() if life.wrong} == {}
    for fault in ("killed", "power lost", "stopped", "cut off", "forgotten", "failed over", "taken over"):
        assert any(life.counts[fault] for life in lives.values()), f"none {fault}"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    plant, wrong = FAULTS[fault]
    with plant():
        assert any(wrong(seed) for seed in itertools.chain([SHOWS[fault]], range(SEARCHED)))
