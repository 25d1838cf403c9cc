"""Decides whether a crawl is over. The decision uses only state that a restart would find as well: nothing that exists
only in memory (visits, timers, tasks) counts. All sources that may still add URLs to a job are checked here and nowhere
else.

    seeds        read to the end
    pending      all admitted URLs are finished; URLs in flight are pending
    doubted      no URL waits for the ledger's decision
    left out     no left-out URLs wait for a new check after their limit has been lifted
    inbox        no file waits
    transaction  written: while the disk is full, memory is one transaction ahead of the disk
    revisits     never over: a next visit is always planned
    partitions   everything that belongs to other partitions is durable there

In a crawl of several partitions, each partition knows only whether it has work left; none knows whether the whole crawl
is over.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.engine.membership import Membership
from crawler.job.job import Job


class Ending:
    """Decides the end of one crawl. ``seeds_read`` becomes true once all seeds are admitted."""

    def __init__(
        self, job: Job, waiting: Callable[[], object], *, finite: bool, endless: bool, member: Membership | None = None
    ) -> None:
        """``waiting()``: whether the inbox still holds URLs. ``finite``: the seeds end, so they are all read even if a
        limit is reached first. ``endless``: the crawl keeps revisiting its pages. ``member``: the membership of a
        partition."""
        self.seeds_read = False
        self.endless = endless
        self._job = job
        self._waiting = waiting
        self._finite = finite
        self._member = member

    def is_reached(self) -> bool:
        """Return whether no work is left, now or later."""
        job = self._job
        return (
            self.seeds_read
            and not self.endless
            and not job.counters.pending
            and not job.doubted
            and not job.left_out.left
            and job.blocked is None
            and not self._waiting()
            and (self._member is None or self._member.is_sent())
        )

    def ends_crawl(self) -> bool:
        """Return whether the crawl is over. Always false for a partition, because others may still find URLs for it."""
        return self._member is None and self.is_reached()

    def may_stop_early(self) -> bool:
        """Return whether a limit may end the crawl now. Finite seeds are read first, so that the next run has all of
        them."""
        return self.seeds_read or not self._finite
