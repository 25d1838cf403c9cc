"""What the frontier hands out."""

from __future__ import annotations

from dataclasses import dataclass

from crawler.frontier.entry import Entry
from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed


@dataclass(slots=True, eq=False)
class Lease:
    """A host's slot, handed out. ``entry`` is None when something else comes first: the host's address where
    ``address`` is set, else its robots.txt. ``closed`` says why nothing is to be asked and the URL ends at once;
    ``slow`` whether the lease is one of those that slow hosts share."""

    host: Host
    slot: bytes
    entry: Entry | None
    taken_at: float
    closed: HostClosed | None = None
    slow: bool = False
    address: bool = False

    @property
    def entered(self) -> bool:
        """Whether the lease holds a place of the gate."""
        return self.closed is None and not self.address
