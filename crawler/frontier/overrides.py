"""What people do to single hosts: pause, block, resume."""

from __future__ import annotations

from crawler.frontier.backoff_policy import give_another_chance
from crawler.frontier.politeness import HoldReason
from crawler.frontier.workbench import Workbench
from crawler.kv import Batch


class Overrides:
    """Each gives False when the job has met no such host."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench

    def pause(self, name: str, batch: Batch) -> bool:
        """Hand out nothing of the host until it is resumed."""
        return self._keep_back(name, batch, paused=True)

    def block(self, name: str, batch: Batch) -> bool:
        """Ask the host no more: its URLs end as excluded."""
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
        """The host is neither paused nor blocked any more; one that was snoozed or retired is asked again, after its
        gap."""
        host = self._workbench.find(name)
        if host is not None:
            politeness = host.politeness
            politeness.paused = politeness.blocked = False
            if politeness.hold_reason in (HoldReason.FAILING, HoldReason.SNOOZED, HoldReason.RETIRED):
                give_another_chance(host)
                pause, politeness.hold_reason = self._workbench.gate.gap(host)
                politeness.next_time = politeness.last_request + pause
            self._workbench.save(host, batch)
        return host is not None
