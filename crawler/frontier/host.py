"""One host: its back queue, its lease slots, and when it may be asked next.

What must outlive the process is the ``HostRecord``, written in the same batch as every change of the queue, so that
the counts are always those of the entries on disk. Times are seconds since 1970 on the job's steady clock.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

from crawler.frontier.entry import FRESH_START, RETRY_START, Entry
from crawler.frontier.politeness import Rule

_RECORD = struct.Struct("<BBBBQQddddQQ")
_VERSION = 1
_NO_DELAY = -1.0
_BYTE_MAX = 255


class HostRecordError(ValueError):
    """Stored bytes that are no host record of a known version."""


@dataclass(slots=True, eq=False)
class Host:
    """The working state of one host.

    ``size`` and ``retry_size`` count entries on disk, those in flight among them. ``taken`` of them are in flight,
    ``retries_waiting`` lie in the retry lane. ``buffer`` holds the next entries; ``complete`` says that nothing of
    the fresh lane lies on disk behind it.
    """

    name: str
    size: int = 0
    retry_size: int = 0
    next_time: float = 0.0
    last_request: float = 0.0
    rule: Rule = Rule.NONE
    crawl_delay: float | None = None
    backoff: int = 0
    robots_until: float = 0.0
    robots_tries: int = 0
    fetched: int = 0
    failed: int = 0

    leased: int = 0
    taken: int = 0
    retries_waiting: int = 0
    retry_at: float = 0.0
    robots_in_flight: bool = False
    version: int = 0
    on_heap: bool = False
    ready: float = 0.0
    backoff_at: float = 0.0
    # A list, not a deque: sixteen entries are shifted in no time, and an empty deque is 600 bytes a host.
    buffer: list[tuple[bytes, Entry]] = field(default_factory=list)
    complete: bool = True
    cursor: bytes = FRESH_START
    retry_cursor: bytes = RETRY_START
    retries_out: set[bytes] | None = None  # slots of retries in flight; None where there never was one

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


def encode_host(host: Host) -> bytes:
    """The stored record of a host."""
    return _RECORD.pack(
        _VERSION,
        host.rule,
        min(host.backoff, _BYTE_MAX),
        min(host.robots_tries, _BYTE_MAX),
        host.size,
        host.retry_size,
        host.next_time,
        host.last_request,
        _NO_DELAY if host.crawl_delay is None else host.crawl_delay,
        host.robots_until,
        host.fetched,
        host.failed,
    )


def host_name(key: bytes) -> str:
    """The name of the host that a record is stored under; raises HostRecordError."""
    if not key or not key.isascii():
        raise HostRecordError(f"no name of a host: {key!r}")
    return key.decode("ascii")


def decode_host(name: str, value: bytes) -> Host:
    """The host as it was stored, nothing in flight; raises HostRecordError."""
    if not value or value[0] != _VERSION:
        raise HostRecordError(f"host {name}: a record of version {value[:1].hex() or 'none'}, not {_VERSION}")
    try:
        (
            _,
            rule,
            backoff,
            robots_tries,
            size,
            retry_size,
            next_time,
            last_request,
            crawl_delay,
            robots_until,
            fetched,
            failed,
        ) = _RECORD.unpack(value)
        known_rule = Rule(rule)
    except (struct.error, ValueError) as error:
        raise HostRecordError(f"host {name}: not a host record: {error}") from error
    # A time that is no number would leave the heap without an order.
    if not all(map(math.isfinite, (next_time, last_request, crawl_delay, robots_until))):
        raise HostRecordError(f"host {name}: not a host record: a time that is no number")
    if retry_size > size:
        raise HostRecordError(f"host {name}: not a host record: {retry_size} of {size} entries wait for a retry")
    return Host(
        name=name,
        size=size,
        retry_size=retry_size,
        next_time=next_time,
        last_request=last_request,
        rule=known_rule,
        crawl_delay=None if crawl_delay < 0 else crawl_delay,
        backoff=backoff,
        robots_until=robots_until,
        robots_tries=robots_tries,
        fetched=fetched,
        failed=failed,
        retries_waiting=retry_size,
        complete=size == retry_size,
    )
