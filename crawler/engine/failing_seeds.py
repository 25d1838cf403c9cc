"""Logs each seed whose host does not answer, at its first failure, and how often the seed will be retried."""

from __future__ import annotations

import logging

from crawler.base.figures import counted, duration
from crawler.base.settings.parts import Settings
from crawler.engine.judge import failure_class
from crawler.frontier.entry import Entry
from crawler.frontier.lease import Lease
from crawler.frontier.retries import tries_of, waits_left
from crawler.job.job import Job
from crawler.web.fetch import Failure

log = logging.getLogger("crawler")

_NAMED = 3  # maximum number of seeds that are logged individually


class FailingSeeds:
    """Reports the seeds of one run whose hosts have never answered."""

    def __init__(self, job: Job, settings: Settings) -> None:
        self._job = job
        self._retry = settings.retry
        self._named = set[str]()  # names of hosts

    def covers(self, lease: Lease) -> bool:
        """Return whether this class reports failures of the lease."""
        waits = lease.entry is not None or (lease.host.queue.queued > 0 and not lease.beside)
        return waits and lease.host.tally.fetched == 0 and self._entry(lease).seed

    def failed(self, lease: Lease, failure: Failure, now: float) -> None:
        """Report that a request under the lease failed at ``now`` (seconds since 1970)."""
        name, failed_as = lease.host.name, failure_class(failure.kind)
        if failure.local or not failed_as.unanswered:  # not reported here: an outage, or an error reply
            return
        if name in self._named or len(self._named) > _NAMED or not self.covers(lease):
            return
        self._named.add(name)
        if len(self._named) > _NAMED:
            log.warning("more seeds cannot be fetched; run `crawler hosts %s` to list them", self._job.directory)
            return
        of_robots, entry = lease.entry is None, self._entry(lease)
        before = lease.host.politeness.robots_tries if of_robots else entry.tries
        retried, tries = name if of_robots else entry.href, tries_of(failed_as, self._retry)
        waits = waits_left(before, tries, self._retry, retried)
        number = counted(len(waits), "more try", "more tries")
        again = f"up to {number}, in at least {duration(sum(waits))}" if waits else "no more tries"
        log.warning("%s cannot be fetched: %s; %s", entry.href, failure.error, again)

    def _entry(self, lease: Lease) -> Entry:
        return self._job.frontier.peek(lease.host) if lease.entry is None else lease.entry
