"""Shares of a rate: never more than the rate in all, whatever is lost, late or killed; and all of it where it is
wanted."""

from __future__ import annotations

import pytest

from crawler.base.carrier.verbs import decoded, encoded
from crawler.job.partition.rate_shares import (
    ALL,
    FIRST,
    LENT,
    Borrowing,
    Lender,
    Shares,
    Wish,
)
from tests.job.partition.rate_simulation import LOOK, RATE, Simulated, lend


def test_what_is_said_can_be_read_and_anything_else_is_nothing() -> None:
    wish, shares = Borrowing("a").wish(ALL, 0.0), Lender(3, 0.0, alone=True).look(RATE, [], 0.0)
    assert decoded(encoded(wish), Wish) == wish
    assert decoded(encoded(shares), Shares) == shares
    for value in (None, b"", b"\xc1", b"\x93\x01\x02"):
        assert decoded(value, Wish) is None
        assert decoded(value, Shares) is None


@pytest.mark.parametrize("seed", range(12))
def test_no_more_than_the_rate_is_lent_whatever_happens(seed: int) -> None:
    assert lend(seed) == []


def test_the_first_lender_waits_for_those_who_know_of_another() -> None:
    lender, wishes = Lender(1, 0.0, alone=True), [Wish(1, "a", 0, 0, 0.0, ALL)]
    assert lender.look(RATE, wishes, FIRST - 0.01).shares["a"].share == 0.0
    assert lender.look(RATE, [Wish(2, "a", 0, 0, 0.0, ALL)], FIRST).shares["a"].share == pytest.approx(RATE)


def test_a_new_lender_leaves_everybody_what_he_has_until_it_knows_all() -> None:
    simulated = Simulated(0, faulty=False)
    simulated.begin("a", ALL)
    simulated.begin("b", 1.0)
    for _ in range(4):
        simulated.look()
    simulated.lender = Lender(2, simulated.now, alone=False)
    simulated.alive["b"] = ALL
    until = simulated.now + LENT
    simulated.look()
    while simulated.now < until - LOOK:
        simulated.look()
        assert simulated.all["a"].share <= RATE - 1.0 + 1e-6
        assert simulated.all["a"].until > simulated.now, "it goes on"
        assert simulated.all["b"].share == pytest.approx(1.0)
    for _ in range(8):
        simulated.look()
    assert simulated.all["b"].share == pytest.approx(RATE / 2)
