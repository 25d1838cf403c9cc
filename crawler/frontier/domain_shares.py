"""Fair turns for domains: waiting hosts take turns in order, and all hosts of a registrable domain share one place.

A host waits by its *rank*. For a host that was never requested, the rank is its arrival, which comes before all others;
otherwise it is the time of its last request. A domain with a wildcard DNS record can have unlimited hosts, none of them
requested before. A host therefore goes no earlier than its domain: its own rank or the domain's last turn counts,
whichever is later. This is a round robin of domains (Nagle 1987, "On Packet Switches with Infinite Storage"), and a
domain with one host keeps the place that the host has by itself. No turn is wasted: if only one domain has waiting
hosts, it gets all turns.

Hosts are checked only when they reach the front. If a host's domain had a turn after the host's rank, the host is
*parked* with others of its domain, and a mark of the domain joins the line in their place. A turn therefore costs O(log
hosts), and a domain with one waiting host needs no storage.

The last turns of ``DOMAINS_MOST`` domains are in memory. A forgotten domain had less than one of that many turns, and
needs no limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from heapq import heappop, heappush

from crawler.url.urls.domain import domain_of_key

DOMAINS_MOST = 16_384  # number of domains whose last turn is kept in memory, about 200 bytes each
PARKED_MOST = 1_024  # hosts parked per call (a few milliseconds); the next host is returned regardless of its domain

_TIME = struct.Struct(">d")
_RANK = _TIME.size
_NAME_AT = 17  # offset of the name in a ticket: rank, ready time, place, name
_MARK = b"\0" * (_NAME_AT - _RANK + 1)  # follows the rank in a domain's mark; no name starts with NUL
_DOMAIN_AT = _RANK + len(_MARK)
_STEP = 1e-6  # minimum seconds between two turns, so that no two have the same time

Stale = Callable[[bytes], bool]  # returns True if a ticket is obsolete; called once, because the ticket is then removed


class TicketHeap:
    """A priority queue of tickets, ordered by their bytes."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[bytes] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, ticket: bytes) -> None:
        heappush(self._heap, ticket)

    def first(self) -> bytes | None:
        """Return the smallest ticket; None if the queue is empty."""
        return self._heap[0] if self._heap else None

    def pop(self) -> bytes:
        """Remove and return the smallest ticket. The queue must not be empty."""
        return heappop(self._heap)


class DomainTurns:
    """The time of the last turn of each domain."""

    def __init__(self, most: int = DOMAINS_MOST) -> None:
        """Keep the last turns of at most ``most`` domains; those of the latest ``most`` / 2 are never dropped."""
        self._half = most // 2
        self._late: dict[bytes, bytes] = {}  # the latest turns by domain
        self._earlier: dict[bytes, bytes] = {}  # the turns before the latest ones
        self._latest = 0.0
        self.next = b""  # domain of the host that was last taken off a line

    def take(self, now: float) -> None:
        """Record that the host that was last taken off a line has its turn at ``now``."""
        self._latest = now if now > self._latest else self._latest + _STEP
        self._late[self.next] = _TIME.pack(self._latest)
        if len(self._late) > self._half:
            self._earlier, self._late = self._late, {}

    def last(self, domain: bytes) -> bytes:
        """Return the rank of the domain's last turn; empty if there is none."""
        return self._late.get(domain) or self._earlier.get(domain, b"")


class DomainLine:
    """Tickets of waiting hosts in the order of their turns. Each ticket starts with the rank of the host."""

    __slots__ = ("_domain", "_looked_at", "_most", "_parked", "_parked_count", "_queue", "_turns")

    def __init__(self, turns: DomainTurns, parked_most: int = PARKED_MOST) -> None:
        self._turns = turns
        self._most = parked_most
        self._queue = TicketHeap()  # tickets and marks
        self._parked: dict[bytes, list[bytes]] = {}  # heaps by domain; each has a mark in the queue
        self._parked_count = 0
        self._looked_at: bytes | None = None  # the last ticket that reached the front, and its domain
        self._domain = b""

    def push(self, ticket: bytes) -> None:
        self._queue.push(ticket)

    def first(self, stale: Stale | None = None) -> bytes | None:
        """Return the first ticket, by which lines are compared, or None if no host waits.

        If a mark is first, the result is the domain's rank followed by a parked ticket. The domain's lines therefore
        start with a host that was never requested. ``stale`` is None if no ticket can be stale.
        """
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
        """Remove stale tickets from the top of the domain's heap, and the heap itself once it is empty; returns the
        heap."""
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
        """Return the ticket of the first host. ``first`` must have just returned a ticket."""
        first = self._queue.first()
        assert first is not None
        return first if first[_NAME_AT] else self._parked[first[_DOMAIN_AT:]][0]

    def pop(self) -> bytes:
        """Remove the first host's ticket from the line. A domain's mark stays until ``first`` removes it."""
        first = self._queue.first()
        assert first is not None
        if first[_NAME_AT]:
            self._turns.next = self._domain
            return self._queue.pop()
        self._turns.next = domain = first[_DOMAIN_AT:]
        self._parked_count -= 1
        return heappop(self._parked[domain])

    def __len__(self) -> int:
        return len(self._queue) - len(self._parked) + self._parked_count
