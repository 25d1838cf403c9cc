"""Shares of domains: the hosts that wait have their turns in order, and the hosts of one registrable domain share one
place in it.

A host waits by its *rank*: if it was never asked, by its arrival, which is before all others; else by the time when it
was asked last. A domain with a wildcard record has as many hosts as it likes to name, all of them never asked. So a
host goes no earlier than its domain: what counts is the later one of its own rank and the domain's last turn. That is a
round robin of domains (Nagle 1987, "On Packet Switches with Infinite Storage"), and a domain with one host keeps the
place that the host has by itself. Nothing is held back: if only one domain has hosts that wait, it has all turns.

Only what comes up is looked at. If a host comes up although its domain had a turn after the rank of the host, the host
is *parked* with others of its domain, and a mark of the domain goes into the line in their stead. So the cost of a turn
is O(log hosts), and there is nothing to be stored for a domain of which one host waits.

In memory are the last turns of ``DOMAINS_MOST`` domains. A domain that was forgotten had less than one turn in so many,
and needs no limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from crawler.frontier.timer_queue import TimerQueue
from crawler.url.urls.domain import domain_of_key

DOMAINS_MOST = 16_384  # domains whose last turn is in memory, about 200 bytes each
PARKED_MOST = 1_024  # hosts that are parked before one has its turn although its domain's has not come: milliseconds

_TIME = struct.Struct(">d")
_RANK = _TIME.size
_NAME_AT = 17  # in a ticket: rank, ready time, place, name
_MARK = b"\0" * (_NAME_AT - _RANK + 1)  # behind the rank of a domain's mark; no name begins with NUL
_DOMAIN_AT = _RANK + len(_MARK)
_STEP = 1e-6  # seconds; two turns are never at the same time

Stale = Callable[[bytes], bool]  # whether a ticket holds no more; asked once, and then the ticket goes


class DomainTurns:
    """When each domain had its last turn."""

    def __init__(self, most: int = DOMAINS_MOST) -> None:
        """The last turns of ``most`` domains are kept, at least of half as many."""
        self._half = most // 2
        self._late: dict[bytes, bytes] = {}  # the latest turns
        self._earlier: dict[bytes, bytes] = {}  # those before
        self._latest = 0.0
        self.next = b""  # the domain whose host came off a line last

    def take(self, now: float) -> None:
        """The host that came off a line last has its turn at ``now``."""
        self._latest = now if now > self._latest else self._latest + _STEP
        self._late[self.next] = _TIME.pack(self._latest)
        if len(self._late) > self._half:
            self._earlier, self._late = self._late, {}

    def last(self, domain: bytes) -> bytes:
        """The rank that the last turn of the domain gives; empty if there is none."""
        return self._late.get(domain) or self._earlier.get(domain, b"")


class DomainLine:
    """Tickets of hosts that wait, each beginning with the rank of the host, in the order of their turns."""

    __slots__ = ("_domain", "_looked_at", "_most", "_parked", "_parked_count", "_queue", "_turns")

    def __init__(self, turns: DomainTurns, parked_most: int = PARKED_MOST) -> None:
        self._turns = turns
        self._most = parked_most
        self._queue = TimerQueue()  # tickets and marks
        self._parked: dict[bytes, list[bytes]] = {}  # heaps, by domain; each has a mark in the queue
        self._parked_count = 0
        self._looked_at: bytes | None = None  # the ticket that came up last, and its domain
        self._domain = b""

    def push(self, ticket: bytes) -> None:
        self._queue.push(ticket)

    def first(self, stale: Stale | None = None) -> bytes | None:
        """The ticket that is first, by which lines compare; None if nobody waits. Behind a mark that is the rank of the
        domain and a ticket, so that the domain's lines begin with a host that was never asked. ``stale``: None if no
        ticket is."""
        queue, last, left = self._queue, self._turns.last, self._most
        while (ticket := queue.first()) is not None:
            if not ticket[_NAME_AT]:
                domain = ticket[_DOMAIN_AT:]
                parked = self._settle(domain, stale)
                turn = last(domain)
                if parked and turn <= ticket[:_RANK]:
                    return ticket[:_RANK] + parked[0]
                queue.pop()
                if parked:
                    queue.push(turn + ticket[_RANK:])
                continue
            if stale is not None and stale(ticket):
                queue.pop()
                continue
            if ticket is not self._looked_at:
                self._looked_at, self._domain = ticket, domain_of_key(ticket[_NAME_AT:])
            turn = last(self._domain)
            if turn <= ticket[:_RANK] or not left:
                return ticket
            left -= 1
            self._park(queue.pop(), turn)
        return None

    def _settle(self, domain: bytes, stale: Stale | None) -> list[bytes]:
        """The parked tickets of the domain. Those on top that are stale have gone, and the domain with its last."""
        parked = self._parked[domain]
        if stale is not None:
            while parked and stale(parked[0]):
                heappop(parked)
                self._parked_count -= 1
        if not parked:
            del self._parked[domain]
        return parked

    def _park(self, ticket: bytes, turn: bytes) -> None:
        parked = self._parked.get(self._domain)
        if parked is None:
            parked = self._parked[self._domain] = []
            self._queue.push(turn + _MARK + self._domain)
        heappush(parked, ticket)
        self._parked_count += 1

    def first_host(self) -> bytes:
        """The ticket of the host that is first. ``first`` must just have returned something."""
        first = self._queue.first()
        assert first is not None
        return first if first[_NAME_AT] else self._parked[first[_DOMAIN_AT:]][0]

    def pop(self) -> bytes:
        """Take that ticket off the line. The mark of a domain stays until ``first`` finds that it must go."""
        first = self._queue.first()
        assert first is not None
        if first[_NAME_AT]:
            self._turns.next = self._domain
            return self._queue.pop()
        self._turns.next = domain = first[_DOMAIN_AT:]
        self._parked_count -= 1
        return heappop(self._parked[domain])

    def least_rank(self, most: int) -> bytes:
        """The least rank of a host by itself, whenever its domain has its turn; empty if more than ``most`` domains
        must be looked at. May be that of a stale ticket. ``first`` must just have returned something."""
        if len(self._parked) > most:
            return b""
        return min([self.first_host()[:_RANK], *(parked[0][:_RANK] for parked in self._parked.values() if parked)])

    def __len__(self) -> int:
        return len(self._queue) - len(self._parked) + self._parked_count

    def __iter__(self) -> Iterator[bytes]:
        """The tickets, in no order."""
        yield from (ticket for ticket in self._queue if ticket[_NAME_AT])
        for parked in self._parked.values():
            yield from parked
