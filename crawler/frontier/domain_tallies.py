"""Counts of responses for each registrable domain, for domain budgets.

The counts are stored with the hosts and summed when a run starts, as each host is read then anyway. The sums take about
250 bytes for each domain, and only if a domain budget is set.
"""

from __future__ import annotations

from crawler.frontier.host import DomainTally, Host
from crawler.url.urls.domain import registrable_domain


class DomainTallies:
    """The sums of all domains that the job knows."""

    def __init__(self) -> None:
        self._tallies: dict[str, DomainTally] = {}

    def attach(self, host: Host) -> None:
        """Attach the tally of its domain to a host."""
        name = registrable_domain(host.name.rpartition(":")[0])
        tally = self._tallies.get(name)
        if tally is None:
            tally = self._tallies[name] = DomainTally(name)
        host.domain = tally

    def restore(self, host: Host) -> None:
        """Add the counts of a host's record. Call once for each host."""
        self.attach(host)
        assert host.domain is not None
        host.domain.fetched += host.tally.fetched
