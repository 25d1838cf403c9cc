"""The gap of an IP address (``politeness.address_delay``), enforced in addition to the gap of the host key.

Many names may share one address. A request to the address starts at least this gap after the previous one started and
after it ended; ``send_times`` also enforces the gap between the times of sending. An address has no lease slots:
responses may overlap. During the gap one host holds the next turn, and the others wait in a line.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.fair_semaphore import FairSemaphore
from crawler.frontier.host import Host
from crawler.frontier.host_keys import GROUPS_MAX, Group


class AddressGaps:
    """The addresses of a run. A host with an unknown address has no such gap."""

    def __init__(self, delay: float, call: Callable[[str | None], None]) -> None:
        """``delay`` is in seconds. ``call`` gets the name of the host whose turn in a line has come, or None."""
        self.delay = delay
        self._call = call
        self._groups: dict[str, Group] = {}
        self._prune_at = GROUPS_MAX
        self._resumed_at = float("-inf")

    def resume(self, at: float) -> None:
        """Start a run with stored hosts at ``at``: no address is requested before one gap has passed."""
        self._resumed_at = at

    def enter(self, host: Host, now: float) -> float | None:
        """Ask for a turn at ``now``.

        Returns ``now`` if a request may be made; the gap after it is then reserved. Returns a later time if the host
        must wait until then, and None if it waits in the line.
        """
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
        """Return the time of the next permitted request to the host's address, in seconds since 1970."""
        group = self._groups.get(host.politeness.address or "")
        return 0.0 if group is None else group.next_time

    def hold(self, host: Host, now: float) -> None:
        """Restart the gap at ``now``, when a request to the host starts or ends."""
        group = self._groups.get(host.politeness.address or "")
        if group is not None:
            group.next_time = max(group.next_time, now + self.delay)

    def withdraw(self, host: Host) -> None:
        """Remove the host from the line and give up a turn reserved for it."""
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
