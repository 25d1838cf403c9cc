"""One host: its back queue, its lease slots, and when it may be asked next.

What must outlive the process is the ``HostRecord``, written in the same batch as every change of the queue, so that
the counts are always those of the entries on disk. Times are seconds since 1970 on the job's steady clock.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

from crawler.frontier.entry import FRESH_END, FRESH_SLOT_SIZE, FRESH_START, RETRY_LANE, RETRY_START
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import FailureClass

_RECORD = struct.Struct("<BBBBBBBBQQddddQQQdd18sdBB")
_HEAD = struct.Struct("<BBBBBBBBQQd")  # its first fields
_COUNT = struct.Struct("<BI")
_VERSION = 3
_NOT_KNOWN = -1.0
_BYTE_MAX = 255
_CLASS_AT = 1  # in a slot of the fresh lane
_COUNT_MAX = 2**32 - 1
_PAUSED, _BLOCKED, _RETIRED = 1, 2, 4
_FLAGS = _PAUSED | _BLOCKED | _RETIRED
_NO_FAILURE = 255
_REASONS = tuple(HoldReason)  # by their numbers: to ask the enumeration takes longer than all else of a record's fields


class HostRecordError(ValueError):
    """Stored bytes that are no host record of a known version."""


@dataclass(slots=True, eq=False)
class Host:
    """The working state of one host.

    ``size`` and ``retry_size`` count entries on disk, those in flight among them. ``taken`` of them are in flight,
    ``retries_waiting`` lie in the retry lane. ``buffer`` holds the next rows of the fresh lane, slot and value in one;
    ``complete`` says that no other of that lane waits, and if some do they stand at ``cursor`` or behind it.
    ``opic_score`` is the importance that links have brought the host and its pages have not handed on.
    """

    name: str
    size: int = 0
    retry_size: int = 0
    next_time: float = 0.0
    last_request: float = 0.0
    hold_reason: HoldReason = HoldReason.NONE
    crawl_delay: float | None = None
    backoff: int = 0
    robots_until: float = 0.0
    robots_tries: int = 0
    fetched: int = 0
    failed: int = 0
    size_read: int = 0  # bytes of bodies
    seconds: float = 0.0  # of all requests together
    latency: float | None = None  # seconds, smoothed
    failures_in_a_row: int = 0  # requests without an answer
    snoozes: int = 0  # in a row, without an answer since
    last_failure: FailureClass | None = None  # None after an answer
    errors: dict[FailureClass, int] | None = None  # failures of all tries; None where there never was one
    address: str | None = None  # the last one known, where hosts are grouped by it
    paused: bool = False
    blocked: bool = False
    retired: bool = False
    opic_score: float = 0.0

    leased: int = 0
    taken: int = 0
    retries_waiting: int = 0
    retry_at: float = 0.0
    side_request: bool = False  # its robots.txt or its address is being asked for
    in_line: bool = False  # in a line at the gate
    located: bool = False  # its address was asked for in this run
    retry_class: int = 0  # of the first retry that waits
    on_heap: bool = False
    ready: float = 0.0
    place: int = 0  # the class under which it stands on the heap
    kept: dict[str, Host] | None = None  # the part of the working set that it stands in
    throttled_at: float = 0.0
    failed_at: float = 0.0
    # A list, not a deque: sixteen entries are shifted in no time, and an empty deque is 600 bytes a host.
    buffer: list[bytes] = field(default_factory=list)
    complete: bool = True
    cursor: bytes = FRESH_START
    retry_cursor: bytes = RETRY_START
    out: set[bytes] | None = None  # slots of entries in flight; None where there are none

    @property
    def queued(self) -> int:
        """Entries that wait, those for a retry included."""
        return self.size - self.taken

    @property
    def immediate(self) -> int:
        """Entries that wait for nothing but the host's own next time."""
        return self.size - self.taken - self.retries_waiting

    @property
    def idle(self) -> bool:
        """Nothing queued and nothing in flight."""
        return self.size == 0 and self.leased == 0

    @property
    def front(self) -> int:
        """The class of the next entry. Where that is not in memory it is the class at the cursor: the entry's own, or
        one that goes before it."""
        if self.buffer:
            return self.buffer[0][_CLASS_AT]
        if self.immediate:
            return self.cursor[_CLASS_AT] if len(self.cursor) > _CLASS_AT else 0
        return self.retry_class

    @property
    def bound(self) -> bytes:
        """A slot before which no entry of the fresh lane stands, those in flight among them."""
        first = self.buffer[0][:FRESH_SLOT_SIZE] if self.buffer else FRESH_END if self.complete else self.cursor
        if self.out:
            return min(first, *(slot for slot in self.out if slot[0] != RETRY_LANE), FRESH_END)
        return first


