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
import struct
from typing import NamedTuple

from msgspec import Struct, field

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

_RECORD = struct.Struct("<BBBBBBBBQQddddQQQdd18sdBB")
_COUNT = struct.Struct("<BI")
_PAGES = struct.Struct("<II")  # at the end of a record, if the host has given pages
_VERSION = 3
_NOT_KNOWN = -1.0
_BYTE_MAX = 255
_CLASS_AT, _NUMBER_AT = 1, 10  # offsets in a slot of the fresh lane
_COUNT_MAX = 2**32 - 1
PAUSED, BLOCKED, RETIRED, _REVISITS = 1, 2, 4, 8  # flags of a record
_CLOSED = PAUSED | BLOCKED | RETIRED
_FLAGS = _CLOSED | _REVISITS
_RESULT_SHIFT = 4  # the upper half of the flags is the host's result
_RESULTS = tuple(HostResult)
_NO_FAILURE = 255
_SIGNED = 128  # in the byte of robots_tries
GROWTH = 30  # finished URLs over which the growth of a queue is measured
DEEP = 20  # links from a seed; few real sites are this deep, unlike sites that generate links
# Holds that are decided again after a restart are stored as a gap.
_STORED_REASONS = {reason: reason if reason <= HoldReason.ERRORS else HoldReason.GAP for reason in HoldReason}
_REASONS = {int(reason): reason for reason in HoldReason}  # by number: faster than calling the enumeration


class HostRecordError(ValueError):
    """Raised when stored bytes are not a host record of a known version."""


class RevisitLane(Struct, eq=False):
    """The waiting revisits of one host. ``window``, ``cursor`` and ``complete`` are like those of its queue.

    ``turns`` counts URLs taken from the fresh lane. It is not stored; after a restart it starts at the number of
    finished URLs, so that the sequence continues.
    """

    turns: int
    cursor: bytes = REVISIT_START
    complete: bool = False
    window: list[bytes] = field(default_factory=list)


class BackQueue(Struct, eq=False):
    """The state of one host's queue (``queues`` operates on it).

    ``size`` and ``retry_size`` count entries on disk, including those in flight. ``taken`` entries are in flight,
    ``retries_waiting`` wait in the retry lane. ``window`` holds the next rows of the fresh lane, each as slot and value
    concatenated. ``complete`` is True if the window holds all waiting rows of that lane; otherwise the others are at or
    after ``cursor``. ``revisits`` is None if none wait, and then the window does not hold any.
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

        If it is not in memory, this is the class at the cursor, which may be earlier than the entry's own.
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
        """A lower bound of the first visits waiting in the fresh lane; exact while a row is in memory."""
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


class Politeness(Struct, eq=False):
    """Whether and when a host may be requested next, and the deciding rule."""

    next_time: float = 0.0
    last_request: float = 0.0
    hold_reason: HoldReason = HoldReason.NONE
    crawl_delay: float | None = None
    latency: float | None = None  # seconds, smoothed
    robots_until: float = 0.0
    robots_tries: int = 0
    address: str | None = None  # the last known IP address, if politeness requires it
    paused: bool = False
    blocked: bool = False
    located: bool = False  # its address was looked up in this run; not stored
    signed: bool = False  # it asks for signed requests
    robots_unused: bool = False  # its robots.txt was fetched for a page that was not requested yet; not stored


class Failures(NamedTuple):
    """The failures of a host since its last response."""

    in_a_row: int = 0  # requests without a response
    snoozes: int = 0  # consecutive snoozes without a response in between
    backoff: int = 0  # 429 or 503 responses in a row
    last: FailureClass | None = None
    retired: bool = False
    failed_at: float = 0.0  # when the last failure was counted; not stored
    throttled_at: float = 0.0  # when the last 429 or 503 was counted; not stored
    server_errors: int = 0  # consecutive 5xx responses other than 503; reset when a request has no response
    erred_at: float = 0.0  # when the last of them was received; not stored


NO_FAILURES = Failures()


class Tally(Struct, eq=False):
    """Counts of a host's requests and their outcomes."""

    fetched: int = 0
    failed: int = 0
    size_read: int = 0  # bytes of bodies
    seconds: float = 0.0  # total of all requests
    errors: dict[FailureClass, int] | None = None  # failures of all tries; None if it never failed
    opic_score: float = 0.0  # importance received from links and not yet passed on by its pages
    result: HostResult = HostResult.NOTHING  # the best result of its finished URLs
    pages: int = 0  # visits of HTML pages with a success status
    scripted: int = 0  # those of them that showed signs of needing scripts
    # Not stored:
    grows: bool = False  # True if the queue recently grew as fast as it was read
    deep: str = ""  # the last URL of that period, if it was far from the seeds
    finished: int = 0  # URLs finished in this run
    size_then: int = 0  # size of the queue when growth was last measured


