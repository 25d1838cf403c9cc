"""Handles pages that may have killed the process: they are visited last, and each of them alone.

Such a page is queued behind all others of its host. When its turn comes it is put aside until nothing is in flight and
no other URL is due soon. Then it is visited, and nothing else is handed out until that visit has ended. If the process
crashes, no other work is lost, and the page that caused the crash is known for certain.

The page is visited even in a crawl that is never idle: after ``WAIT_MOST`` nothing else is handed out until the visits
in flight have ended, which takes no longer than the time limits of a visit. While it waits, newly found URLs of its
host go before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from crawler.engine.run import Run
from crawler.frontier.entry import is_retry, is_revisit
from crawler.frontier.lease import Lease

REST = 60.0  # seconds within which no other URL may become due; longer than most gaps and holds of hosts
WAIT_MOST = 600.0  # seconds that a page is put aside


class _Aside(Struct, eq=False):
    run: Run
    lease: Lease
    since: float
    enters_at: float = 0.0  # when to request a place at the gate again


class Suspects:
    """The pages of all runs of a worker that may have killed the process. Times are in seconds since 1970."""

    def __init__(self) -> None:
        self._aside: list[_Aside] = []  # in the order of their turns
        self._since: dict[str, float] = {}  # URL -> when it was first put aside; a few entries at most
        self._alone: Lease | None = None  # the only lease that may be visited

    def holds(self, run: Run, lease: Lease, now: float) -> bool:
        """Put aside a newly taken lease if its page may have killed the process. Returns whether it did."""
        if lease.entry is None or not lease.entry.crashes or lease is self._alone:
            return False
        run.job.frontier.ad_hoc.stand_back(lease)
        self._aside.append(_Aside(run, lease, self._since.setdefault(lease.entry.href, now)))
        return True

    def bars(self, now: float) -> bool:
        """Return whether no other lease may be handed out."""
        return self._alone is not None or any(now >= each.since + WAIT_MOST for each in self._aside)

    def turn(self, now: float, others: Iterable[float]) -> tuple[Run, Lease] | None:
        """Return the lease to visit now that nothing is in flight, or None. It is visited alone until ``ended``.
        ``others``: when other URLs are due."""
        if self._alone is not None or not self._aside:
            return None
        ready = min((*others, *(time for each in self._aside for time in _retries(each.lease))), default=None)
        if ready is not None and ready < now + REST and not self.bars(now):
            return None
        first = min(self._aside, key=lambda each: each.since)
        first.enters_at = first.run.job.frontier.ad_hoc.enter(first.lease, now)
        if first.enters_at > now:
            return None
        self._aside.remove(first)
        self._alone = first.lease
        return first.run, first.lease

    @property
    def waits(self) -> bool:
        """True if a page is put aside."""
        return bool(self._aside)

    def ended(self, lease: Lease) -> None:
        """Record that the visit of a lease has ended or that the lease was released."""
        if lease is self._alone:
            self._alone = None

    def give_back(self, now: float) -> None:
        """Give back the leases that their runs do not want now, and those whose host has another URL to visit first."""
        for each in list(self._aside):
            if not each.run.still_wants(each.lease) or _is_behind(each.lease, now):
                self._aside.remove(each)
                each.run.release(each.lease)

    def next_time(self, now: float) -> Iterable[float]:
        """Yield the times at which something changes without a call."""
        for each in self._aside:
            times = (each.since + WAIT_MOST, each.enters_at, *_retries(each.lease))
            yield from (time for time in times if time > now)


def _is_behind(lease: Lease, now: float) -> bool:
    """Return whether the host would certainly give out another URL if this lease were given back."""
    queue = lease.host.queue
    # Revisits have turns of their own: a revisit given back in its turn would be handed out again before first visits.
    if queue.immediate and queue.first < lease.slot and not is_revisit(lease.slot):
        return True
    return any(time <= now for time in _retries(lease))


def _retries(lease: Lease) -> Iterable[float]:
    """Yield the time of the host's next retry, if it comes before the lease."""
    host = lease.host
    if host.queue.retries_waiting and not host.failures.in_a_row and not is_retry(lease.slot):
        yield max(host.queue.retry_at, host.politeness.next_time)
