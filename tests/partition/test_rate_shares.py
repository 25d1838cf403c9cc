"""Shares of a rate: never more than the rate in all, whatever is lost, late or killed; and all of it where it is
wanted."""

from __future__ import annotations

import random

import pytest

from crawler.partition.rate_shares import (
    ALL,
    FIRST,
    LENT,
    Borrowing,
    Lender,
    Shares,
    Wish,
    decode_shares,
    decode_wish,
    encode,
    fair,
    wanted,
)

RATE = 10.0
LOOK = 0.3


def test_who_wants_less_than_an_equal_part_gets_it_and_the_others_the_rest() -> None:
    assert fair(10.0, {"a": 1.0, "b": ALL, "c": ALL}) == {"a": 1.0, "b": 4.5, "c": 4.5}
    assert fair(10.0, {"a": 0.0, "b": ALL}) == {"a": 0.0, "b": 10.0}
    assert fair(10.0, {"a": 1.0, "b": 5.0}) == {"a": 3.0, "b": 7.0}
    assert fair(10.0, {}) == {}


def test_who_waits_for_nearly_all_of_the_time_wants_all() -> None:
    assert wanted(4.0, 0.9, 4.0) == ALL
    assert wanted(0.0, 0.01, 0.0) == ALL, "it has nothing, and somebody waits"
    assert wanted(4.0, 0.0, 8.0) == 5.0
    assert wanted(0.0, 0.0, 8.0) == 0.0
    assert wanted(4.0, 0.2, 4.0) > 5.0


def test_what_is_said_can_be_read_and_anything_else_is_nothing() -> None:
    wish, shares = Borrowing("a").wish(ALL, 0.0), Lender(3, 0.0, alone=True).look(RATE, [], 0.0)
    assert decode_wish(encode(wish)) == wish
    assert decode_shares(encode(shares)) == shares
    for value in (None, b"", b"\xc1", b"\x93\x01\x02"):
        assert decode_wish(value) is None
        assert decode_shares(value) is None


class Simulated:
    """Processes, lenders and what carries values between them, which loses and delays some of them."""

    def __init__(self, seed: int, faulty: bool) -> None:
        self.chance = random.Random(seed)
        self.faulty = faulty
        self.now = 0.0
        self.epoch = 1
        self.lender: Lender | None = Lender(1, -FIRST, alone=True)
        self.wishes: dict[str, Wish] = {}
        self.said: Shares | None = None
        self.alive: dict[str, float] = {}  # what each wants
        self.all: dict[str, Borrowing] = {}

    def begin(self, name: str, wants: float) -> None:
        self.alive[name], self.all[name] = wants, Borrowing(name)

    def look(self) -> None:
        for name, wants in self.alive.items():
            self.now += LOOK / 7
            old = self.said
            if not self._fails():
                self.wishes[name] = self.all[name].wish(wants, self.now)
            if not self._fails():
                self._lend()
            if not self._fails() and self.said is not None:
                late = self.faulty and old is not None and self.chance.random() < 0.2
                self.all[name].hear(old if late and old is not None else self.said)
            assert self.sum() <= RATE * (1 + 1e-6)
        self.now += LOOK / 7
        assert self.sum() <= RATE * (1 + 1e-6)

    def _lend(self) -> None:
        if self.lender is not None and self.wishes:
            self.said = self.lender.look(RATE, list(self.wishes.values()), self.now)

    def trouble(self) -> None:
        """Somebody dies, comes, or changes his mind; the lender is replaced."""
        what, name = self.chance.random(), self.chance.choice(list(self.alive))
        if what < 0.2:
            del self.alive[name]  # what it was lent may still be used by a request on its way, and runs out
            self.begin(f"{name}'", self.chance.choice([0.0, 1.0, ALL]))
        elif what < 0.3:
            self.lender = None
        elif what < 0.5 and self.lender is None:
            self.epoch += 1
            self.lender = Lender(self.epoch, self.now, alone=False)
        else:
            self.alive[name] = self.chance.choice([0.0, 1.0, 4.0, ALL])

    def _fails(self) -> bool:
        return self.faulty and self.chance.random() < 0.2

    def sum(self) -> float:
        """What all who ever were go by."""
        return sum(each.share for each in self.all.values() if self.now < each.until)


@pytest.mark.parametrize("seed", range(12))
def test_no_more_than_the_rate_is_lent_whatever_happens(seed: int) -> None:
    simulated = Simulated(seed, faulty=True)
    for name in "abc":
        simulated.begin(name, ALL)
    for _ in range(300):
        if simulated.chance.random() < 0.2:
            simulated.trouble()
        simulated.look()


def test_all_of_it_goes_to_the_one_who_wants_it_and_comes_back() -> None:
    simulated = Simulated(0, faulty=False)
    for name in "abc":
        simulated.begin(name, 0.0)
    for _ in range(4):
        simulated.look()
    assert simulated.sum() == pytest.approx(RATE), "what nobody wants lies ready"
    simulated.alive["a"] = ALL
    for _ in range(4):
        simulated.look()
    assert simulated.all["a"].share == pytest.approx(RATE)
    simulated.alive["b"] = ALL
    for _ in range(4):
        simulated.look()
    assert [simulated.all[name].share for name in "abc"] == pytest.approx([RATE / 2, RATE / 2, 0.0])
    del simulated.alive["a"]
    until = simulated.now + LENT + 2 * LOOK
    while simulated.now < until:
        simulated.look()
    assert simulated.all["b"].share == pytest.approx(RATE), "what the dead one had has run out"


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
