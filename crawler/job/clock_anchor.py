"""Detects whether the wall clock was set between two runs.

Within one boot of the machine, the seconds since the boot show how much time has passed, even if the wall clock was
set. After a reboot a clock step cannot be detected: a clock that was set forward looks like a pause of the job.

The stored times are corrected after such a step. For example, suppose that a host is held until noon. If the clock was
set forward by an hour between two runs, the stored time alone does not show whether noon has come. The caller knows how
far the clock moved, so the times that hold a host or a URL are moved by the same amount.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.base.clock import Anchor, SteadyClock
from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import FRESH_START, RETRY_START, pending_key, retry_slot, retry_time, split_pending_key
from crawler.frontier.host import Host, decode_host, encode_host, host_name
from crawler.job.records import StoredValue

CHANGES_MAX = 250_000  # maximum number of rows moved, all in one batch; further rows keep their times


def move_times(store: Reader, by: float, now: float, batch: Batch) -> int:
    """Move the stored times by ``by`` seconds: the step of the clock since the store was written, negative if it was
    set back.

    ``now`` is the time by the new clock, in seconds since 1970. Returns the number of hosts whose times were moved.
    Raises HostRecordError and EntryError."""
    # Times in the past by the old clock stay in the past by the new one.
    over = min(now, now - by)
    moved = 0
    for key, value in store.rows(Family.HOSTS):
        if len(batch.changes) >= CHANGES_MAX:
            return moved
        host = decode_host(host_name(key), value)
        retries = host.queue.retry_size > 0 and _move_retries(store, host, by, over, batch)
        politeness = host.politeness
        if politeness.next_time > over:
            politeness.next_time += by
            politeness.last_request += by
            batch.put(Family.HOSTS, key, encode_host(host))
        elif not retries:
            continue
        moved += 1
    return moved


def _move_retries(store: Reader, host: Host, by: float, over: float, batch: Batch) -> bool:
    moved = False
    start, end = pending_key(host.name, RETRY_START), pending_key(host.name, FRESH_START)
    for key, value in store.rows(Family.PENDING, start, end):
        slot = split_pending_key(key)[1]
        due = retry_time(slot)
        if due > over:
            batch.delete(Family.PENDING, key)
            number = int.from_bytes(slot[-8:], "big")
            batch.put(Family.PENDING, pending_key(host.name, retry_slot(due + by, number)), value)
            moved = True
    return moved


CLOCK = b"clock"
LEAST = 1.0  # seconds; smaller steps do not matter, because every host waits its gap when a job resumes
_ANCHOR = StoredValue(Anchor, "the clock of the last run")
encode_anchor = _ANCHOR.encode


def stored_anchor(store: Reader) -> Anchor | None:
    """Return the anchor of the last run; None if there is none. Raises JournalError."""
    return _ANCHOR.read(store, CLOCK)


def job_time(store: Reader) -> float:
    """Return the current time in seconds since 1970, by the clock that wrote the times of the job.

    It differs from the wall clock if the wall clock was set after the last run started. That run may still be
    active."""
    clock = SteadyClock()
    mine, its = clock.anchor, stored_anchor(store)
    if mine is None or its is None or mine.boot != its.boot:
        return clock()
    return clock() + its.offset - mine.offset


def follow_clock(store: Reader, anchor: Anchor | None, now: float, tell: Callable[[str], None], batch: Batch) -> None:
    """Store the anchor for the next run. If the clock was set since the last run, move the stored times accordingly,
    and report that to ``tell``. Raises OSError and the errors of ``move_times``."""
    if anchor is None:
        return
    before = stored_anchor(store)
    same_boot = before is not None and before.boot == anchor.boot
    by = anchor.offset - before.offset if before is not None and same_boot else 0.0
    if same_boot and abs(by) < LEAST:
        return
    batch.put(Family.META, CLOCK, encode_anchor(anchor))
    moved = move_times(store, by, now, batch) if by else 0
    if moved:
        way = "forward" if by > 0 else "back"
        tell(
            f"the clock was set {way} by {abs(by):.0f} s since the last run: the waiting times were adjusted "
            f"({'1 host' if moved == 1 else f'{moved} hosts'})"
        )
