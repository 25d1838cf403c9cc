"""The front queues: when each host may be leased, and whose turn it is.

A host that waits for its time or its turn is a *ticket* in a queue: the bytes of its ready time, its
rank, its place and its name. A ticket takes about 100 bytes; the rest of the host need not be in memory. If the time or
the place changes, a second ticket is pushed and the first becomes stale. For the few hosts with stale tickets, the
schedule remembers the valid ticket until the stale ones have been removed.

Each class has three *lanes*, one for each kind of host (``slot_share``). Each lane has three queues:

    active     in a session (``host_session``): by ready time
    delayed    not in a session, and not yet due: by ready time
    waiting    not in a session, and due: by rank. A host that was never requested goes first, in order of arrival; then
               the one whose last request is the oldest. The hosts of one registrable domain, however, share the turns
               of a domain (``domain_shares``)

Among the classes that have a host that could be served now, the one furthest behind its share is served: stride
scheduling (Waldspurger and Weihl 1995, "Stride Scheduling: Deterministic Proportional-Share Resource Management").
Class ``c`` has twice the share of class ``c + 1``, but a class has at least half of the turns that its hosts would have
without classes. Whatever the classes, no host therefore waits longer than it takes to give every host with pending URLs
two sessions. Within a class a waiting host gets its turn only if no active one is ready, so the number of active hosts
matches the capacity of the crawl. Each call is O(log hosts).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crawler.base.settings.parts import CLASSES
from crawler.frontier.domain_shares import DomainLine, DomainTurns, Stale, TicketHeap
from crawler.frontier.host import Host
from crawler.frontier.slot_share import ALL, NEW, QUICK, Kinds
from crawler.frontier.states import QUEUED, SCHEDULE, UNSCHEDULE, change_queue

# Relative number of turns of each class if every class always has a ready host and all are of similar size.
SHARES = tuple(2 ** (CLASSES - 1 - each) for each in range(CLASSES))
MOVED_MAX = 4_096  # maximum number of delayed hosts that one call of pop moves to the waiting queues (about 10 ms)

_WEIGHED_FOR = 64  # turns between two counts of the hosts of each class
# Ready time, rank, place; in a waiting ticket the rank comes first. A non-negative float sorts as its bytes do, and the
# bytes of a time since 1970 start with 0x41, so any number below 2**56 sorts before it.
_ASKED = struct.Struct(">ddB")
_NEVER_ASKED = struct.Struct(">dQB")
_TIME = struct.Struct(">d")
_NAME_AT = _ASKED.size
_KIND, ACTIVE, _CLASS_BY = 3, 4, 3  # in a place: mask of the kind, flag, bits before the class
_NUMBER_AT = 10  # in a slot of the fresh lane
_NUMBER_MAX = 2**56 - 1
_FOR_EVER = float("inf")
_LAST = b"\xff" * 9
_new = tuple.__new__


class Due(NamedTuple):
    """A host that has its turn and has been removed from its queue."""

    name: str
    front: int  # the class


class _Several(NamedTuple):
    valid: bytes  # the valid ticket; empty if there is none
    stale: int  # stale tickets in the queues


class _Lane:
    """The hosts of a class and a kind."""

    __slots__ = ("active", "delayed", "waiting")

    def __init__(self, turns: DomainTurns) -> None:
        self.active = TicketHeap()
        self.delayed = TicketHeap()
        self.waiting = DomainLine(turns)


def place_of(front: int, kind: int, active: bool) -> int:  # keyword arguments cost a tenth of a microsecond
    """Return the place of a host with this class and kind; ``active`` is True if the host is in a session."""
    return front << _CLASS_BY | (kind | ACTIVE if active else kind)


class Schedule:
    """The hosts that wait for their time or for their turn."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}  # by place, in order; created with the first host
        self._several: dict[str, _Several] = {}
        self._turns = DomainTurns()
        self._now = 0.0  # delayed hosts that were due before this time have been moved to the waiting queues
        self._next_due = _FOR_EVER  # no delayed host is due before this time
        # The pass of a class is the sum of its strides, one per turn. ``_served`` is the pass of the class served last.
        self._passes = [0.0] * CLASSES
        self._strides = [1.0] * CLASSES
        self._weighed_for = 0
        self._served = 0.0

    def put(self, host: Host, ready: float, place: int, since: float) -> None:
        """Schedule the host at ``ready`` in the place; an earlier ticket becomes stale.

        ``since`` is the time of its last request, 0 if there was none. Both times are in seconds since 1970.
        """
        on_heap = host.state & QUEUED
        if on_heap and host.ready == ready and host.place == place:
            return
        ready_at = ready if ready > 0.0 else 0.0
        if since > 0.0:
            ticket = _ASKED.pack(ready_at, since, place) + host.name.encode("ascii")
        else:
            ticket = _NEVER_ASKED.pack(ready_at, _arrival(host), place) + host.name.encode("ascii")
        lane = self._lanes.get(place & ~ACTIVE) or self._new_lane(place & ~ACTIVE)
        queue: TicketHeap | DomainLine
        if place & ACTIVE:
            queue = lane.active
        elif ready <= self._now:
            queue, ticket = lane.waiting, _waiting(ticket)
        else:
            queue = lane.delayed
            self._next_due = min(self._next_due, ready_at)
        if on_heap or (self._several and host.name in self._several):
            several = self._several.get(host.name)
            stale = (0 if several is None else several.stale) + on_heap
            self._several[host.name] = _Several(ticket, stale)
        if not on_heap:
            change_queue(host, SCHEDULE)
        host.ready, host.place = ready, place
        queue.push(ticket)

    def _new_lane(self, place: int) -> _Lane:
        lane = _Lane(self._turns)
        self._weighed_for = 0
        self._lanes = dict(sorted([*self._lanes.items(), (place, lane)]))
        return lane

    def leave(self, host: Host) -> None:
        """Remove the host from the schedule; its ticket becomes stale."""
        if host.state & QUEUED:
            change_queue(host, UNSCHEDULE)
            several = self._several.get(host.name)
            self._several[host.name] = _Several(b"", 1 if several is None else several.stale + 1)

    def pop(self, now: float, kinds: Kinds = ALL) -> Due | None:
        """Remove and return the host whose turn it is; only hosts of these ``kinds`` may have the turn.

        Returns None if no host has its turn at ``now``, or if so many hosts have just become due that one call cannot
        sort them all; ``next_ready`` is then not later than ``now``. A returned host has no valid ticket, and the
        caller must change the host's state.
        """
        limit = _TIME.pack(now if now > 0.0 else 0.0) + _LAST
        if self._next_due <= now and not self._move(limit):
            return None
        self._now = max(self._now, now)
        chosen: TicketHeap | DomainLine | None = None
        front, least, best = -1, 0.0, b""
        several, passes, served = self._several, self._passes, self._served
        stale = self._stale
        behind_new = None if kinds[3] else self._first_new(stale)
        for place, lane in self._lanes.items():
            if not kinds[place & _KIND]:
                continue
            queue: TicketHeap | DomainLine = lane.active
            first = self._settle(lane.active) if several else queue.first()
            if first is None or first > limit:
                queue = lane.waiting
                first = queue.first(stale)
                if first is None or (behind_new is not None and not place & _KIND and first > behind_new):
                    continue
                first = _LAST + first  # sorts after all active hosts of the class
            at = place >> _CLASS_BY
            if at == front:
                if first < best:
                    chosen, best = queue, first
                continue
            # A class without a ready host does not accumulate the turns it missed.
            behind = passes[at] if passes[at] > served else served
            if chosen is None or behind < least:
                chosen, front, least, best = queue, at, behind, first
        if chosen is None:
            return None
        if not self._weighed_for:
            self._weigh()
        self._weighed_for -= 1
        self._served = least
        passes[front] = least + self._strides[front]
        name = chosen.pop()[_NAME_AT:].decode("ascii")
        if several and name in several:
            several[name] = several[name]._replace(valid=b"")
        return _new(Due, (name, front))  # takes half the time of Due(...)

    def _weigh(self) -> None:
        """Compute the stride of each class.

        Its weight is the larger of its share among the classes that have hosts, and of its fraction of all hosts. The
        weights add up to at most 2, so a class gets at least half of its fraction of the turns.
        """
        self._weighed_for = _WEIGHED_FOR
        hosts = [0] * CLASSES
        for place, lane in self._lanes.items():
            hosts[place >> _CLASS_BY] += len(lane.active) + len(lane.waiting)
        total, shares = sum(hosts), sum(share for share, count in zip(SHARES, hosts, strict=True) if count)
        for at, count in enumerate(hosts):
            share = SHARES[at]
            self._strides[at] = 1.0 / max(share / (shares if count else shares + share), count / total)

    def take(self, now: float) -> None:
        """Record a turn of the host that ``pop`` has just returned. The host must not be in a session."""
        self._turns.take(now)

    def _first_new(self, stale: Stale | None) -> bytes | None:
        """Return the first ticket among the waiting new hosts of all classes."""
        firsts = (lane.waiting.first(stale) for place, lane in self._lanes.items() if place & _KIND == NEW)
        return min((first for first in firsts if first is not None), default=None)

    def _move(self, limit: bytes) -> bool:
        """Move delayed hosts that are now due to the waiting queues. Returns False if some of them are left to move."""
        left, next_due = MOVED_MAX, _FOR_EVER
        for lane in self._lanes.values():
            delayed, waiting = lane.delayed, lane.waiting
            while (first := self._settle(delayed)) is not None and first <= limit:
                if not left:
                    return False
                left -= 1
                ticket = _waiting(delayed.pop())
                waiting.push(ticket)
                if self._several and (name := ticket[_NAME_AT:].decode("ascii")) in self._several:
                    self._several[name] = self._several[name]._replace(valid=ticket)
            if first is not None:
                next_due = min(next_due, _TIME.unpack_from(first)[0])
        self._next_due = next_due
        return True

    def next_ready(self, kinds: Kinds = ALL) -> float | None:
        """Return when ``pop`` will next return a host, in seconds since 1970; None if never."""
        found: list[bytes] = []  # ready times
        behind_new = None if kinds[3] else self._first_new(self._stale)
        for place, lane in self._lanes.items():
            if not kinds[place & _KIND]:
                continue
            first = lane.waiting.first(self._stale)
            if first is not None and (behind_new is None or place & _KIND or first <= behind_new):
                found.append(lane.waiting.first_host()[8:16])
            found += [first for first in (self._settle(lane.active), self._settle(lane.delayed)) if first is not None]
        return _TIME.unpack_from(min(found))[0] if found else None

    def waiting(self) -> tuple[int, bool, bool]:
        """Count the quick hosts not in a session, and find out whether any new hosts and any slow hosts are due.

        Some hosts may be counted twice.
        """
        quick, new, slow, stale = 0, False, False, self._stale
        for place, lane in self._lanes.items():
            kind, waiting = place & _KIND, lane.waiting
            if kind == QUICK:
                quick += len(waiting) + len(lane.delayed)
            elif kind == NEW:
                new = new or (len(waiting) > 0 if stale is None else waiting.first(stale) is not None)
            else:
                slow = slow or (len(waiting) > 0 if stale is None else waiting.first(stale) is not None)
        return quick, new, slow

    def _settle(self, queue: TicketHeap) -> bytes | None:
        """Remove stale tickets from the top. Returns the first valid one; None if the queue is empty."""
        while (ticket := queue.first()) is not None:
            if not (self._several and self._drops(ticket)):
                break
            queue.pop()
        return ticket

    @property
    def _stale(self) -> Stale | None:
        return self._drops if self._several else None  # usually None

    def _drops(self, ticket: bytes) -> bool:
        """Return True if the ticket is stale, and count it as removed."""
        name = ticket[_NAME_AT:].decode("ascii")
        several = self._several.get(name)
        if several is None or several.valid == ticket:
            return False
        if several.stale > 1:
            self._several[name] = _Several(several.valid, several.stale - 1)
        else:
            del self._several[name]
        return True


def _waiting(ticket: bytes) -> bytes:
    """Return the ticket with its rank first."""
    return ticket[8:16] + ticket[:8] + ticket[16:]


def _arrival(host: Host) -> int:
    """Return a number that orders never-requested hosts by the admission of their first URLs."""
    return min(int.from_bytes(host.queue.bound[_NUMBER_AT:], "big"), _NUMBER_MAX)
