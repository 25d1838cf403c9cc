"""How many slots hosts may hold that may cost much time.

What hosts share is the time of slots. There are three kinds:

    quick    it answered last time, and soon
    new      no answer is known: its first request may end in a tenth of a second or in a minute
    slow     it takes long, or gave no answer last time

Quick hosts come first: slow and new ones together hold no more slots than quick ones leave. What quick hosts need
follows from Little's law: a host that answers in ``s`` seconds and is asked again after a gap of ``g`` holds
``s / (s + g)`` slots on average. As requests come at random, twice the square root is added. Slow and new hosts may
always hold a quarter of the slots. If hosts of both kinds wait, each kind has half.

If first requests end soon, new hosts need no such limit. So there is a window of new hosts that are admitted besides:
it grows by one with each new host that answers soon, and halves with each that does not, as for the congestion of a
network. It leaves what the quick hosts in sessions need. Quick hosts in no session then wait behind the new ones. But
while all quick hosts together need at most half of the slots, the window leaves that too, and none of them waits: a
crawl that knows a few good hosts loses nothing to hundreds of new ones that turn out to be dead.

A host is slow above ten seconds or above four times what quick answers take in this crawl, but not below
a second. So a host of nine seconds is slow among hosts of a tenth, and quick among hosts of five seconds.
"""

from __future__ import annotations

import math

from crawler.frontier.host import Host

QUICK, NEW, SLOW = 0, 1, 2  # kinds
ALL = (True, True, True, True)
TIMES = 4.0  # a host that takes so many times as long as the quick ones is slow
SLOW_AFTER = 10.0  # seconds of response time from which a host always counts as slow
LEAST = 1.0  # seconds; a host that takes less is never slow
_WEIGHT = 1 / 16  # of the newest request in an average
_RISE = 1.001  # per answer: so fast is forgotten that there were quicker ones

# By kind: whether a host may have a slot. The last: whether a quick host may that is in no session.
Kinds = tuple[bool, bool, bool, bool]


def kind_of(host: Host, slow_from: float) -> int:
    """The kind of a host, if one is slow that takes longer than ``slow_from`` seconds."""
    return kind_of_figures(host.failures.in_a_row, host.politeness.latency, slow_from)


def kind_of_figures(failures_in_a_row: int, latency: float | None, slow_from: float) -> int:
    """``kind_of`` for what it depends on."""
    if failures_in_a_row > 0:
        return SLOW
    if latency is None:
        return NEW
    return SLOW if latency > slow_from else QUICK


class SlotShare:
    """The slots of new and slow hosts."""

    def __init__(self, slots: int, least: int) -> None:
        """``slots`` in all; new and slow hosts together may always hold ``least``."""
        self.held = [0, 0, 0]  # slots by kind
        self._slots = slots
        self.least = least
        self.slow_from = SLOW_AFTER  # seconds
        self._soon = SLOW_AFTER / TIMES  # seconds of a quick answer
        self._seconds = 0.0  # of a request to a quick host, on average
        self._gap = 0.0  # after it
        self._window = slots / 2  # of new hosts

    def kind(self, host: Host) -> int:
        """The kind of the host."""
        return kind_of(host, self.slow_from)

    def admits(self, active: int, quick: int, *, new: bool, slow: bool) -> Kinds:
        """Which kinds may have a slot, if there are so many ``quick`` hosts, and so many of them are in sessions
        (``active``). ``new``, ``slow``: hosts of that kind wait for their turn."""
        held_new, held_slow = self.held[NEW], self.held[SLOW]
        room = held_new + held_slow < self.limit(quick)
        window, need = int(self._window), self._need(quick)
        few = need + math.sqrt(need) <= self._slots / 2
        if not few:
            need = self._need(active)
        need += math.sqrt(need)
        # Few hosts never find all slots taken. Of many, each slot that is kept free is a loss: nobody else may use it.
        kept = math.ceil(need) if few else int(need)
        admits_new = room and not (slow and held_new > held_slow)
        admits_new = admits_new or held_new < min(window, self._slots - kept)
        # What keeps a new host out otherwise is only what sessions need: no other host may overtake it.
        first = new and not admits_new and held_new < window and not few
        return True, admits_new, room and not (new and held_slow > held_new), not first

    def limit(self, quick: int) -> int:
        """How many slots new and slow hosts may hold together, if there are so many ``quick`` ones."""
        need = self._need(quick)
        return max(self.least, self._slots - math.ceil(need + 2.0 * math.sqrt(need)))

    def _need(self, quick: int) -> float:
        """The slots that so many quick hosts hold on average."""
        period = self._seconds + self._gap
        return quick * self._seconds / period if period else float(quick)

    def meet(self, seconds: float) -> None:
        """A host answers in so many ``seconds``."""
        soon = self._soon
        self._soon = soon = soon + (seconds - soon) / 4 if seconds < soon else soon * _RISE
        soon *= TIMES
        self.slow_from = LEAST if soon < LEAST else min(soon, SLOW_AFTER)

    def learn(self, kind: int, seconds: float, gap: float, *, answered: bool) -> None:
        """A request to a host of that kind has ended after ``seconds``. The ``gap`` is the host's."""
        if answered:
            self.meet(seconds)
        soon = answered and seconds <= self.slow_from
        if soon:
            self._seconds += (seconds - self._seconds) * _WEIGHT
            self._gap += (gap - self._gap) * _WEIGHT
        if kind == NEW:
            self._window = min(self._window + 1.0, self._slots) if soon else self._window / 2
