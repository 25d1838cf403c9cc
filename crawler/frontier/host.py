"""One host: its back queue, its politeness state, and its place.

    Host
      queue        BackQueue    its entries on disk, and the window of them in memory
      politeness   Politeness   when it may be requested next, and the deciding rule
      failures     Failures     its failures since its last response
      tally        Tally        counts of its requests and their outcomes

The host's *record* is the part that outlives the process. It is written in the same batch as every change of the queue,
so that its counts always match the entries on disk. Times are seconds since 1970 on the job's steady clock.

A million hosts may be known, but only a bounded number is in memory (``working_set``), at about a kilobyte each.
``Failures`` is immutable, so that all hosts that never failed share one object.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import msgspec.msgpack
from msgspec import Meta, Struct, field

from crawler.base.settings.parts import CLASSES
from crawler.frontier.entry import (
    FRESH_END,
    FRESH_SLOT_SIZE,
    FRESH_START,
    RETRY_LANE,
    RETRY_START,
    REVISIT_START,
    Entry,
)
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import FailureClass, HostResult
from crawler.frontier.states import IDLE

_VERSION = 4
_CLASS_AT = 1  # in a slot of the fresh lane
GROWTH = 30  # finished URLs over which the growth of a queue is measured
DEEP = 20  # links from a seed; few real sites are this deep, unlike sites that generate links
_Count = Annotated[int, Meta(ge=0)]


class HostRecordError(ValueError):
    """Raised when stored bytes are not a host record of a known version."""


class RevisitLane(Struct, eq=False):
    """The waiting revisits of one host. ``window``, ``cursor`` and ``complete`` have the same meaning as in
    ``BackQueue``.

    ``turns`` counts URLs taken from the fresh lane. The count is not stored; after a restart it starts at the number of
    finished URLs, so that the sequence of turns continues.
    """

    turns: int
    cursor: bytes = REVISIT_START
    complete: bool = False
    window: list[bytes] = field(default_factory=list)


class BackQueue(Struct, eq=False):
    """The state of one host's queue (``queues`` operates on it).

    ``size`` and ``retry_size`` count entries on disk, including those in flight. ``taken`` entries are in flight,
    ``retries_waiting`` wait in the retry lane. ``window`` holds the next rows of the fresh lane, each as slot and value
    concatenated. ``complete`` is True if the window holds all waiting rows of that lane; otherwise the remaining rows
    are at or after ``cursor``. ``revisits`` is None if no revisits wait.
    """

    size: int = 0
    retry_size: int = 0
    cursor: bytes = FRESH_START
    retries_waiting: int = 0
    complete: bool = True
    taken: int = 0
    retry_at: float = 0.0
    retry_class: int = 0  # class of the first waiting retry
    retry_cursor: bytes = RETRY_START
    # A list, not a deque: shifting 16 entries is cheap, and an empty deque takes 600 bytes per host.
    window: list[bytes] = field(default_factory=list)
    out: set[bytes] | None = None  # slots of entries in flight; None instead of an empty set
    revisits: RevisitLane | None = None

    @property
    def queued(self) -> int:
        """Number of waiting entries, including retries."""
        return self.size - self.taken

    @property
    def immediate(self) -> int:
        """Number of entries that wait only for the host's next permitted request."""
        return self.size - self.taken - self.retries_waiting

    @property
    def only_retries(self) -> bool:
        """True if only retries wait."""
        return self.retries_waiting > 0 and not self.immediate

    @property
    def front(self) -> int:
        """The class of the next first visit, or of a URL that a user wants now.

        If the entry is not in memory, this is the class at the cursor, which may be earlier than that of the entry.
        """
        if self.retries_waiting and not self.retry_at:
            return self.retry_class
        if self.window:
            return self.window[0][_CLASS_AT]
        if self.immediate:
            return min(self.cursor[_CLASS_AT], CLASSES - 1) if len(self.cursor) > _CLASS_AT else 0
        return self.retry_class

    @property
    def first(self) -> bytes:
        """A lower bound on the slots of first visits that wait in the fresh lane; exact while any of their rows is in
        memory."""
        return self.window[0][:FRESH_SLOT_SIZE] if self.window else FRESH_END if self.complete else self.cursor

    @property
    def bound(self) -> bytes:
        """A lower bound of the slots in the fresh lane, including those in flight."""
        first, revisits = self.first, self.revisits
        if revisits is not None and first > REVISIT_START:
            first = revisits.window[0][:FRESH_SLOT_SIZE] if revisits.window else revisits.cursor
        if not self.out:
            return first
        least = min(self.out)
        if least[0] == RETRY_LANE:  # rare
            least = min((slot for slot in self.out if slot[0] != RETRY_LANE), default=FRESH_END)
        return min(first, least)