class DomainTally(Struct, eq=False):
    """Counts of the requests to all hosts of a registrable domain. Not stored; the counts of each host are."""

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

    leased: int = 0  # active leases
    answered: int = 0  # leases whose request has ended; they hold no lease slot
    inside: int = 0  # leases that hold a place at the gate
    key: str = ""  # its host key, see ``host_keys``; empty if not determined yet
    side_request: bool = False  # a request for its robots.txt or its address is in flight
    waits: bool = False  # True while too many of its pages wait for a browser: nothing queued is handed out
    state: int = IDLE  # see ``states``
    ready: float = 0.0  # when it may be handed out, according to the heap
    place: int = 0  # in the schedule: its class, its kind, and whether it is in a session
    kind: int = 1  # quick, new or slow, see ``slot_share``
    session_until: float = 0.0  # when its session ends (seconds since 1970); 0 if it is not in one
    session_pages: int = 0  # URLs handed out in its session
    domain: DomainTally | None = None  # set if domains have budgets
    kept: dict[str, Host] | None = None  # the part of the working set that contains it
    lent_at: float = 0.0  # when the last request without a queued URL ended (seconds since 1970)
    no_page: str | None = None  # the cause under which its stored record counts as a host without a page

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
    """Count a finished URL, and periodically measure the growth of the queue."""
    tally, size = host.tally, host.queue.size
    if tally.finished % GROWTH == 0:
        tally.grows = tally.finished > 0 and size >= tally.size_then - GROWTH // 10
        tally.deep = entry.href if tally.grows and entry is not None and entry.depth >= DEEP else ""
        tally.size_then = size
    tally.finished += 1


_CAUSES = (None, "excluded", "robots", "", "5xx", "429", "4xx", "blocked", None)  # by result; "": use the failure class
_CAUSES_OF_FAILURES = {FailureClass.SERVER_ERROR: "5xx", FailureClass.THROTTLED: "429", FailureClass.LOGIN: "blocked"}
_FAILURES = [_CAUSES_OF_FAILURES.get(each, each.word) for each in FailureClass]
NO_PAGE_CAUSES = tuple(dict.fromkeys(filter(None, (*_CAUSES, *_FAILURES))))


def cause_of_no_page(host: Host) -> str | None:
    """Return why all URLs of the host finished without a page; None if it has given one or has URLs left."""
    cause = None if host.queue.size else _CAUSES[host.tally.result]
    if cause != "":
        return cause
    errors = host.tally.errors or {FailureClass.OTHER: 1}
    return _FAILURES[max(errors, key=lambda each: (errors[each], -each))]


def encode_host(host: Host) -> bytes:
    """Encode the record of a host."""
    queue, politeness, tally = host.queue, host.politeness, host.tally
    in_a_row, snoozes, backoff, last, retired, _, _, server_errors, *_ = host.failures
    if server_errors and last is None:  # a responding host has no snoozes
        snoozes, last = server_errors, FailureClass.SERVER_ERROR
    errors = tally.errors or {}
    address = (politeness.address or "").encode("ascii")
    head = _RECORD.pack(
        _VERSION,
        _STORED_REASONS[politeness.hold_reason],
        backoff if backoff < _BYTE_MAX else _BYTE_MAX,  # four calls of min() would cost as much as everything else here
        (politeness.robots_tries if politeness.robots_tries < _SIGNED else _SIGNED - 1) | _SIGNED * politeness.signed,
        PAUSED * politeness.paused
        | BLOCKED * politeness.blocked
        | RETIRED * retired
        | (0 if queue.revisits is None else _REVISITS)
        | tally.result << _RESULT_SHIFT,
        in_a_row if in_a_row < _BYTE_MAX else _BYTE_MAX,
        snoozes if snoozes < _BYTE_MAX else _BYTE_MAX,
        _NO_FAILURE if last is None else last,
        queue.size,
        queue.retry_size,
        politeness.next_time,
        politeness.last_request,
        _NOT_KNOWN if politeness.crawl_delay is None else politeness.crawl_delay,
        politeness.robots_until,
        tally.fetched,
        tally.failed,
        tally.size_read,
        tally.seconds,
        _NOT_KNOWN if politeness.latency is None else politeness.latency,
        queue.bound,
        tally.opic_score,
        len(address),
        len(errors),
    )
    pages = _PAGES.pack(min(tally.pages, _COUNT_MAX), min(tally.scripted, _COUNT_MAX)) if tally.pages else b""
    if not errors and not address:
        return head + pages
    counts = [_COUNT.pack(failure, min(count, _COUNT_MAX)) for failure, count in sorted(errors.items())]
    return b"".join((head, address, *counts, pages))


def host_name(key: bytes) -> str:
    """Return the host name in the key of a record; raises HostRecordError."""
    if not key or not key.isascii():
        raise HostRecordError(f"not a host name: {key!r}")
    return key.decode("ascii")


class StoredHost(NamedTuple):
    """The fields of a stored record before its address and its errors. Unknown numbers are negative.

    ``flags`` combines PAUSED, BLOCKED and RETIRED with others.
    """

    version: int
    reason: int
    backoff: int
    robots_tries: int
    flags: int
    in_a_row: int
    snoozes: int
    last: int
    size: int
    retry_size: int
    next_time: float
    last_request: float
    crawl_delay: float
    robots_until: float
    fetched: int
    failed: int
    size_read: int
    seconds: float
    latency: float
    cursor: bytes
    opic_score: float
    address_size: int
    error_count: int

    @property
    def is_open(self) -> bool:
        """True if the host is not paused, blocked or retired."""
        return not self.flags & _CLOSED


