"""Leases, and the ways in which they end."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from crawler.frontier.entry import Entry
from crawler.frontier.host import Host
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.request_outcome import ANSWERED as ANSWER
from crawler.frontier.request_outcome import HostResult, RequestOutcome
from crawler.frontier.states import ANSWERED, INSIDE, OUTSIDE, OVER


class Lease(Struct, eq=False):
    """A lease slot of a host.

    ``entry`` is the URL to fetch, or None for a side request: to look up the host's address, or to fetch its
    robots.txt. ``closed`` is set if the URL ends without a request, and gives the reason. ``kind`` is the kind of the
    host (``slot_share``) when the lease started. ``state`` is described in ``states``. ``lent`` is True while the visit
    only waits and others may use its slot. ``beside`` is True for a request of a page being rendered; other requests to
    the host may run concurrently.
    """

    host: Host
    slot: bytes
    entry: Entry | None
    taken_at: float
    closed: HostClosed | None = None
    kind: int = 0
    state: int = INSIDE
    lent: bool = False
    beside: bool = False

    @property
    def is_alone(self) -> bool:
        """True if no other request to the host may run concurrently."""
        return self.entry is None and not self.beside

    @property
    def address(self) -> bool:
        """True if the lease is for an address lookup, or has no place at the gate yet."""
        return self.state == OUTSIDE

    @property
    def left(self) -> bool:
        """True if the request of the lease has ended."""
        return self.state in (ANSWERED, OVER)


class Done(NamedTuple):
    """The URL is done.

    ``request`` is None if no request was made because robots.txt or a limit refused the URL; the gap then does not
    restart. A ``failed`` URL counts as a failure of the host; an ``excluded`` one is not counted. ``result`` is its
    result for the host. ``needs_scripts`` lists the signs that the page needs scripts; None if it is not a page of the
    site.
    """

    request: RequestOutcome | None = ANSWER
    failed: bool = False
    excluded: bool = False
    result: HostResult = HostResult.PAGE
    needs_scripts: tuple[str, ...] | None = None


class Retry(Struct, frozen=True):
    """The URL returns to its host's queue as ``entry``, for a try at least ``wait`` seconds from now."""

    entry: Entry
    wait: float
    request: RequestOutcome = ANSWER


class Throttled(NamedTuple):
    """The host responded with 429 or 503, and the whole host is held.

    ``entry`` is the URL's next try, or None if the URL has no tries left and is done.
    """

    entry: Entry | None
    request: RequestOutcome


class RobotsKnown(Struct, frozen=True):
    """The host's robots.txt was fetched, or the crawler gave up on it.

    The rules apply until the time ``until``, in seconds since 1970. ``closed`` is the reason if the host gets no
    requests before then.
    """

    until: float
    crawl_delay: float | None
    request: RequestOutcome = ANSWER
    closed: HostClosed | None = None


class RobotsLater(Struct, frozen=True):
    """The fetch of robots.txt failed: the host is held, and the fetch is repeated after ``wait`` seconds.

    ``counts`` is True if this counts as one of its tries.
    """

    wait: float
    request: RequestOutcome = ANSWER
    counts: bool = True


class AddressKnown(Struct, frozen=True):
    """The ``address`` of the host was looked up. If the lookup failed, it is None and the host becomes its own group.

    No request was made to the host.
    """

    address: str | None


class SideRequestDone(Struct, frozen=True):
    """A request without a queued URL has ended: an ad-hoc lease, or one whose host must not be requested.

    ``request`` is None if no request was made.
    """

    request: RequestOutcome | None = ANSWER


class TakenBack(Struct, frozen=True):
    """A request was made during an outage of our own network, so its outcome does not count for the host.

    The gap of the host starts. The URL becomes the host's next one again, and this try is not counted.
    """


Completion = Done | Retry | Throttled | RobotsKnown | RobotsLater | AddressKnown | SideRequestDone | TakenBack
