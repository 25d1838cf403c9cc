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
    """A lease slot of a host. ``entry`` is the URL to fetch. It is None for a side request: to look up the host's
    address, or to fetch its robots.txt. ``closed`` says why the URL ends without a request. ``kind``: the host's
    (``slot_share``) when the lease began. ``state``: see ``states``. ``lent``: the visit only waits. ``beside``: a
    request of a page that a browser renders; others to the host may be made beside it."""

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
        """Whether nothing else is asked of the host meanwhile."""
        return self.entry is None and not self.beside

    @property
    def address(self) -> bool:
        """Whether the lease has no place at the gate, now or yet."""
        return self.state == OUTSIDE

    @property
    def left(self) -> bool:
        """Whether the request of the lease is over."""
        return self.state in (ANSWERED, OVER)


class Done(NamedTuple):
    """The URL is done. ``request`` is None if no request was made because robots.txt or a limit refused the URL; the
    gap then does not start again. A ``failed`` URL counts as a failure of the host; an ``excluded`` one is not
    counted. ``result``: what it means for the host. ``needs_scripts``: the signs that the page does; None
    if it is no page of the site."""

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
    """The host answered 429 or 503, and the whole host is held. ``entry`` is the URL's next try; None if it has no
    tries left and is done."""

    entry: Entry | None
    request: RequestOutcome


class RobotsKnown(Struct, frozen=True):
    """robots.txt of the host was fetched, or the crawler gave up on it. The rules hold ``until`` that time, in seconds
    since 1970. ``closed``: why the host is asked for nothing before then."""

    until: float
    crawl_delay: float | None
    request: RequestOutcome = ANSWER
    closed: HostClosed | None = None


class RobotsLater(Struct, frozen=True):
    """The fetch of robots.txt failed: the host is held, and the fetch is repeated after ``wait`` seconds. ``counts``:
    this was one of its tries."""

    wait: float
    request: RequestOutcome = ANSWER
    counts: bool = True


class AddressKnown(Struct, frozen=True):
    """The ``address`` of the host was looked up. None: the lookup failed, and the host becomes a group of its own. No
    request was made to the host."""

    address: str | None


class SideRequestDone(Struct, frozen=True):
    """A request without a queued URL has ended: an ad-hoc lease, or one whose host must not be asked. ``request`` is
    None if no request was made."""

    request: RequestOutcome | None = ANSWER


class TakenBack(Struct, frozen=True):
    """A request was made, and what came of it says nothing about its host, because our own line was down. The gap of
    the host begins; the URL is its next one again, with the tries that it had."""


Completion = Done | Retry | Throttled | RobotsKnown | RobotsLater | AddressKnown | SideRequestDone | TakenBack