class Politeness(Struct, eq=False, array_like=True):
    """Tells whether and when a host may be requested next, and which rule decides it."""

    next_time: float = 0.0
    last_request: float = 0.0
    hold_reason: HoldReason = HoldReason.NONE
    crawl_delay: float | None = None
    latency: float | None = None  # smoothed response time in seconds
    robots_until: float = 0.0
    robots_tries: _Count = 0
    address: str | None = None  # the last known IP address, if politeness requires it
    paused: bool = False
    blocked: bool = False
    signed: bool = False  # True if the host asks for signed requests


class Failures(NamedTuple):
    """The failures of a host since its last response."""

    in_a_row: _Count = 0  # consecutive requests without a response
    snoozes: _Count = 0  # consecutive snoozes without a response in between
    backoff: _Count = 0  # 429 or 503 responses in a row
    last: FailureClass | None = None
    retired: bool = False
    failed_at: float = 0.0  # time at which the last failure was counted
    throttled_at: float = 0.0  # when the last 429 or 503 was counted
    server_errors: _Count = 0  # consecutive 5xx responses other than 503; reset when a request has no response
    erred_at: float = 0.0  # when the last of these 5xx responses was received


NO_FAILURES = Failures()


class Tally(Struct, eq=False, array_like=True):
    """Counts of a host's requests and their outcomes."""

    fetched: _Count = 0
    failed: _Count = 0
    size_read: _Count = 0  # total bytes of bodies
    seconds: float = 0.0  # total duration of all requests
    errors: dict[FailureClass, _Count] | None = None  # failures of all tries; None if it never failed
    opic_score: Annotated[float, Meta(ge=0)] = 0.0  # importance from links, not yet passed on by its pages
    result: HostResult = HostResult.NOTHING  # the best result of its finished URLs
    pages: _Count = 0  # visits of HTML pages with a success status
    scripted: _Count = 0  # number of these pages that showed signs of needing scripts


class Growth(Struct, eq=False):
    """Tells whether the queue of a host grows. Not stored."""

    grows: bool = False  # True if the queue recently grew as fast as it was read
    deep: str = ""  # the URL finished when growth was last measured, if it was far from the seeds
    finished: int = 0  # URLs finished in this run
    peak: int = 0  # maximum size of the queue since growth was last measured


class DomainTally(Struct, eq=False):
    """Counts of the requests to all hosts of a registrable domain. Not stored, unlike the counts of each host."""

    name: str
    fetched: int = 0
    leased: int = 0  # lease slots in use


class Host(Struct, eq=False):
    """The working state of one host."""

    name: str
    queue: BackQueue = field(default_factory=BackQueue)
    politeness: Politeness = field(default_factory=Politeness)
    failures: Failures = NO_FAILURES
    tally: Tally = field(default_factory=Tally)
    growth: Growth = field(default_factory=Growth)

    leased: int = 0  # active leases
    answered: int = 0  # leases whose request has ended; they hold no lease slot
    inside: int = 0  # leases that hold a place at the gate
    key: str = ""  # its host key, see ``host_keys``; empty if not determined yet
    located: bool = False  # True if its address was looked up in this run
    robots_unused: bool = False  # True if its robots.txt was fetched for a page that was not requested yet
    side_request: bool = False  # True while a request for its robots.txt or its address is in flight
    waits: bool = False  # True while too many of its pages wait for a browser: nothing queued is handed out
    state: int = IDLE  # see ``states``
    ready: float = 0.0  # when it may be handed out, according to the heap
    place: int = 0  # its place in the schedule: its class, its kind, and whether it is in a session
    kind: int = 1  # quick, new or slow, see ``slot_share``
    session_until: float = 0.0  # when its session ends (seconds since 1970); 0 if it is not in one
    session_pages: int = 0  # URLs handed out in its session
    domain: DomainTally | None = None  # set if domains have budgets
    kept: dict[str, Host] | None = None  # the part of the working set that contains it
    lent_at: float = 0.0  # when the last request without a queued URL ended (seconds since 1970)
    no_page: str | None = None  # why the host, as last stored, counts among those without a page

    @property
    def asked(self) -> int:
        """Number of lease slots in use."""
        return self.leased - self.answered


def count_fetched(host: Host, more: int) -> None:
    """Add to the host's count of responses."""
    host.tally.fetched += more
    if host.domain is not None:
        host.domain.fetched += more


