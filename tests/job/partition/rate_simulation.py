"""Shares of a rate, in a model: processes, lenders and what carries values between them, which loses and delays some.
One life follows from one number."""

from __future__ import annotations

import random

from crawler.job.partition.rate_shares import ALL, FIRST, Borrowing, Lender, Shares, Wish

RATE = 10.0
LOOK = 0.3


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


def lend(seed: int) -> list[str]:
    """Lend through random troubles. Returns what is wrong."""
    simulated = Simulated(seed, faulty=True)
    for name in "abc":
        simulated.begin(name, ALL)
    try:
        for _ in range(300):
            if simulated.chance.random() < 0.2:
                simulated.trouble()
            simulated.look()
    except AssertionError:
        return [f"{simulated.sum():.1f} of {RATE} are lent"]
    return []
