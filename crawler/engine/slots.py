"""The slots of a worker: how many visits it carries out at a time.

A slot stands for an exchange with a server. Visits that only wait lend their slots meanwhile, so that they do not block
requests to other hosts:

    in doubt   a failure is not yet attributed to the host or the network (``outage_detector``)
    waiting    the body must wait for memory or for the parser, or it is long and read piece by piece, or its text is
               being extracted
    handed     user code is handling the page

A visit lends its slot after it has waited for ``LEND_AFTER``. Pages of ordinary size wait for less even if the parser
is overloaded, so an ordinary crawl never has more URLs in flight than slots. A waiting visit still holds a connection
and all or part of a body. Therefore at most all slots are lent in this way, and at most twice as many visits are in
flight. When its wait ends, a visit continues at once, without a slot if none is free. If it waited for a slot, it would
hold memory that the visits with slots wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LEND_AFTER = 2.0  # seconds


def _nobody(_: bool = True) -> None:
    """Do nothing: the default callback."""


class Lender:
    """Lends the slot of one visit, until the visit is over. Timers set by a visit keep its context for a while, and
    with it this object; so the reference to the job is dropped when the visit ends."""

    __slots__ = ("lend",)

    def __init__(self, lend: Callable[[bool], None] = _nobody) -> None:
        self.lend = lend


_NO_VISIT = Lender()
# The lender of the visit that the running task carries out. A probe of ``outage_detector`` has no lender.
_visit: ContextVar[Lender] = ContextVar("visit", default=_NO_VISIT)


class Slots:
    """The slots of one worker."""

    def __init__(self, number: int) -> None:
        self.visits = 0  # visits in flight, with or without a slot
        self.tell: Callable[[], None] = _nobody  # called when a slot is lent
        self.number = number
        self._in_doubt = 0
        self._waiting = 0  # visits that have lent their slots
        self._begun: dict[Wait, float] = {}  # start times of waits that have not yet lent a slot
        self._looks = False  # True while a timer is running

    @property
    def free(self) -> int:
        """The number of visits that may start; negative while visits continue without a slot."""
        return self.number - self.visits + self._in_doubt + min(self._waiting, self.number)

    def doubt(self, lent: bool) -> None:
        """Record that a visit waits (True) or no longer waits (False) for its failure to be attributed."""
        self._in_doubt += 1 if lent else -1
        if lent:
            self.tell()

    def begin(self, lend: Callable[[bool], None]) -> None:
        """Start a visit in the running task. ``lend`` is called with True when the visit lends its slot, and with False
        when it takes the slot back."""
        _visit.set(Lender(lend))

    def end(self) -> None:
        """End the visit of the running task."""
        _visit.get().lend = _nobody

    def wait(self) -> Wait:
        """Return a context in which a visit waits or reads a long body."""
        return Wait(self, _visit.get())

    @contextmanager
    def lent(self) -> Iterator[None]:
        """A context in which a visit needs no slot from the start, because its response is complete. At most all slots
        are lent, including those lent by waits; further visits keep their slots."""
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
        """Start a wait."""
        if not self._looks:
            self._looks = True
            self._look_in(LEND_AFTER)
        self._begun[wait] = asyncio.get_running_loop().time()

    def leave(self, wait: Wait) -> None:
        """End a wait."""
        if self._begun.pop(wait, None) is None:
            self._waiting -= 1
            wait.visit.lend(False)

    def _look_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Lend the slots of visits that have waited long enough. One timer serves all visits, because most waits are
        over before it fires."""
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
    """A visit's wait."""

    __slots__ = ("_slots", "visit")

    def __init__(self, slots: Slots, visit: Lender) -> None:
        self._slots = slots
        self.visit = visit

    def __enter__(self) -> None:
        self._slots.enter(self)

    def __exit__(self, *_: object) -> None:
        self._slots.leave(self)