def stored_host(value: bytes) -> StoredHost:
    """Return the fields of a stored record, at a fifth of the cost of decoding it. Raises HostRecordError."""
    if len(value) < _RECORD.size or value[0] != _VERSION:
        raise HostRecordError(f"a host record of {len(value)} bytes, version {value[:1].hex() or 'none'}")
    return StoredHost._make(_RECORD.unpack_from(value))


def pages_of(value: bytes) -> tuple[int, ...]:
    """Return the number of a host's pages, and of those with signs of needing scripts, from its stored record."""
    address_size, error_count = value[_RECORD.size - 2 : _RECORD.size]
    end = _RECORD.size + address_size + error_count * _COUNT.size
    return _PAGES.unpack_from(value, end) if len(value) > end else (0, 0)


def decode_host(name: str, value: bytes) -> Host:
    """Decode a stored host, with nothing in flight; raises HostRecordError."""
    if not value or value[0] != _VERSION:
        raise HostRecordError(f"host {name}: a record of version {value[:1].hex() or 'none'}, not {_VERSION}")
    try:
        fields = _RECORD.unpack_from(value)
        _, reason, backoff, robots_tries, flags, in_a_row, snoozes, last = fields[:8]
        size, retry_size, next_time, last_request, crawl_delay, robots_until = fields[8:14]
        fetched, failed, size_read, seconds, latency, cursor, opic_score, address_size, error_count = fields[14:]
        if flags >> _RESULT_SHIFT >= len(_RESULTS):
            raise ValueError(f"flags {flags:#x}")
        held = _REASONS.get(reason) or HoldReason(reason)
        failures = NO_FAILURES
        if in_a_row or snoozes or backoff or last != _NO_FAILURE or flags & RETIRED:
            failures = _failures(in_a_row, snoozes, backoff, last, retired=bool(flags & RETIRED))
        address, errors = _tail(value, address_size, error_count)
        # NaN would break the order of the heap. The sum is finite only if each number is.
        times = (next_time, last_request, crawl_delay, robots_until, seconds, latency, opic_score)
        if not math.isfinite(sum(times)) and not all(map(math.isfinite, times)):
            raise ValueError("a number is not finite")
        if opic_score < 0 or not FRESH_START <= cursor <= FRESH_END.ljust(FRESH_SLOT_SIZE, b"\0"):
            raise ValueError(f"OPIC score {opic_score}, cursor {cursor.hex()}")
        if retry_size > size:
            raise ValueError(f"{retry_size} of {size} entries wait for a retry")
    except (struct.error, ValueError) as error:
        raise HostRecordError(f"host {name}: not a host record: {error}") from error
    queue = BackQueue(size, retry_size, cursor, retry_size, size == retry_size)
    if flags & _REVISITS:
        queue.revisits = RevisitLane(fetched + failed, max(cursor, REVISIT_START))
        queue.complete = queue.complete or cursor >= REVISIT_START
    # `or 0.0` shares this module's zero, which saves 24 bytes per host.
    host = Host(
        name,
        queue,
        Politeness(
            next_time,
            last_request,
            held,
            None if crawl_delay < 0 else crawl_delay,
            None if latency < 0 else latency,
            robots_until or 0.0,
            robots_tries % _SIGNED,
            address or None,
            bool(flags & PAUSED),
            bool(flags & BLOCKED),
            signed=robots_tries >= _SIGNED,
        ),
        failures,
        Tally(fetched, failed, size_read, seconds or 0.0, errors or None, opic_score or 0.0),
    )
    host.tally.result = _RESULTS[flags >> _RESULT_SHIFT]
    host.tally.pages, host.tally.scripted = pages_of(value)
    host.no_page = cause_of_no_page(host)
    return host


def _failures(in_a_row: int, snoozes: int, backoff: int, last: int, *, retired: bool) -> Failures:
    """Return the failures of a stored record. Raises ValueError."""
    if last == _NO_FAILURE:
        return Failures(in_a_row, snoozes, backoff, None, retired)
    if last == FailureClass.SERVER_ERROR:
        return Failures(in_a_row, 0, backoff, None, retired, server_errors=snoozes)
    return Failures(in_a_row, snoozes, backoff, FailureClass(last), retired)


def _tail(value: bytes, address_size: int, error_count: int) -> tuple[str, dict[FailureClass, int]]:
    """Decode the end of a stored record: the address and the errors. Raises ValueError and struct.error."""
    at = _RECORD.size + address_size
    end = at + error_count * _COUNT.size
    if len(value) not in (end, end + _PAGES.size):
        raise ValueError(f"{len(value)} bytes")
    errors = {FailureClass(failure): count for failure, count in _COUNT.iter_unpack(value[at:end])}
    if len(errors) != error_count:
        raise ValueError("a failure class occurs twice")
    return value[_RECORD.size : at].decode("ascii"), errors
