"""The requests a second of a whole crawl, lent to its processes in shares. Each process says again and again how many
it wants; one of them, the lender, answers each wish with a share that holds for five seconds.

What all processes go by never exceeds the rate, whatever is lost, late or killed:

    lent       the time of a share counts for the lender from its answer, for the process from before its wish. So it
               has run out for the process before it has for the lender, if their clocks run equally fast
    changed    a process goes by the last share that it has read. Until it says so, the greatest of those that it may go
               by counts as lent
    died       what a process has borrowed is lent to others when its time has run out
    replaced   a new lender does not know what the last one has lent. For five seconds, it only lends again to each what
               it says that it has

A lender that finds nothing, of a crawl that begins or on a carrier that has forgotten everything, waits for a second:
processes that were lent something say so more often. Only one that cannot reach the carrier then does not, and goes by
its share for the rest of the five seconds.

Pure: messages and time are the caller's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from math import inf

import msgspec
from msgspec import Struct

LENT = 5.0  # seconds for which a share holds: as long as a process asks without renewing its claims
FIRST = 1.0  # seconds in which everybody who has a share says so
ALL = 1e300  # wanted: as much as there is
_HEADROOM = 1.25  # times what is used
_ROUND = 1e-9


class Wish(Struct, frozen=True, array_like=True):
    """What a process says. Each of its wishes has a greater ``number``. It goes by the ``share`` that it was lent as
    the number ``grant`` by the lender of that ``epoch``; it ``wants`` so many requests a second."""

    number: int
    process: str
    epoch: int
    grant: int
    share: float
    wants: float


class Share(Struct, frozen=True, array_like=True):
    """The answer to the ``wish`` of that number. Of two, the one with the greater ``number`` holds."""

    number: int
    wish: int
    share: float


class Shares(Struct, frozen=True, array_like=True):
    """What the lender of that ``epoch`` says at its ``look``: the last share of each process."""

    epoch: int
    look: int
    shares: dict[str, Share]


_wishes, _shares = msgspec.msgpack.Decoder(Wish), msgspec.msgpack.Decoder(Shares)


def encode(message: Wish | Shares) -> bytes:
    """The value on a carrier."""
    return msgspec.msgpack.encode(message)


def decode_wish(value: bytes | None) -> Wish | None:
    """The inverse of ``encode``; None if nobody is there, or what is there is none."""
    with contextlib.suppress(msgspec.DecodeError):
        return None if value is None else _wishes.decode(value)
    return None


def decode_shares(value: bytes | None) -> Shares | None:
    """The inverse of ``encode``; None if there are none."""
    with contextlib.suppress(msgspec.DecodeError):
        return None if value is None else _shares.decode(value)
    return None


def wanted(used: float, waited: float, share: float) -> float:
    """What a process wants that makes ``used`` requests a second. ``waited`` is the part of the time in which one
    waited for its turn."""
    if waited > 0.5 or (waited and not share):
        return ALL
    if waited > 0.1:
        return 2 * max(used, share) + 1
    return _HEADROOM * used


def fair(rate: float, wants: Mapping[str, float]) -> dict[str, float]:
    """Share the rate out: nobody has less than he wants while another has more than that. What nobody wants is divided
    equally, so that it lies ready."""
    left, shares = rate, dict[str, float]()
    for process in sorted(wants, key=lambda each: wants[each]):
        shares[process] = min(wants[process], left / (len(wants) - len(shares)))
        left -= shares[process]
    return {process: share + max(0.0, left) / len(shares) for process, share in shares.items()}


class _Loan(Struct):
    number: int  # of the share; 0: another lender's
    share: float
    until: float


class _Borrower:
    """What the lender knows of a process."""

    def __init__(self) -> None:
        self.wish: Wish | None = None
        self.heard_at = -inf
        self.loans: list[_Loan] = []
        self.answer: Share | None = None

    @property
    def has(self) -> float:
        """The greatest share that it may go by."""
        return max((loan.share for loan in self.loans), default=0.0)


class Lender:
    """Lends the requests of a crawl. ``alone``: no other lender is known."""

    def __init__(self, epoch: int, now: float, *, alone: bool) -> None:
        self.epoch = epoch
        self._knows_all_at = now + (FIRST if alone else LENT)
        self._borrowers: dict[str, _Borrower] = {}
        self._looks = 0
        self._number = 0

    def look(self, rate: float, wishes: list[Wish], now: float) -> Shares:
        """Answer the wishes."""
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
        """Forget what has run out. The wish of a process that has died is still ``there``, and is no new one."""
        for process, borrower in list(self._borrowers.items()):
            borrower.loans = [loan for loan in borrower.loans if now < loan.until]
            if process not in there and now >= borrower.heard_at + LENT:
                del self._borrowers[process]

    def _hear(self, wish: Wish, now: float) -> bool:
        """Hear what a process says. Returns whether that is new."""
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
    """The share of one process. Nobody else has its name, ``process``, nor has had it."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._number = 0
        self._asked: dict[int, float] = {}  # when wishes were made that may still be answered
        self.epoch = 0  # of the lender
        self._grant = 0
        self.share = 0.0
        self.until = -inf

    def wish(self, wants: float, now: float) -> Wish:
        """What to say now."""
        self._number += 1
        self._asked = {number: at for number, at in self._asked.items() if now < at + LENT}
        self._asked[self._number] = now
        share = self.share if now < self.until else 0.0
        return Wish(self._number, self._process, self.epoch, self._grant, share, wants)

    def hear(self, shares: Shares) -> bool:
        """Take in what the lender says. Returns whether the share or its time is another one now."""
        answer = shares.shares.get(self._process)
        if shares.epoch < self.epoch or answer is None or answer.wish not in self._asked:
            return False
        if shares.epoch == self.epoch and answer.number <= self._grant:
            return False
        self.epoch, self._grant, self.share = shares.epoch, answer.number, answer.share
        self.until = self._asked[answer.wish] + LENT
        return True
