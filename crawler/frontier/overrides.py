"""The user's changes to single hosts: pause, block, resume."""

from __future__ import annotations

from crawler.base.kv import Batch
from crawler.frontier.backoff_policy import give_another_chance
from crawler.frontier.host import Host
from crawler.frontier.politeness import HoldReason
from crawler.frontier.workbench import Workbench


class Overrides:
    """Changes single hosts for the user. Each method returns False if the job does not know the host."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench

    def pause(self, name: str, batch: Batch) -> bool:
        """Stop handing out URLs of the host until it is resumed."""
        return self._keep_back(name, batch, paused=True)

    def block(self, name: str, batch: Batch) -> bool:
        """Stop all requests to the host: its URLs end as excluded."""
        return self._keep_back(name, batch, blocked=True)

    def _keep_back(self, name: str, batch: Batch, *, paused: bool = False, blocked: bool = False) -> bool:
        host = self._workbench.find(name)
        if host is not None:
            politeness = host.politeness
            politeness.paused, politeness.blocked = politeness.paused or paused, politeness.blocked or blocked
            self._workbench.gate.withdraw(host)
            self._workbench.save(host, batch)
        return host is not None

    def resume(self, name: str, batch: Batch) -> bool:
        """End a pause or a block. If the host was snoozed or retired, requests to it resume after its gap."""
        host = self._workbench.find(name)
        if host is not None:
            politeness = host.politeness
            politeness.paused = politeness.blocked = False
            self._forgive(host)
            self._workbench.save(host, batch)
        return host is not None

    def ask_again(self, name: str, batch: Batch) -> bool:
        """Reset the failures of the host, and forget its robots.txt. A pause or a block remains in force."""
        host = self._workbench.find(name)
        if host is not None:
            self._forgive(host)
            host.politeness.robots_tries = 0
            self._ask_robots(host, batch)
        return host is not None

    def ask_robots(self, name: str, batch: Batch) -> bool:
        """Fetch the robots.txt of the host before its next page."""
        host = self._workbench.find(name)
        if host is not None:
            self._ask_robots(host, batch)
        return host is not None

    def _ask_robots(self, host: Host, batch: Batch) -> None:
        host.politeness.robots_until = 0.0
        self._workbench.gate.refused.hosts.pop(host.name, None)  # our own rules are evaluated again
        self._workbench.save(host, batch)

    def _forgive(self, host: Host) -> None:
        politeness = host.politeness
        if politeness.hold_reason in (HoldReason.FAILING, HoldReason.SNOOZED, HoldReason.RETIRED):
            give_another_chance(host)
            pause, politeness.hold_reason = self._workbench.gate.gap(host)
            politeness.next_time = politeness.last_request + pause
