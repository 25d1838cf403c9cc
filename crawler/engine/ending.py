"""Whether a crawl is over. One object answers that, from what a restart would find as well: nothing that only memory
knows (visits, timers, tasks) counts. Whatever may still bring URLs into a job is asked here and nowhere else.

    seeds       read to their end
    pending     URLs that are admitted and not done; those in flight are among them
    doubted     URLs that the ledger has not decided yet
    inbox       files that somebody left
    step        written: while the disk is full, memory is one step ahead
    revisits    never over: there is always a next visit
"""

from __future__ import annotations

from crawler.job.inbox import Inbox
from crawler.job.job import Job


class Ending:
    """The end of one crawl. ``seeds_read`` is set when the seeds have been admitted to the last."""

    def __init__(self, job: Job, inbox: Inbox, *, finite: bool, endless: bool) -> None:
        """``finite`` seeds are read to their end also where a limit is reached before. An ``endless`` crawl visits its
        pages again and again."""
        self.seeds_read = False
        self.endless = endless
        self._job = job
        self._inbox = inbox
        self._finite = finite

    def is_reached(self) -> bool:
        """Whether nothing is left to do, now or later."""
        job = self._job
        return (
            self.seeds_read
            and not self.endless
            and not job.counters.pending
            and not job.doubted
            and job.blocked is None
            and not self._inbox.waiting()
        )

    def may_stop_early(self) -> bool:
        """Whether a limit may end the crawl now: seeds that end are read first, so that the next run knows them."""
        return self.seeds_read or not self._finite
