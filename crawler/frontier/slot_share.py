"""Limits the slots of hosts that may take a long time to respond.

Hosts share the time of slots. There are three kinds:

    quick    its last response was fast
    new      no response is known: its first request may end in a tenth of a second or in a minute
    slow     it responds slowly, or did not respond last time

Quick hosts come first: slow and new hosts together hold only the slots that quick ones leave free. The need of quick
hosts follows from Little's law: a host that responds in ``s`` seconds and is requested again after a gap of ``g`` holds
``s / (s + g)`` slots on average. Because requests arrive at random, twice the square root of that number is added. Slow
and new hosts may always hold a quarter of the slots. If hosts of both kinds wait, each kind gets half.

As long as first requests end soon, new hosts do not need this limit. Additional ones are therefore admitted within a
window: it grows by one for each new host that responds soon, and is halved for each that does not, as in TCP congestion
control. It leaves free the slots that quick hosts in sessions need. Quick hosts not in a session then wait behind the
new ones. While all quick hosts together need at most half of the slots, however, the window leaves these free too, and
none of them waits: a crawl with a few good hosts loses nothing to hundreds of new ones that turn out to be dead.

A host is slow if it takes more than ten seconds, or more than four times the usual time of quick responses in this
crawl. A host that takes less than a second is never slow. A host that takes nine seconds is slow among hosts that take
a tenth, and quick among hosts that take five.
"""

from __future__ import annotations

import math

from crawler.frontier.host import Host

QUICK, NEW, SLOW = 0, 1, 2  # kinds of hosts
ALL = (True, True, True, True)
TIMES = 4.0  # a host is slow if it takes this many times as long as quick hosts usually do
SLOW_AFTER = 10.0  # seconds of response time from which a host always counts as slow
LEAST = 1.0  # seconds; a host that takes less is never slow
_WEIGHT = 1 / 16  # weight of the newest request in a moving average
_RISE = 1.001  # growth of the quick response time per response, so that earlier, faster hosts are forgotten

# For each kind, True if its hosts may have a slot; last, True if quick hosts not in a session may have one.
Kinds = tuple[bool, bool, bool, bool]


def kind_of(host: Host, slow_from: float) -> int:
    """Return the kind of a host. It is slow if its responses take longer than ``slow_from`` seconds."""
    latency = host.politeness.latency
    if host.failures.in_a_row > 0:
        return SLOW
    if latency is None:
        return NEW
    return SLOW if latency > slow_from else QUICK


class SlotShare:
    """The slots of new and slow hosts."""

    def __init__(self, slots: int, least: int) -> None:
        """``slots`` is the total; new and slow hosts together may always hold ``least`` of them."""
        self.held = [0, 0, 0]  # slots in use, by kind of host
        self._slots = slots
        self.least = least
        self.slow_from = SLOW_AFTER  # response time in seconds above which a host is slow
        self._soon = SLOW_AFTER / TIMES  # usual time of a quick response, in seconds
        self._seconds = 0.0  # mean seconds of a request to a quick host
        self._gap = 0.0  # mean gap after these requests, in seconds
        self._window = slots / 2  # number of slots for new hosts

    def kind(self, host: Host) -> int:
        """Return the kind of the host."""
        return kind_of(host, self.slow_from)

    def admits(self, active: int, quick: int, *, new: bool, slow: bool) -> Kinds:
        """Return which kinds may have a slot.

        ``quick`` is the number of quick hosts, and ``active`` the number of those in sessions. ``new`` and ``slow`` are
        True if hosts of that kind wait for their turn.
        """
        held_new, held_slow = self.held[NEW], self.held[SLOW]
        room = held_new + held_slow < self.limit(quick)
        window, need = int(self._window), self._need(quick)
        few = need + math.sqrt(need) <= self._slots / 2
        if not few:
            need = self._need(active)
        need += math.sqrt(need)
        # Few hosts never use all slots. With many hosts, each slot kept free is wasted, because no other host may use
        # it.
        kept = math.ceil(need) if few else int(need)
        admits_new = room and not (slow and held_new > held_slow)
        admits_new = admits_new or held_new < min(window, self._slots - kept)
        # If a new host is kept out only by the needs of sessions, no other host may overtake it.
        first = new and not admits_new and held_new < window and not few
        return True, admits_new, room and not (new and held_slow > held_new), not first

    def limit(self, quick: int) -> int:
        """Return how many slots new and slow hosts may hold together, given the number of quick hosts."""
        need = self._need(quick)
        return max(self.least, self._slots - math.ceil(need + 2.0 * math.sqrt(need)))

    def _need(self, quick: int) -> float:
        """Return the mean number of slots that this many quick hosts hold."""
        period = self._seconds + self._gap
        return quick * self._seconds / period if period else float(quick)

    def meet(self, seconds: float) -> None:
        """Record that a host responds in ``seconds``."""
        soon = self._soon
        self._soon = soon = soon + (seconds - soon) / 4 if seconds < soon else soon * _RISE
        soon *= TIMES
        self.slow_from = LEAST if soon < LEAST else min(soon, SLOW_AFTER)

    def learn(self, kind: int, seconds: float, gap: float, *, answered: bool) -> None:
        """Record that a request to a host of that kind ended after ``seconds``. ``gap`` is the host's gap."""
        if answered:
            self.meet(seconds)
        soon = answered and seconds <= self.slow_from
        if soon:
            self._seconds += (seconds - self._seconds) * _WEIGHT
            self._gap += (gap - self._gap) * _WEIGHT
        if kind == NEW:
            self._window = min(self._window + 1.0, self._slots) if soon else self._window / 2
