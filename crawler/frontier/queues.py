"""The back queues: the entries of each host on disk, and the few next ones in memory.

A host's queue has two lanes. Of the fresh lane a *window* is in memory, its first few rows that wait. Everything that
waits and is not in the window stands on disk at the host's *cursor* or behind it: a new row goes into the window if it
comes before the cursor, and when the window overflows its last row is left to the disk and becomes the cursor. So the
next row is always known, whatever the order in which rows are admitted, and no scan steps twice over entries that were
deleted: RocksDB keeps those as tombstones until it compacts, and a scan over a hundred thousand takes milliseconds.
The retry lane is read one by one when its head is due.

Nothing is read for a host while a batch with changes of its queue is not written yet: ``append``, ``put_retry``,
``give_back`` and ``remove`` read nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence

from crawler.frontier.entry import (
    FRESH_END,
    FRESH_SLOT_SIZE,
    FRESH_START,
    RETRY_START,
    Entry,
    EntryError,
    decode_entry,
    encode_entry,
    is_retry,
    pending_key,
    split_pending_key,
    stored_priority,
)
from crawler.frontier.host import Host
from crawler.frontier.working_set import WAITING_MAX
from crawler.kv import Batch, Family, Reader

_PENDING = Family.PENDING  # to look a member up in its enumeration takes longer than what is done with it

READ_AHEAD = 16  # rows of a host's window
BUFFERED_MAX = 393_216  # rows in all windows together, shared by the hosts in memory: few rows each when they are many
# How many times its share of what is free a host takes. Windows are filled when they are empty, one after the other: on
# the whole they are half full, and with a share of 1 half the rows that memory has room for would never be there.
_GREED = 4


class BackQueues:
    """The queues of all hosts over a store. The state of each stands in its ``Host``."""

    def __init__(
        self, store: Reader, due: Callable[[bytes], float], best: Callable[[Sequence[bytes]], int] | None = None
    ) -> None:
        """``due`` gives the time at which the retry of a slot may be taken, seconds since 1970; ``best`` which row of a
        window goes first, where it is not the first."""
        self._store = store
        self._due = due
        self._best = best
        self._buffered = 0
        self.hosts = 0  # with something queued or in flight

    # -- changes that read nothing -----------------------------------------------------------------------------

    def append(self, host: Host, slot: bytes, entry: Entry, batch: Batch) -> None:
        """An entry joins the fresh lane."""
        value = encode_entry(entry)
        batch.put(_PENDING, pending_key(host.name, slot), value)
        self._grow(host)
        self._insert(host, slot, value)

    def put_retry(self, host: Host, slot: bytes, entry: Entry, batch: Batch) -> None:
        """An entry joins the retry lane."""
        batch.put(_PENDING, pending_key(host.name, slot), encode_entry(entry))
        self._grow(host)
        host.retry_size += 1
        self._wait_for_retry(host, slot, entry.priority)

    def give_back(self, host: Host, slot: bytes, entry: Entry) -> None:
        """An entry that was popped waits again, where it stood."""
        _in(host, slot)
        if is_retry(slot):
            self._wait_for_retry(host, slot, entry.priority)
        else:
            self._insert(host, slot, encode_entry(entry))

    def remove(self, host: Host, slot: bytes, batch: Batch) -> None:
        """An entry that was popped goes for good."""
        batch.delete(_PENDING, pending_key(host.name, slot))
        _in(host, slot)
        host.size -= 1
        if is_retry(slot):
            host.retry_size -= 1
        if not host.size:
            self.hosts -= 1

    def forget(self, host: Host) -> None:
        """The window goes from memory; what it held is read again when the host is taken up from its record."""
        self._buffered -= len(host.buffer)
        host.buffer.clear()

    # -- taking ------------------------------------------------------------------------------------------------

    def pop(self, host: Host, now: float, *, fresh_first: bool = False) -> tuple[bytes, Entry]:
        """The entry that is to be taken at ``now``, with its slot: a retry that is due, else the head of the fresh
        lane; with ``fresh_first`` the other way round. The caller knows that there is one (EntryError: the store lacks
        it)."""
        if host.retries_waiting and host.retry_at <= now and not (fresh_first and host.immediate):
            slot, entry = self._pop_retry(host)
        else:
            if not host.buffer:
                self.look_ahead(host)
            if not host.buffer:
                raise EntryError(f"host {host.name}: {host.immediate} entries counted, none in the store")
            self._buffered -= 1
            row = host.buffer.pop(0 if self._best is None else self._best(host.buffer))
            slot, entry = row[:FRESH_SLOT_SIZE], decode_entry(row[FRESH_SLOT_SIZE:])
            _out(host, slot)
        return slot, entry

    def peek(self, host: Host) -> Entry:
        """An entry of the host that waits; the host must have one (EntryError: the store lacks it)."""
        if host.immediate:
            self.look_ahead(host)
        if host.buffer:
            return decode_entry(host.buffer[0][FRESH_SLOT_SIZE:])
        return decode_entry(self._first_retry(host)[1])

    def look_ahead(self, host: Host) -> None:
        """Read the next rows of the fresh lane, if none is in memory."""
        if host.buffer or host.complete:
            return
        limit = self._window()
        out = host.out or ()
        prefix = pending_key(host.name, b"")
        rows = self._store.scan(_PENDING, prefix + host.cursor, prefix + FRESH_END, limit + len(out))
        host.complete = len(rows) < limit + len(out)
        if not rows:
            return
        at = len(prefix)
        for key, _ in rows:
            if len(key) != at + FRESH_SLOT_SIZE:
                raise EntryError(f"not a frontier key: {key!r}")
        host.buffer = [key[at:] + value for key, value in rows if not out or key[at:] not in out]
        self._buffered += len(host.buffer)
        host.cursor = _behind(rows[-1][0][at:])

    def find_retry(self, host: Host) -> None:
        """Set time and class of the first retry that waits."""
        key, value = self._first_retry(host)
        host.retry_at = self._due(split_pending_key(key)[1])
        host.retry_class = stored_priority(value)

    # -- within ------------------------------------------------------------------------------------------------

    def _grow(self, host: Host) -> None:
        if not host.size:
            self.hosts += 1
        host.size += 1

    def _window(self) -> int:
        """How many rows a host's window may have."""
        free = BUFFERED_MAX - self._buffered
        return max(1, min(READ_AHEAD, _GREED * free // max(1, min(self.hosts, WAITING_MAX))))

    def _insert(self, host: Host, slot: bytes, value: bytes) -> None:
        """A row of the fresh lane waits: in the window, or on disk only."""
        buffer = host.buffer
        if not host.complete and slot >= host.cursor:
            return
        if len(buffer) < self._window():
            insort(buffer, slot + value)
            self._buffered += 1
            return
        if buffer and slot < buffer[-1]:
            insort(buffer, slot + value)
            slot = buffer.pop()[:FRESH_SLOT_SIZE]
        host.cursor, host.complete = slot, False

    def _wait_for_retry(self, host: Host, slot: bytes, priority: int) -> None:
        if slot <= host.retry_cursor:
            host.retry_cursor = RETRY_START
        due = self._due(slot)
        if not host.retries_waiting or due < host.retry_at:
            host.retry_at, host.retry_class = due, priority
        host.retries_waiting += 1

    def _pop_retry(self, host: Host) -> tuple[bytes, Entry]:
        key, value = self._first_retry(host)
        _, slot = split_pending_key(key)
        host.retry_cursor = slot
        host.retries_waiting -= 1
        _out(host, slot)
        if host.retries_waiting:
            self.find_retry(host)
        return slot, decode_entry(value)

    def _first_retry(self, host: Host) -> tuple[bytes, bytes]:
        # Slots up to the cursor are finished or in flight; it is set back where a clock that was set back between two
        # runs brings a retry before them.
        out = host.out or ()
        prefix = pending_key(host.name, b"")
        start = prefix + host.retry_cursor + b"\0"
        for key, value in self._store.scan(Family.PENDING, start, prefix + FRESH_START, 1 + len(out)):
            if split_pending_key(key)[1] not in out:
                return key, value
        raise EntryError(f"host {host.name}: {host.retries_waiting} retries counted, none in the store")


def _out(host: Host, slot: bytes) -> None:
    host.taken += 1
    if host.out is None:
        host.out = set()
    host.out.add(slot)


def _in(host: Host, slot: bytes) -> None:
    host.taken -= 1
    if host.out is not None:
        host.out.discard(slot)
        if not host.out:
            host.out = None  # an empty set is 216 bytes a host


def _behind(slot: bytes) -> bytes:
    """The first slot behind this one."""
    return (int.from_bytes(slot, "big") + 1).to_bytes(len(slot), "big")
