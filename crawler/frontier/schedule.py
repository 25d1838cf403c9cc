"""The front queues: when each host may be handed out, and whose turn it is.

A host that waits for its time is a *ticket* on the heap of its class (``timer_queue``): the bytes of its ready time, a
running number and its name. A ticket takes about 90 bytes; the rest of the host need not be in memory. If the time or
class changes, a second ticket is pushed and the first becomes stale. For the few hosts with stale tickets, the schedule
remembers which ticket is valid until the stale ones have come up.

Among the classes with a ready host, the one furthest behind its share is served: stride scheduling (Waldspurger and
Weihl 1995, "Stride Scheduling: Deterministic Proportional-Share Resource Management"). Class ``c`` has twice the share
of class ``c + 1``. No class starves: the last one has one turn in 255, however busy the others are. Within a class the
host that has been ready longest is next, so hosts take turns. Each call is O(log hosts).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crawler.frontier.host import Host
from crawler.frontier.timer_queue import TimerQueue
from crawler.settings import CLASSES

# Turns of each class in 255, if every class always has a ready host.
SHARES = tuple(2 ** (CLASSES - 1 - each) for each in range(CLASSES))

_STRIDES = tuple(SHARES[0] // share for share in SHARES)
_TICKET = struct.Struct(">dQ")  # a float that is not negative sorts as its bytes do
_READY = struct.Struct(">d")  # the ready time of a ticket
_NAME_AT = _TICKET.size
_new = tuple.__new__
_LAST = 2**64 - 1  # the highest possible ticket number


class Due(NamedTuple):
    """A host whose time has come, off the heap of its class."""

    name: str
    ready: float
    front: int  # the class


class _Several(NamedTuple):
    valid: bytes  # the valid ticket; empty if there is none
    stale: int  # stale tickets on the heaps


class Schedule:
    """The hosts that wait for their time."""

    def __init__(self) -> None:
        self._heaps: dict[int, TimerQueue] = {}  # by class, in order; only classes that have had a host
        self._several: dict[str, _Several] = {}
        self._number = 0
        # The pass of each class: its turns times its stride; and the pass of the class served last.
        self._passes = [0] * CLASSES
        self._served = 0

    def put(self, host: Host, ready: float, front: int) -> None:
        """Schedule the host at ``ready`` (seconds since 1970) in the class ``front``. An earlier ticket becomes
        stale."""
        if host.on_heap and host.ready == ready and host.front == front:
            return
        self._number += 1
        ticket = _TICKET.pack(ready if ready > 0.0 else 0.0, self._number) + host.name.encode("ascii")
        if host.on_heap or host.name in self._several:
            several = self._several.get(host.name)
            stale = (0 if several is None else several.stale) + host.on_heap
            self._several[host.name] = _Several(ticket, stale)
        host.on_heap, host.ready, host.front = True, ready, front
        if front not in self._heaps:
            self._heaps = dict(sorted([*self._heaps.items(), (front, TimerQueue())]))
        self._heaps[front].push(ticket)

    def leave(self, host: Host) -> None:
        """Take the host off the schedule; its ticket becomes stale."""
        if host.on_heap:
            host.on_heap = False
            several = self._several.get(host.name)
            self._several[host.name] = _Several(b"", 1 if several is None else several.stale + 1)

    def pop(self, now: float) -> Due | None:
        """Take the host whose turn it is off its heap; None if no host is ready at ``now``. The host then has no valid
        ticket, and the caller must clear ``Host.on_heap``."""
        chosen, least = -1, 0
        limit = _TICKET.pack(now if now > 0.0 else 0.0, _LAST)
        several = self._several
        for front, heap in self._heaps.items():
            first = self._settle(heap) if several else heap.first()
            if first is not None and first <= limit:
                # A class without a ready host does not save up the turns it missed.
                behind = max(self._passes[front], self._served)
                if chosen < 0 or behind < least:
                    chosen, least = front, behind
        if chosen < 0:
            return None
        self._served = least
        self._passes[chosen] = least + _STRIDES[chosen]
        due = _due(self._heaps[chosen].pop(), chosen)
        if several and due.name in several:
            several[due.name] = several[due.name]._replace(valid=b"")
        return due

    def next_ready(self) -> float | None:
        """The time at which ``pop`` will next give a host, in seconds since 1970; None: never."""
        firsts = [first for heap in self._heaps.values() if (first := self._settle(heap)) is not None]
        return _due(min(firsts), 0).ready if firsts else None

    @property
    def tickets(self) -> int:
        """Tickets on the heaps, including stale ones."""
        return sum(map(len, self._heaps.values()))

    def _settle(self, heap: TimerQueue) -> bytes | None:
        """Take stale tickets off the top. Returns the first valid one; None if the heap is empty."""
        while (ticket := heap.first()) is not None:
            if not self._several:
                break
            name = ticket[_NAME_AT:].decode("ascii")
            several = self._several.get(name)
            if several is None or several.valid == ticket:
                break
            heap.pop()
            if several.stale > 1:
                self._several[name] = several._replace(stale=several.stale - 1)
            else:
                del self._several[name]
        return ticket


def _due(ticket: bytes, front: int) -> Due:
    # Like Due(...), in half the time.
    return _new(Due, (ticket[_NAME_AT:].decode("ascii"), _READY.unpack_from(ticket)[0], front))
