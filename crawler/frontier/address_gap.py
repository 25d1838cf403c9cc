"""The gap of an IP address (``politeness.address_delay``): a second gap, besides that of the host key.

Many names may have one address. Requests to the address begin at least this gap after the last one began, and after
the last one ended; ``send_times`` keeps it also between their sendings. There are no lease slots for an address:
answers may overlap. While the gap lasts, one host has the next turn, and the others wait in a line.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.fair_semaphore import FairSemaphore
from crawler.frontier.host import Host
from crawler.frontier.host_keys import GROUPS_MAX, Group


class AddressGaps:
    """The addresses of a run. A host whose address is not known has no such gap."""

    def __init__(self, delay: float, call: Callable[[str | None], None]) -> None:
        """``delay`` in seconds. ``call`` is called with the name of the host whose turn in a line has come, or None."""
        self.delay = delay
        self._call = call
        self._groups: dict[str, Group] = {}
        self._prune_at = GROUPS_MAX
        self._resumed_at = float("-inf")

    def resume(self, at: float) -> None:
        """The run began at ``at`` with stored hosts: no address is asked before one gap is over."""
        self._resumed_at = at

    def enter(self, host: Host, now: float) -> float | None:
        """Ask for a turn at ``now``. Returns ``now`` if a request may be made; the gap after it is then reserved.
        Returns a later time if the host must wait until then, and None if it waits in the line."""
        address = host.politeness.address
        if address is None:
            return now
        group = self._groups.get(address) or self._begin(address, now)
        if not group.slots.enter(host.name):
            return None
        if group.next_time > now:
            group.slots.step_back(host.name)
            return group.next_time
        group.next_time = now + self.delay
        self._call(group.slots.leave())
        return now

    def next_time(self, host: Host) -> float:
        """When a request to the host's address may be made, in seconds since 1970."""
        group = self._groups.get(host.politeness.address or "")
        return 0.0 if group is None else group.next_time

    def hold(self, host: Host, now: float) -> None:
        """A request to the host begins or ends at ``now``."""
        group = self._groups.get(host.politeness.address or "")
        if group is not None:
            group.next_time = max(group.next_time, now + self.delay)

    def withdraw(self, host: Host) -> None:
        """Take the host out of the line, and give up a turn reserved for it."""
        group = self._groups.get(host.politeness.address or "")
        if group is not None:
            self._call(group.slots.withdraw(host.name))

    def _begin(self, address: str, now: float) -> Group:
        if len(self._groups) >= self._prune_at:
            over = [key for key, group in self._groups.items() if group.slots.unused and group.next_time <= now]
            for key in over:
                del self._groups[key]
            self._prune_at = max(GROUPS_MAX, 2 * len(self._groups))
        group = self._groups[address] = Group(FairSemaphore(1), self._resumed_at + self.delay)
        return group
