"""A clock that was set between two runs: what stored times still hold is moved along with it.

Of a host that is held until noon nothing tells, once the clock has been set forward by an hour, whether noon has come.
Where it is known by how much the clock was moved, the times that hold a host or a URL are moved by as much.
"""

from __future__ import annotations

from crawler.frontier.entry import FRESH_START, RETRY_START, pending_key, retry_slot, retry_time, split_pending_key
from crawler.frontier.host import Host, decode_host, encode_host, host_name
from crawler.kv import Batch, Family, Reader

CHANGES_MAX = 250_000  # rows moved, in one batch; what is beyond them keeps its time


def move_times(store: Reader, by: float, now: float, batch: Batch) -> int:
    """The clock says ``now``, and was moved ``by`` seconds since the store was written: forward, or back where
    it is negative. Returns how many hosts are held by times that were moved. Raises HostRecordError, EntryError."""
    # What was over by the clock that wrote it is over, and must also be by this one.
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
