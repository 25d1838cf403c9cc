"""Visits the pages that may have killed the process last, and each of them alone.

Such a page is behind all others of its host. When its turn comes it is put aside, until nothing is in flight and no
other URL can be asked for soon. Then it is visited, and nothing else is handed out until that visit has ended. So what
dies with it is nobody else's work, and if the process does die, there is no doubt about which page it was.

A crawl that never comes to rest does not lose it: after ``WAIT_MOST`` nothing else is handed out until what is in
flight has ended, which takes no longer than the time limits of a visit. While it waits, URLs of its host that are found
anew go before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from crawler.frontier.entry import is_retry, is_revisit
from crawler.frontier.lease import Lease

REST = 60.0  # seconds for which nothing else may be asked: longer than most gaps and holds of hosts
WAIT_MOST = 600.0  # seconds that a page is put aside


class Owner(Protocol):
    """What a run does with leases."""

    def stand_back(self, lease: Lease) -> None:
        """Give up the place of a lease at the gate, so that hosts of the same key may be asked."""

    def enter(self, lease: Lease, now: float) -> float:
        """Ask for a place at the gate. Returns ``now`` if the request may be made, else when to ask again."""

    def still_wants(self, lease: Lease) -> bool:
        """Whether a lease that had to wait may still be visited."""

    def release(self, lease: Lease) -> None:
        """Take back a lease that will not be visited."""


Who = TypeVar("Who", bound=Owner)


class _Aside(Struct, Generic[Who], eq=False):
    owner: Who
    lease: Lease
    since: float
    enters_at: float = 0.0  # when to ask for a place at the gate again


class Suspects(Generic[Who]):
    """The pages of all runs of a worker that may have killed the process. Times are in seconds since 1970."""

    def __init__(self) -> None:
        self._aside: list[_Aside[Who]] = []  # in the order of their turns
        self._since: dict[str, float] = {}  # by URL, when it was first put aside; a handful
        self._alone: Lease | None = None  # nothing else is handed out

    def holds(self, owner: Who, lease: Lease, now: float) -> bool:
        """Put aside a lease that was just taken if its page may have killed the process. Returns whether it did."""
        if lease.entry is None or not lease.entry.crashes or lease is self._alone:
            return False
        owner.stand_back(lease)
        self._aside.append(_Aside(owner, lease, self._since.setdefault(lease.entry.href, now)))
        return True

    def bars(self, now: float) -> bool:
        """Whether nothing else may be handed out."""
        return self._alone is not None or any(now >= each.since + WAIT_MOST for each in self._aside)

    def turn(self, now: float, others: Iterable[float]) -> tuple[Who, Lease] | None:
        """The lease that is to be visited now, while nothing is in flight; None if there is none. It is alone until
        ``ended``. ``others``: when other URLs may be asked for."""
        if self._alone is not None or not self._aside:
            return None
        ready = min((*others, *(time for each in self._aside for time in _retries(each.lease))), default=None)
        if ready is not None and ready < now + REST and not self.bars(now):
            return None
        first = min(self._aside, key=lambda each: each.since)
        first.enters_at = first.owner.enter(first.lease, now)
        if first.enters_at > now:
            return None
        self._aside.remove(first)
        self._alone = first.lease
        return first.owner, first.lease

    @property
    def waits(self) -> bool:
        """Whether a page is put aside."""
        return bool(self._aside)

    def ended(self, lease: Lease) -> None:
        """The visit of a lease has ended, or the lease was released."""
        if lease is self._alone:
            self._alone = None

    def give_back(self, now: float) -> None:
        """Give back the leases whose runs do not want them now, and those whose host has another URL to be visited
        before."""
        for each in list(self._aside):
            if not each.owner.still_wants(each.lease) or _is_behind(each.lease, now):
                self._aside.remove(each)
                each.owner.release(each.lease)

    def next_time(self, now: float) -> Iterable[float]:
        """When something changes that nobody tells of."""
        for each in self._aside:
            times = (each.since + WAIT_MOST, each.enters_at, *_retries(each.lease))
            yield from (time for time in times if time > now)


def _is_behind(lease: Lease, now: float) -> bool:
    """Whether the host, with this lease given back, would surely give out another URL."""
    queue = lease.host.queue
    # Revisits have turns of their own: given back, one whose turn it is would be handed out again, before first visits.
    if queue.immediate and queue.first < lease.slot and not is_revisit(lease.slot):
        return True
    return any(time <= now for time in _retries(lease))


def _retries(lease: Lease) -> Iterable[float]:
    """When a retry of the host comes before the lease, if one does."""
    host = lease.host
    if host.queue.retries_waiting and not host.failures.in_a_row and not is_retry(lease.slot):
        yield max(host.queue.retry_at, host.politeness.next_time)
