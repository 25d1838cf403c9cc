"""Decides whether a crawl is over. One object answers that, and asks only what a restart would find as well: nothing
that exists in memory alone (visits, timers, tasks) counts. Whatever may still bring URLs into a job is checked here and
nowhere else.

    seeds        read to the end
    pending      no URL is admitted and unfinished; URLs in flight are pending
    doubted      no URL waits for the ledger's decision
    left out     nothing that a limit left out is to be looked at again because it was lifted
    inbox        no file waits
    transaction  written: while the disk is full, memory is one transaction ahead of it
    revisits     never over: there is always a next visit
    partitions   everything that belongs to other partitions is durable there

Of a crawl of several partitions each is asked whether nothing is left; whether the crawl is over, none of them knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawler.engine.membership import Membership
from crawler.job.job import Job


class Inlet(Protocol):
    """Where URLs come in from outside."""

    def waiting(self) -> Sequence[str]:
        """Return the names of the files that hold some."""


class Ending:
    """The end of one crawl. ``seeds_read`` becomes true once all seeds are admitted."""

    def __init__(
        self, job: Job, inbox: Inlet, *, finite: bool, endless: bool, member: Membership | None = None
    ) -> None:
        """``finite``: the seeds end, so they are all read even if a limit is reached first. ``endless``: the crawl
        revisits its pages again and again. ``member``: of a partition."""
        self.seeds_read = False
        self.endless = endless
        self._job = job
        self._inbox = inbox
        self._finite = finite
        self._member = member

    def is_reached(self) -> bool:
        """Return whether nothing is left to do, now or later."""
        job = self._job
        return (
            self.seeds_read
            and not self.endless
            and not job.counters.pending
            and not job.doubted
            and not job.left_out.left
            and job.blocked is None
            and not self._inbox.waiting()
            and (self._member is None or self._member.is_sent())
        )

    def ends_crawl(self) -> bool:
        """Return whether the crawl is over. A partition is told so instead: others may still find URLs for it."""
        return self._member is None and self.is_reached()

    def may_stop_early(self) -> bool:
        """Return whether a limit may end the crawl now. Finite seeds are read first, so that the next run knows
        them."""
        return self.seeds_read or not self._finite
