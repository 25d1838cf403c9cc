"""A queue in which expensive pages of one host do not delay other hosts: the host whose pages have cost least is served
next.

This is fair queueing. Each host has a virtual time that advances with the cost of its pages. A host that becomes active
again starts at the virtual time of the page served last, so that it neither waits because of others' past use nor
gains from its own idle time.

The cost of a host's pages is known once the first of them is done. Until then the host is a *newcomer*, and all
newcomers share one virtual time, as if they were one host. Sending each expensive page from a different host therefore
gains nothing.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")

HOSTS_MOST = 8_192  # maximum number of known hosts; then the one longest without a page becomes a newcomer again
NEWCOMERS_OUT = 3  # pages of newcomers that may be in progress at once


class _Account(Generic[T]):
    """The waiting items of one host, or of all newcomers, and the virtual time of the first of these items."""

    __slots__ = ("time", "waiting")

    def __init__(self) -> None:
        self.time = 0.0
        self.waiting: deque[tuple[str, T, float]] = deque()  # host, item, cost


class FairLine(Generic[T]):
    """Waiting items, each with its host. Every taken item must be charged when it is done."""

    def __init__(self, newcomers_out: int = NEWCOMERS_OUT) -> None:
        self._newcomers_out = newcomers_out
        self._newcomers = _Account[T]()
        self._known: OrderedDict[str, _Account[T]] = OrderedDict()  # the most recently used last
        self._out: Counter[str] = Counter()  # pages of newcomers that were taken and are not done
        self._heap: list[tuple[float, int, _Account[T]]] = []  # accounts with waiting items; times may be too low
        self._numbers = count()
        self._now = 0.0  # virtual time of the item taken last

    def __iter__(self) -> Iterator[T]:
        for account in (self._newcomers, *self._known.values()):
            yield from (item for _, item, _ in account.waiting)

    def put(self, host: str, item: T, cost: float) -> None:
        """Add an item with its expected cost. ``charge`` later adds the cost in excess of the expected one."""
        account = self._known.get(host, self._newcomers)
        account.waiting.append((host, item, cost))
        if len(account.waiting) == 1:
            account.time = max(self._now, account.time)
            self._line_up(account)

    def charge(self, host: str, cost: float) -> None:
        """Record that an item of the host is done, with the cost in excess of the expected one."""
        account = self._known.get(host)
        if account is None:
            account = self._known[host] = _Account()
            if len(self._known) > HOSTS_MOST:
                self._forget_one()
        else:
            self._known.move_to_end(host)
        account.time = max(self._now, account.time) + cost
        if self._out[host]:
            self._newcomers.time += cost
            full = self._out.total() >= self._newcomers_out
            self._out[host] -= 1
            if full:
                self._line_up(self._newcomers)
        if not self._out[host]:
            del self._out[host]

    def first(self) -> T | None:
        """Return the next item; None if there is none, or none may be taken before another item is done."""
        account = self._next()
        return None if account is None else account.waiting[0][1]

    def take(self) -> T:
        """Remove and return the next item. Call this only if ``first`` returns an item."""
        account = self._next()
        assert account is not None
        heappop(self._heap)
        host, item, cost = account.waiting.popleft()
        self._now = account.time
        account.time += cost
        if account is self._newcomers:
            self._out[host] += 1
        self._line_up(account)
        return item

    def clear(self) -> None:
        """Remove all items and hosts."""
        self._newcomers = _Account()
        self._known.clear()
        self._out.clear()
        self._heap.clear()

    def _line_up(self, account: _Account[T]) -> None:
        """Queue the account, which must not be queued already."""
        if account.waiting and (account is not self._newcomers or self._out.total() < self._newcomers_out):
            heappush(self._heap, (account.time, next(self._numbers), account))

    def _next(self) -> _Account[T] | None:
        while self._heap:
            time, _, account = self._heap[0]
            if time == account.time:
                return account
            heappop(self._heap)  # the account has been charged since it was queued
            self._line_up(account)
        return None

    def _forget_one(self) -> None:
        for host, account in self._known.items():
            if not account.waiting:
                del self._known[host]
                return