def encode_host(host: Host) -> bytes:
    """The stored record of a host."""
    flags = _PAUSED * host.paused | _BLOCKED * host.blocked | _RETIRED * host.retired
    errors = host.errors or {}
    address = (host.address or "").encode("ascii")
    head = _RECORD.pack(
        _VERSION,
        host.hold_reason,
        host.backoff if host.backoff < _BYTE_MAX else _BYTE_MAX,  # four calls of min() take as long as all the rest
        host.robots_tries if host.robots_tries < _BYTE_MAX else _BYTE_MAX,
        flags,
        host.failures_in_a_row if host.failures_in_a_row < _BYTE_MAX else _BYTE_MAX,
        host.snoozes if host.snoozes < _BYTE_MAX else _BYTE_MAX,
        _NO_FAILURE if host.last_failure is None else host.last_failure,
        host.size,
        host.retry_size,
        host.next_time,
        host.last_request,
        _NOT_KNOWN if host.crawl_delay is None else host.crawl_delay,
        host.robots_until,
        host.fetched,
        host.failed,
        host.size_read,
        host.seconds,
        _NOT_KNOWN if host.latency is None else host.latency,
        host.bound,
        host.opic_score,
        len(address),
        len(errors),
    )
    if not errors and not address:
        return head
    counts = [_COUNT.pack(failure, min(count, _COUNT_MAX)) for failure, count in sorted(errors.items())]
    return b"".join((head, address, *counts))


def host_name(key: bytes) -> str:
    """The name of the host that a record is stored under; raises HostRecordError."""
    if not key or not key.isascii():
        raise HostRecordError(f"no name of a host: {key!r}")
    return key.decode("ascii")


def glance(value: bytes) -> tuple[int, int, int, float]:
    """(reason, flags, size, next time) of a stored record: a tenth of what it costs to decode one. The flags are 0 for
    a host that is neither paused nor blocked nor retired. Raises HostRecordError."""
    if len(value) < _RECORD.size or value[0] != _VERSION:
        raise HostRecordError(f"a host record of {len(value)} bytes, version {value[:1].hex() or 'none'}")
    _, reason, _, _, flags, _, _, _, size, _, next_time = _HEAD.unpack_from(value)
    return reason, flags, size, next_time


def decode_host(name: str, value: bytes) -> Host:
    """The host as it was stored, nothing in flight; raises HostRecordError."""
    if not value or value[0] != _VERSION:
        raise HostRecordError(f"host {name}: a record of version {value[:1].hex() or 'none'}, not {_VERSION}")
    try:
        (
            _,
            reason,
            backoff,
            robots_tries,
            flags,
            failures_in_a_row,
            snoozes,
            failure,
            size,
            retry_size,
            next_time,
            last_request,
            crawl_delay,
            robots_until,
            fetched,
            failed,
            size_read,
            seconds,
            latency,
            cursor,
            opic_score,
            address_size,
            error_count,
        ) = _RECORD.unpack_from(value)
        known_reason = _REASONS[reason] if reason < len(_REASONS) else HoldReason(reason)
        known_failure = None if failure == _NO_FAILURE else FailureClass(failure)
        if flags & ~_FLAGS:
            raise ValueError(f"flags {flags:#x}")
        address, errors = _tail(value, address_size, error_count)
    except (struct.error, ValueError) as error:
        raise HostRecordError(f"host {name}: not a host record: {error}") from error
    # A time that is no number would leave the heap without an order. The sum of all is a number if each is one.
    times = (next_time, last_request, crawl_delay, robots_until, seconds, latency, opic_score)
    if not math.isfinite(sum(times)) and not all(map(math.isfinite, times)):
        raise HostRecordError(f"host {name}: not a host record: a time that is no number")
    if opic_score < 0 or not FRESH_START <= cursor <= FRESH_END.ljust(FRESH_SLOT_SIZE, b"\0"):
        raise HostRecordError(f"host {name}: not a host record: OPIC score {opic_score}, cursor {cursor.hex()}")
    if retry_size > size:
        raise HostRecordError(f"host {name}: not a host record: {retry_size} of {size} entries wait for a retry")
    # `or 0.0`: the zero of this module instead of one of its own, 24 bytes less for each host.
    return Host(
        name=name,
        size=size,
        retry_size=retry_size,
        next_time=next_time,
        last_request=last_request,
        hold_reason=known_reason,
        crawl_delay=None if crawl_delay < 0 else crawl_delay,
        backoff=backoff,
        robots_until=robots_until or 0.0,
        robots_tries=robots_tries,
        fetched=fetched,
        failed=failed,
        size_read=size_read,
        seconds=seconds or 0.0,
        latency=None if latency < 0 else latency,
        failures_in_a_row=failures_in_a_row,
        snoozes=snoozes,
        last_failure=known_failure,
        errors=errors or None,
        address=address or None,
        paused=bool(flags & _PAUSED),
        blocked=bool(flags & _BLOCKED),
        retired=bool(flags & _RETIRED),
        opic_score=opic_score or 0.0,
        cursor=cursor,
        retries_waiting=retry_size,
        complete=size == retry_size,
    )


def _tail(value: bytes, address_size: int, error_count: int) -> tuple[str, dict[FailureClass, int]]:
    """Raises ValueError and struct.error."""
    at = _RECORD.size + address_size
    if len(value) == _RECORD.size and not (address_size or error_count):
        return "", {}
    if len(value) != at + error_count * _COUNT.size:
        raise ValueError(f"{len(value)} bytes")
    errors = {FailureClass(failure): count for failure, count in _COUNT.iter_unpack(value[at:])}
    if len(errors) != error_count:
        raise ValueError("a class of failure that stands twice")
    return value[_RECORD.size : at].decode("ascii"), errors
