"""What was taken from each registrable domain, for budgets of domains.

The records of the hosts have the counts; the sums are made when a run begins, which reads each host anyway. They take
about 250 bytes for each domain, and only if a budget of domains is set.
"""

from __future__ import annotations

from crawler.frontier.host import DomainTally, Host
from crawler.url.urls.domain import registrable_domain


class DomainTallies:
    """The sums of all domains that the job has met."""

    def __init__(self) -> None:
        self._tallies: dict[str, DomainTally] = {}

    def attach(self, host: Host) -> None:
        """Let the host know its domain."""
        name = registrable_domain(host.name.rpartition(":")[0])
        tally = self._tallies.get(name)
        if tally is None:
            tally = self._tallies[name] = DomainTally(name)
        host.domain = tally

    def restore(self, host: Host) -> None:
        """Count what the record of a host says; once for each host."""
        self.attach(host)
        assert host.domain is not None
        host.domain.fetched += host.tally.fetched
