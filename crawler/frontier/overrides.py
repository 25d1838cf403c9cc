"""What people do to single hosts: pause, block, resume."""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.backoff_policy import give_another_chance
from crawler.frontier.gate import Gate
from crawler.frontier.host import Host
from crawler.frontier.politeness import HoldReason
from crawler.kv import Batch


class Overrides:
    """Each gives False when the job has met no such host."""

    def __init__(self, gate: Gate, find: Callable[[str], Host | None], changed: Callable[[Host, Batch], None]) -> None:
        """``find`` gives a host that the job has met, ``changed`` stores one and puts it where it belongs now."""
        self._gate = gate
        self._find = find
        self._changed = changed

    def pause(self, name: str, batch: Batch) -> bool:
        """Hand out nothing of the host until it is resumed."""
        return self._keep_back(name, batch, paused=True)

    def block(self, name: str, batch: Batch) -> bool:
        """Ask the host no more: its URLs end as excluded."""
        return self._keep_back(name, batch, blocked=True)

    def _keep_back(self, name: str, batch: Batch, *, paused: bool = False, blocked: bool = False) -> bool:
        host = self._find(name)
        if host is not None:
            host.paused, host.blocked = host.paused or paused, host.blocked or blocked
            self._gate.withdraw(host)
            self._changed(host, batch)
        return host is not None

    def resume(self, name: str, batch: Batch) -> bool:
        """The host is neither paused nor blocked any more; one that was snoozed or retired is asked again, after its
        gap."""
        host = self._find(name)
        if host is not None:
            host.paused = host.blocked = False
            if host.hold_reason in (HoldReason.FAILING, HoldReason.SNOOZED, HoldReason.RETIRED):
                give_another_chance(host)
                pause, host.hold_reason = self._gate.gap(host)
                host.next_time = host.last_request + pause
            self._changed(host, batch)
        return host is not None
