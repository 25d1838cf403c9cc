"""What the frontier hands out, and how it comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crawler.frontier.entry import Entry
from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.request_outcome import ANSWERED, RequestOutcome


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
        """Whether the lease holds a place at the gate."""
        return self.closed is None and not self.address


class Done(NamedTuple):
    """The URL is done. ``request`` is None when its host was not asked (robots.txt or a limit refused it): the gap then
    does not start again. ``failed`` counts it among the host's failures, ``excluded`` not at all."""

    request: RequestOutcome | None = ANSWERED
    failed: bool = False
    excluded: bool = False


class Retry(NamedTuple):
    """The URL goes through its host's queue again, as ``entry``, no earlier than ``wait`` seconds from now."""

    entry: Entry
    wait: float
    request: RequestOutcome = ANSWERED


class Throttled(NamedTuple):
    """The host answered 429 or 503: it is held, all of it. ``entry`` is the URL's next try, or None when it has had all
    of them and is done."""

    entry: Entry | None
    request: RequestOutcome


class RobotsKnown(NamedTuple):
    """The host's robots.txt was answered, or given up: what it says holds ``until`` then."""

    until: float
    crawl_delay: float | None
    request: RequestOutcome = ANSWERED


class RobotsLater(NamedTuple):
    """robots.txt could not be had: the host is held and asked for it again after ``wait`` seconds. ``counts``: that was
    one of its tries."""

    wait: float
    request: RequestOutcome = ANSWERED
    counts: bool = True


class AddressKnown(NamedTuple):
    """The ``address`` that the host answers at; None when it could not be had, the host is then a group of its own. No
    request was made of the host."""

    address: str | None


class SideRequestDone(NamedTuple):
    """A request for which nothing was queued is over (``ad_hoc_lease``)."""

    request: RequestOutcome = ANSWERED


Completion = Done | Retry | Throttled | RobotsKnown | RobotsLater | AddressKnown | SideRequestDone