def count_finished(host: Host, entry: Entry | None) -> None:
    """Count a finished URL, and periodically measure the growth of the queue. It grows if it is about as large as it
    was at most since the last measurement."""
    growth, size = host.growth, host.queue.size
    growth.peak = max(growth.peak, size)
    if growth.finished % GROWTH == 0:
        growth.grows = growth.finished > 0 and size >= growth.peak - GROWTH // 10
        growth.deep = entry.href if growth.grows and entry is not None and entry.depth >= DEEP else ""
        growth.peak = size
    growth.finished += 1


_CAUSES = (None, "excluded", "robots", "", "5xx", "429", "4xx", "blocked", None)  # by result; "": by failure class
_CAUSES_OF_FAILURES = {FailureClass.SERVER_ERROR: "5xx", FailureClass.THROTTLED: "429", FailureClass.LOGIN: "blocked"}
_FAILURES = [_CAUSES_OF_FAILURES.get(each, each.word) for each in FailureClass]
NO_PAGE_CAUSES = tuple(dict.fromkeys(filter(None, (*_CAUSES, "robots_unreachable", *_FAILURES))))


def cause_of_no_page(host: Host) -> str | None:
    """Return why all URLs of the host finished without a page; None if the host has sent a page or has URLs left."""
    cause = None if host.queue.size else _CAUSES[host.tally.result]
    if cause != "":
        return cause
    if not host.tally.failed:  # all its URLs are excluded: the errors are those of robots.txt
        return "robots_unreachable"
    errors = host.tally.errors or {FailureClass.OTHER: 1}
    return _FAILURES[max(errors, key=lambda each: (errors[each], -each))]


class StoredHost(NamedTuple):
    """The record of a host. ``cursor`` is a slot at or before its first entry in the fresh lane."""

    politeness: Politeness
    tally: Tally
    size: _Count
    retry_size: _Count
    cursor: bytes
    has_revisits: bool
    failures: Failures | None = None

    @property
    def is_open(self) -> bool:
        """True if the host is not paused, blocked or retired."""
        return not (self.politeness.paused or self.politeness.blocked or (self.failures and self.failures.retired))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Literal[4], StoredHost]).decode


def encode_host(host: Host) -> bytes:
    """Encode the record of a host."""
    queue, failures = host.queue, host.failures
    record = host.politeness, host.tally, queue.size, queue.retry_size, queue.bound, queue.revisits is not None
    return _encode((_VERSION, record if failures is NO_FAILURES else (*record, failures)))


def host_name(key: bytes) -> str:
    """Return the host name in the key of a record; raises HostRecordError."""
    if not key or not key.isascii():
        raise HostRecordError(f"not a host name: {key!r}")
    return key.decode("ascii")


def stored_host(value: bytes) -> StoredHost:
    """Return a stored record; faster than ``decode_host``. Raises HostRecordError."""
    try:
        _, host = _decode(value)
    except msgspec.DecodeError as error:
        raise HostRecordError(f"not a host record of version {_VERSION}: {error}") from error
    if host.politeness.hold_reason > HoldReason.ERRORS:
        host.politeness.hold_reason = HoldReason.GAP  # holds with these reasons are decided again after a restart
    return host


def decode_host(name: str, value: bytes) -> Host:
    """Decode a stored host, with nothing in flight; raises HostRecordError."""
    try:
        politeness, tally, size, retry_size, cursor, has_revisits, failures = stored_host(value)
    except HostRecordError as error:
        raise HostRecordError(f"host {name}: {error}") from error
    crawl_delay, times = politeness.crawl_delay or 0.0, (politeness.next_time, politeness.last_request)
    numbers = (*times, politeness.robots_until, crawl_delay, politeness.latency or 0.0, tally.seconds, tally.opic_score)
    # NaN would break the order of the heap.
    if crawl_delay < 0 or not all(map(math.isfinite, numbers)):
        raise HostRecordError(f"host {name}: its record contains invalid times: {numbers}")
    if not FRESH_START <= cursor <= FRESH_END.ljust(FRESH_SLOT_SIZE, b"\0"):
        raise HostRecordError(f"host {name}: its record contains an invalid cursor: {cursor.hex()}")
    if retry_size > size:
        raise HostRecordError(f"host {name}: its record counts {size} entries, of which {retry_size} wait for a retry")
    queue = BackQueue(size, retry_size, cursor, retry_size, size == retry_size)
    if has_revisits:
        queue.revisits = RevisitLane(tally.fetched + tally.failed, max(cursor, REVISIT_START))
        queue.complete = queue.complete or cursor >= REVISIT_START
    host = Host(name, queue, politeness, failures or NO_FAILURES, tally)
    host.no_page = cause_of_no_page(host)
    return host
