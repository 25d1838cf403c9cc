"""The slots of a worker: how many visits it carries out at a time.

A slot stands for an exchange with a server. Some visits only wait, and lend their slots meanwhile, so that hosts whose
pages must wait do not keep other hosts from being asked:

    in doubt   nobody knows yet whose fault a failure was (``outage_detector``)
    waiting    the body must wait for memory or for the parser, or it is long and read piece by piece, or its text is
               being extracted
    handed     code of the user has the page

A visit lends its slot after it has waited for ``LEND_AFTER``. Even a parser with more to do than it can has pages of
ordinary size wait for less, so an ordinary crawl never has more URLs in flight than slots. What waits still has a body,
perhaps in part, and a connection; so at most as many of these slots are lent as there are, and at most twice as many
visits are in flight. A visit that waits no longer goes on at once, without a slot if none is free. If it waited for
one, it would keep its memory from those that have one and wait for memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LEND_AFTER = 2.0  # seconds


def _nobody(_: bool = True) -> None:
    """Tells nobody."""


class Lender:
    """What lends the slot of one visit: nothing, once the visit is over. Timers that a visit has set keep its context
    for a while, and with it this object; what it would lead to, the whole job, is given back before."""

    __slots__ = ("lend",)

    def __init__(self, lend: Callable[[bool], None] = _nobody) -> None:
        self.lend = lend


_NO_VISIT = Lender()
# That of the visit that the running task carries out. A probe of ``outage_detector`` has none.
_visit: ContextVar[Lender] = ContextVar("visit", default=_NO_VISIT)


class Slots:
    """The slots of one worker."""

    def __init__(self, number: int) -> None:
        self.visits = 0  # in flight, with or without a slot
        self.tell: Callable[[], None] = _nobody  # called when a slot is lent
        self.number = number
        self._in_doubt = 0
        self._waiting = 0  # of those that have lent their slots
        self._begun: dict[Wait, float] = {}  # those that have not yet, with the times at which they began
        self._looks = False  # a timer runs

    @property
    def free(self) -> int:
        """How many more visits may begin; less than none while visits go on without a slot."""
        return self.number - self.visits + self._in_doubt + min(self._waiting, self.number)

    def doubt(self, lent: bool) -> None:
        """From now on (True) or no longer (False), a visit only waits to learn what its failure means."""
        self._in_doubt += 1 if lent else -1
        if lent:
            self.tell()

    def begin(self, lend: Callable[[bool], None]) -> None:
        """A visit begins in the running task. ``lend`` is called when it lends its slot (True) and takes it back."""
        _visit.set(Lender(lend))

    def end(self) -> None:
        """The visit of the running task is over."""
        _visit.get().lend = _nobody

    def wait(self) -> Wait:
        """A context in which a visit waits, or reads a long body."""
        return Wait(self, _visit.get())

    @contextmanager
    def lent(self) -> Iterator[None]:
        """A context in which a visit needs no slot from the start: its response has ended. As many slots are lent for
        that as there are, with those of waits; a visit beyond them keeps its own."""
        self._waiting += 1
        visit = _visit.get()
        visit.lend(True)
        self.tell()
        try:
            yield
        finally:
            self._waiting -= 1
            visit.lend(False)

    def enter(self, wait: Wait) -> None:
        """A wait begins."""
        if not self._looks:
            self._looks = True
            self._look_in(LEND_AFTER)
        self._begun[wait] = asyncio.get_running_loop().time()

    def leave(self, wait: Wait) -> None:
        """A wait is over."""
        if self._begun.pop(wait, None) is None:
            self._waiting -= 1
            wait.visit.lend(False)

    def _look_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Lend the slots of those that have waited long enough. One timer serves all: most waits are over by then."""
        now = asyncio.get_running_loop().time()
        for wait, begun in list(self._begun.items()):
            if begun + LEND_AFTER > now:
                self._look_in(begun + LEND_AFTER - now)
                return
            del self._begun[wait]
            self._waiting += 1
            wait.visit.lend(True)
            self.tell()
        self._looks = False


class Wait:
    """The wait of one visit."""

    __slots__ = ("_slots", "visit")

    def __init__(self, slots: Slots, visit: Lender) -> None:
        self._slots = slots
        self.visit = visit

    def __enter__(self) -> None:
        self._slots.enter(self)

    def __exit__(self, *_: object) -> None:
        self._slots.leave(self)
