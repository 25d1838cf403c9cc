"""Groups of hosts that other partitions of the crawl may ask too. A request to such a host begins only while this
partition has the group, for a turn that another part gets from its owner (``Turns``).

A host that needs a turn waits in a line until it is said that the group is lent. While it is, the gate keeps the gaps
of the group as always.

A host may need two: that of its key, and that of its address. It asks for them in this order, and has the first one
kept for it while it waits for the second: else several partitions could go on giving back what the others need too.
Nobody keeps an address while he waits for a key, so they never wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from crawler.frontier.address_gap import AddressGaps
from crawler.frontier.host import Host
from crawler.frontier.host_keys import HostKeys

LOOK = 0.25  # seconds between two looks of a visit that needs another turn
_KEY, _ADDRESS = "k", "a"  # what a group is: the hosts of a key, or those that share the gap of an address


class Turns(Protocol):
    """Who gets the turns of a partition. ``by_host``: the hosts of one domain may be in several partitions."""

    by_host: bool

    def wait(self, group: str, gap: float, *, inside: bool = False) -> float | None:
        """Ask for a request to a group whose requests are ``gap`` seconds apart. Returns 0 if it may begin, else the
        seconds until it may; None: it is said later. ``inside``: within a visit that has begun."""
        ...

    def keep(self, group: str, seconds: float) -> None:
        """The group, which is lent, is to be used after so many seconds: it is not idle until then."""
        ...

    def began(self, group: str) -> None:
        """A visit of the group begins."""
        ...

    def ended(self, group: str, *, more: bool) -> None:
        """A visit of the group has ended. ``more``: others are to follow."""
        ...

    def may_send(self, group: str) -> bool:
        """Whether a request may be sent to the group now."""
        ...

    def gap(self, group: str) -> float:
        """The largest gap of the group that other partitions know, in seconds."""
        ...


class GroupLeases:
    """The groups of one gate that need turns."""

    def __init__(self, turns: Turns, keys: HostKeys, addresses: AddressGaps | None) -> None:
        self._turns = turns
        self._keys = keys
        self._addresses = addresses
        self._waiting: dict[str, dict[str, None]] = {}  # hosts, by group
        self._kept: dict[str, dict[str, str]] = {}  # by group: hosts it is kept for, and the group they wait for

    def enter(self, host: Host, gap: float, now: float) -> float | None:
        """Ask for a request at ``now``; ``gap`` is that of the host's key. Returns ``now`` if it may begin, a later
        time to ask again, or None if the host is to wait until it is called."""
        at, groups = now, self._groups(host)
        for number, group in enumerate(groups):
            wait = self._turns.wait(group, self._gap(groups, group, gap))
            if wait is None:
                self._waiting.setdefault(group, {})[host.name] = None
                for kept in groups[:number]:
                    self._kept.setdefault(kept, {})[host.name] = group
                return None
            at = max(at, now + wait)
        for group in groups:
            self._turns.keep(group, at - now)
        return at

    def again(self, host: Host, gap: float, now: float) -> float:
        """``enter`` for a further request of a visit, which does not wait in a line."""
        groups = self._groups(host)
        waits = [self._turns.wait(group, self._gap(groups, group, gap), inside=True) for group in groups]
        return now + max((LOOK if wait is None else wait for wait in waits), default=0.0)

    def began(self, host: Host) -> None:
        """A visit of the host begins."""
        for group in self._groups(host):
            self._turns.began(group)

    def ended(self, host: Host) -> None:
        """A visit of the host has ended."""
        has_more = host.queue.size > host.queue.taken
        for group in self._groups(host):
            self._turns.ended(group, more=has_more or self._has_more(group))

    def may_send(self, host: Host) -> bool:
        """Whether a request may be sent to the host now."""
        return all(self._turns.may_send(group) for group in self._groups(host))

    def gap(self, host: Host) -> float:
        """The largest gap of the hosts of the host's key that other partitions know."""
        key = self._keys.key_of_several(host, by_host=self._turns.by_host)
        return 0.0 if key is None else self._turns.gap(self._groups(host)[0])

    def withdraw(self, host: Host) -> None:
        """The host waits no more."""
        for group in self._groups(host):
            names = self._waiting.get(group)
            if names is not None:
                names.pop(host.name, None)
                if not names:
                    del self._waiting[group]

    def lent(self, group: str, call: Callable[[str], None]) -> None:
        """The group is lent: call the hosts that wait for that."""
        for name in self._waiting.pop(group, ()):
            call(name)

    def is_kept(self, group: str) -> bool:
        """Whether the group is kept for a host that waits for another one too."""
        hosts = self._kept.get(group, {})
        for name, other in list(hosts.items()):
            if name in self._waiting.get(other, ()):
                return True
            del hosts[name]
        self._kept.pop(group, None)
        return False

    def free_at(self, group: str) -> float:
        """When the group may be asked, as far as its hosts here tell; seconds since 1970."""
        found = self._keys.groups.get(group[1:])
        at = 0.0 if found is None else found.next_time
        return max(at, self._addresses.free_at(group[1:])) if self._addresses and group[0] == _ADDRESS else at

    def _has_more(self, group: str) -> bool:
        """Whether a host waits for the group, or is asked."""
        found = self._keys.groups.get(group[1:])
        waits = found is not None and not found.slots.unused
        if group[0] == _ADDRESS:
            waits = waits or (self._addresses is not None and self._addresses.waits(group[1:]))
        return waits or group in self._waiting

    def _gap(self, groups: list[str], group: str, gap: float) -> float:
        """The gap of one of the ``groups`` of a host, whose key has that ``gap``."""
        if self._addresses is None or group[0] == _KEY:
            return gap
        return self._addresses.delay if len(groups) > 1 else max(gap, self._addresses.delay)

    def _groups(self, host: Host) -> list[str]:
        """That of its key first. If its key is its address, that is one group."""
        groups = list[str]()
        key = self._keys.key_of_several(host, by_host=self._turns.by_host)
        address = None if self._addresses is None else host.politeness.address
        if key is not None and key != address:
            groups.append(_KEY + key)
        if address is not None:
            groups.append(_ADDRESS + address)
        return groups
