"""The back queues: the entries of each host on disk, and the few next ones in memory.

A host's queue has two lanes. The fresh lane is read ahead, a few entries at a time, behind a cursor: a scan from the
lane's start would step over every entry deleted before. The retry lane is read one by one when its head is due.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.entry import (
    FRESH_END,
    FRESH_START,
    RETRY_START,
    Entry,
    EntryError,
    decode_entry,
    encode_entry,
    is_retry,
    pending_key,
    retry_time,
    split_pending_key,
)
from crawler.frontier.host import Host
from crawler.frontier.storage import Batch, Family, Reader

READ_AHEAD = 16  # entries read from a host's queue at once
BUFFERED_MAX = 65_536  # entries in all read-ahead buffers; above it hosts read one entry at a time


class BackQueues:
    """The queues of all hosts over a store. The state of each stands in its ``Host``."""

    def __init__(self, store: Reader, due: Callable[[bytes], float]) -> None:
        """``due`` gives the time at which the retry of a slot may be taken, seconds since 1970."""
        self._store = store
        self._due = due
        self._buffered = 0

    def append(self, host: Host, slot: bytes, entry: Entry, batch: Batch) -> None:
        """An entry joins the fresh lane."""
        batch.put(Family.PENDING, pending_key(host.name, slot), encode_entry(entry))
        host.size += 1
        if host.complete and len(host.buffer) < READ_AHEAD and self._buffered < BUFFERED_MAX:
            host.buffer.append((slot, entry))
            host.cursor = slot
            self._buffered += 1
        else:
            host.complete = False

    def put_retry(self, host: Host, slot: bytes, entry: Entry, batch: Batch) -> None:
        """An entry joins the retry lane."""
        batch.put(Family.PENDING, pending_key(host.name, slot), encode_entry(entry))
        host.size += 1
        host.retry_size += 1
        if slot <= host.retry_cursor:
            host.retry_cursor = RETRY_START
        due = retry_time(slot)
        host.retry_at = due if not host.retries_waiting else min(host.retry_at, due)
        host.retries_waiting += 1

    def pop(self, host: Host, now: float) -> tuple[bytes, Entry]:
        """The entry that is to be taken at ``now``, with its slot: a retry that is due, else the head of the fresh
        lane. The caller knows that there is one (EntryError: the store lacks it)."""
        if host.retries_waiting and host.retry_at <= now:
            return self._pop_retry(host)
        if not host.buffer:
            self._read_ahead(host)
        if not host.buffer:
            raise EntryError(f"host {host.name}: {host.immediate} entries counted, none in the store")
        self._buffered -= 1
        host.taken += 1
        return host.buffer.pop(0)

    def peek(self, host: Host) -> Entry:
        """An entry of the host that waits; the host must have one (EntryError: the store lacks it)."""
        if not host.buffer and host.immediate:
            self._read_ahead(host)
        if host.buffer:
            return host.buffer[0][1]
        rows = self._scan_retries(host, 1)
        if not rows:
            raise EntryError(f"host {host.name} has nothing queued")
        return decode_entry(rows[0][1])

    def give_back(self, host: Host, slot: bytes, entry: Entry) -> None:
        """An entry that was popped is the next one again."""
        host.taken -= 1
        host.buffer.insert(0, (slot, entry))
        self._buffered += 1

    def remove(self, host: Host, slot: bytes, batch: Batch) -> None:
        """An entry that was popped goes for good."""
        batch.delete(Family.PENDING, pending_key(host.name, slot))
        host.taken -= 1
        host.size -= 1
        if is_retry(slot):
            host.retry_size -= 1
            if host.retries_out is not None:
                host.retries_out.discard(slot)

    def find_retry(self, host: Host) -> None:
        """Set the time of the first retry that waits."""
        rows = self._scan_retries(host, 1)
        if not rows:
            raise EntryError(f"host {host.name}: {host.retries_waiting} retries counted, none in the store")
        host.retry_at = self._due(split_pending_key(rows[0][0])[1])

    def _read_ahead(self, host: Host) -> None:
        limit = READ_AHEAD if self._buffered < BUFFERED_MAX else 1
        start = pending_key(host.name, host.cursor + (b"\0" if host.cursor != FRESH_START else b""))
        rows = self._store.scan(Family.PENDING, start, pending_key(host.name, FRESH_END), limit)
        for key, value in rows:
            _, slot = split_pending_key(key)
            host.buffer.append((slot, decode_entry(value)))
            host.cursor = slot
        self._buffered += len(rows)
        host.complete = len(rows) < limit

    def _pop_retry(self, host: Host) -> tuple[bytes, Entry]:
        rows = self._scan_retries(host, 1)
        if not rows:
            raise EntryError(f"host {host.name}: {host.retries_waiting} retries counted, none in the store")
        _, slot = split_pending_key(rows[0][0])
        host.retry_cursor = slot
        if host.retries_out is None:
            host.retries_out = set()
        host.retries_out.add(slot)
        host.taken += 1
        host.retries_waiting -= 1
        if host.retries_waiting:
            self.find_retry(host)
        return slot, decode_entry(rows[0][1])

    def _scan_retries(self, host: Host, limit: int) -> list[tuple[bytes, bytes]]:
        # Slots up to the cursor are finished or in flight; it is set back where a clock that was set back between two
        # runs brings a retry before them.
        out = host.retries_out or set()
        start = pending_key(host.name, host.retry_cursor + b"\0")
        rows = self._store.scan(Family.PENDING, start, pending_key(host.name, FRESH_START), limit + len(out))
        return [row for row in rows if split_pending_key(row[0])[1] not in out][:limit]
