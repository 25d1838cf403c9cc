"""Lends the request rate of a whole crawl to its processes in shares. Each process repeatedly states the rate it wants;
one of them, the lender, answers each wish with a share that is valid for five seconds.

The shares in use never exceed the rate, whatever is lost, late or killed:

    lent       the lender counts the validity of a share from its answer, the process from before its wish. So a share
               expires for the process before it expires for the lender, if their clocks run equally fast
    changed    a process uses the last share that it has read. Until the process confirms which one that is, the
               greatest share that it may be using counts as lent
    died       the share of a dead process is lent to others once it has expired
    replaced   a new lender does not know the shares that its predecessor lent. For five seconds, it only renews the
               share that each process reports

A lender that finds no state, because the crawl has just started or the carrier has lost everything, waits for one
second: processes with a share report it more often than that. The only exception is a process that cannot reach the
carrier at that time, which uses its share for the rest of the five seconds.

Pure: the caller provides messages and time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from msgspec import Struct

LENT = 5.0  # seconds for which a share is valid: as long as requests may start without renewing claims
FIRST = 1.0  # seconds within which every process with a share reports it
ALL = 1e300  # a wish for as high a rate as possible
_HEADROOM = 1.25  # factor by which the wanted rate exceeds the used one
_ROUND = 1e-9


class Wish(Struct, frozen=True, array_like=True):
    """A process's message to the lender; ``number`` increases with each wish. The process uses the ``share`` that the
    lender of that ``epoch`` lent as number ``grant``, and ``wants`` this many requests a second."""

    number: int
    process: str
    epoch: int
    grant: int
    share: float
    wants: float


class Share(Struct, frozen=True, array_like=True):
    """The answer to the wish with the number ``wish``. Of two shares, the one with the greater ``number`` is valid."""

    number: int
    wish: int
    share: float


class Shares(Struct, frozen=True, array_like=True):
    """The lender's message in that ``epoch`` after its step ``look``: the last share of each process."""

    epoch: int
    look: int
    shares: dict[str, Share]


def wanted(used: float, waited: float, share: float) -> float:
    """Return the rate wanted by a process that makes ``used`` requests a second. ``waited`` is the fraction of the time
    in which a request waited for its turn."""
    if waited > 0.5 or (waited and not share):
        return ALL
    if waited > 0.1:
        return 2 * max(used, share) + 1
    return _HEADROOM * used


def fair(rate: float, wants: Mapping[str, float]) -> dict[str, float]:
    """Divide the rate fairly: a process gets less than it wants only if no other gets more than that. What no process
    wants is divided equally, so that it is available at once."""
    left, shares = rate, dict[str, float]()
    for process in sorted(wants, key=lambda each: wants[each]):
        shares[process] = min(wants[process], left / (len(wants) - len(shares)))
        left -= shares[process]
    return {process: share + max(0.0, left) / len(shares) for process, share in shares.items()}


class _Loan(Struct):
    number: int  # the share's number; 0: lent by another lender
    share: float
    until: float


class _Borrower:
    """The lender's state for one process."""

    def __init__(self) -> None:
        self.wish: Wish | None = None
        self.heard_at = -inf
        self.loans: list[_Loan] = []
        self.answer: Share | None = None

    @property
    def has(self) -> float:
        """The greatest share that the process may be using."""
        return max((loan.share for loan in self.loans), default=0.0)


class Lender:
    """Lends the crawl's request rate. ``alone``: no other lender is known."""

    def __init__(self, epoch: int, now: float, *, alone: bool) -> None:
        self.epoch = epoch
        self._knows_all_at = now + (FIRST if alone else LENT)
        self._borrowers: dict[str, _Borrower] = {}
        self._looks = 0
        self._number = 0

    def look(self, rate: float, wishes: list[Wish], now: float) -> Shares:
        """Answer the new wishes. Returns the message for all processes."""
        self._looks += 1
        new = [wish.process for wish in wishes if self._hear(wish, now)]
        self._forget({wish.process for wish in wishes}, now)
        borrowers = self._borrowers
        alive = {name: each for name, each in borrowers.items() if now < each.heard_at + LENT}
        goals = fair(rate, {name: each.wish.wants for name, each in alive.items() if each.wish is not None})
        lent = sum(borrower.has for borrower in borrowers.values())
        for process in new:
            borrower = borrowers[process]
            has = borrower.has
            share = min(goals[process], rate - (lent - has))
            if now < self._knows_all_at:
                share = min(share, has)
            share = max(0.0, share * (1 - _ROUND))
            self._lend(borrower, share, now)
            lent += borrower.has - has
        answers = {name: each.answer for name, each in alive.items() if each.answer is not None}
        return Shares(self.epoch, self._looks, answers)

    def _forget(self, there: Collection[str], now: float) -> None:
        """Drop expired loans, and dead processes that are not ``there``: those whose wish is no longer on the
        carrier."""
        for process, borrower in list(self._borrowers.items()):
            borrower.loans = [loan for loan in borrower.loans if now < loan.until]
            if process not in there and now >= borrower.heard_at + LENT:
                del self._borrowers[process]

    def _hear(self, wish: Wish, now: float) -> bool:
        """Process a wish. Returns True if it is new."""
        borrower = self._borrowers.setdefault(wish.process, _Borrower())
        if borrower.wish is not None and wish.number <= borrower.wish.number:
            return False
        borrower.wish, borrower.heard_at = wish, now
        if wish.epoch == self.epoch:
            borrower.loans = [loan for loan in borrower.loans if loan.number >= wish.grant]
        elif wish.share:
            borrower.loans.append(_Loan(0, wish.share, now + LENT))
        return True

    def _lend(self, borrower: _Borrower, share: float, now: float) -> None:
        assert borrower.wish is not None
        self._number += 1
        borrower.loans.append(_Loan(self._number, share, now + LENT))
        borrower.answer = Share(self._number, borrower.wish.number, share)


class Borrowing:
    """The share of one process, whose name ``process`` is never reused."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._number = 0
        self._asked: dict[int, float] = {}  # by number of the wish: when it was made, if it may still be answered
        self.epoch = 0  # the lender's epoch
        self._grant = 0
        self.share = 0.0
        self.until = -inf

    def wish(self, wants: float, now: float) -> Wish:
        """Return the wish to send now."""
        self._number += 1
        self._asked = {number: at for number, at in self._asked.items() if now < at + LENT}
        self._asked[self._number] = now
        share = self.share if now < self.until else 0.0
        return Wish(self._number, self._process, self.epoch, self._grant, share, wants)

    def hear(self, shares: Shares) -> bool:
        """Process the lender's message. Returns True if the share or its validity has changed."""
        answer = shares.shares.get(self._process)
        if shares.epoch < self.epoch or answer is None or answer.wish not in self._asked:
            return False
        if shares.epoch == self.epoch and answer.number <= self._grant:
            return False
        self.epoch, self._grant, self.share = shares.epoch, answer.number, answer.share
        self.until = self._asked[answer.wish] + LENT
        return True
