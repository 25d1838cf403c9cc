"""Corrects stored times after a clock step between two runs.

A host may be held until noon. If the clock was set forward by an hour between two runs, the stored time alone does not
show whether noon has come. The caller knows how far the clock moved, so the times that hold a host or a URL are moved
by the same amount.
"""

from __future__ import annotations

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import FRESH_START, RETRY_START, pending_key, retry_slot, retry_time, split_pending_key
from crawler.frontier.host import Host, decode_host, encode_host, host_name

CHANGES_MAX = 250_000  # rows moved in one batch; further rows keep their times


def move_times(store: Reader, by: float, now: float, batch: Batch) -> int:
    """Move the stored times by ``by`` seconds: the step of the clock since the store was written, negative if it was
    set back.

    ``now`` is the time by the new clock, in seconds since 1970. Returns the number of hosts with moved times. Raises
    HostRecordError and EntryError."""
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
