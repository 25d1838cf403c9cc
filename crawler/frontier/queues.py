"""The back queues: the entries of each host on disk, and the next few in memory.

A host's queue has two lanes. The first few waiting rows of the fresh lane are in memory: the *window*. Every other
waiting row of that lane is on disk, at or after the host's *cursor*. A new row joins the window if it sorts before the
cursor. When the window overflows, its last row leaves memory and its slot becomes the cursor. The next row is therefore
always known, regardless of the order in which rows are admitted. A scan never passes deleted entries twice: RocksDB
keeps them as tombstones until it compacts, and scanning a hundred thousand takes milliseconds. The retry lane is read
entry by entry when its head is due.

The revisits of the fresh lane have their own window. If both first visits and revisits wait, each kind gets its share
of the turns, regardless of the classes. If only one kind waits, it gets all turns.

A queue must not be read while a batch with its changes is unwritten. ``add``, ``give_back`` and ``remove`` therefore
read nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Sequence

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import (
    FRESH_END,
    FRESH_SLOT_SIZE,
    FRESH_START,
    RETRY_START,
    REVISIT_START,
    Entry,
    EntryError,
    decode_entry,
    encode_entry,
    is_retry,
    is_revisit,
    pending_key,
    retry_time,
    split_pending_key,
    with_class,
)
from crawler.frontier.host import BackQueue, Host, RevisitLane, cause_of_no_page, decode_host
from crawler.frontier.limits import Limits

PREFIX = b"place/"  # prefix of the keys in META, followed by the href


class Places:
    """The slots of a job's pending URLs whose classes may change. When a link with a better score is found, the URL's
    slot is looked up here.

    A row maps an href to a slot. It is written in the transaction that queues the URL, and deleted in the one that
    finishes it. Rows are kept only while links have scores. A row is a hint: if no entry has the slot, because the URL
    is being retried or was finished in a run without scores, the row is deleted.
    """

    def __init__(self, store: Reader) -> None:
        self._store = store

    def note(self, entry: Entry, slot: bytes, batch: Batch) -> None:
        """Record the slot of an entry. First-class entries, revisits and probes need no row."""
        if entry.priority and not (entry.revisit or entry.probe):
            batch.put(Family.META, _key(entry.href), slot)

    def find(self, hrefs: Sequence[str]) -> list[bytes | None]:
        """Return the slot of each href, or None for an href without a row."""
        return self._store.get_many(Family.META, [_key(href) for href in hrefs])

    def forget(self, href: str, batch: Batch) -> None:
        """Delete the row of a URL that no longer waits in its slot."""
        batch.delete(Family.META, _key(href))


def _key(href: str) -> bytes:
    return PREFIX + href.encode("ascii")


_PENDING = Family.PENDING  # looking up an enumeration member costs more than using it

# A host's window may take this many times its equal share of the free rows. Windows are filled when they are empty, one
# after the other, so they are half full on average: with a factor of 1, half of the allowed rows would stay unused.
_GREED = 4


def read_host(store: Reader, name: str, value: bytes) -> Host:
    """Return the host of a stored record. If only retries wait in its queue, also set the time of the first one. Raises
    HostRecordError."""
    host = decode_host(name, value)
    if host.queue.only_retries:
        start, end = pending_key(name, RETRY_START), pending_key(name, FRESH_START)
        for key, _ in store.scan(_PENDING, start, end, 1):
            host.queue.retry_at = retry_time(split_pending_key(key)[1])
    return host


class BackQueues:
    """The queues of all hosts in a store. The state of each queue is its ``Host.queue``."""

    def __init__(
        self,
        store: Reader,
        due: Callable[[bytes], float],
        limits: Limits,
        best: Callable[[Sequence[bytes]], int] | None = None,
    ) -> None:
        """``due`` returns the time at which the retry in a slot may be taken, in seconds since 1970.

        ``best`` returns the index of the row to take from a window of first visits; by default the first row is taken.
        """
        self._store = store
        self._due = due
        self._limits = limits.memory
        self._share = limits.revisits
        self._best = best
        self._rows = 0  # total number of rows in all windows together
        self.hosts = 0  # number of hosts with URLs queued or in flight
        self.without_page = Counter[str | None]()  # hosts without a page, by reason (None: all other hosts)
        self.places: Places | None = None  # slots of entries in fresh lanes; None if not needed

    def judge(self, host: Host) -> None:
        """Update the count of hosts without a page after a host has changed."""
        if (cause := cause_of_no_page(host)) != host.no_page:
            self.without_page[host.no_page] -= 1
            self.without_page[cause] += 1
            host.no_page = cause

    # -- changes that read nothing -----------------------------------------------------------------------------

    def add(self, host: Host, slot: bytes, entry: Entry, batch: Batch) -> None:
        """Add an entry to the lane of its slot."""
        value, queue = encode_entry(entry), host.queue
        batch.put(_PENDING, pending_key(host.name, slot), value)
        self.hosts += not queue.size
        queue.size += 1
        if is_retry(slot):
            queue.retry_size += 1
            self._wait_for_retry(queue, slot, entry.priority)
            return
        if self.places is not None:
            self.places.note(entry, slot, batch)
        self._insert(self._lane(host, slot), slot, value)

    def give_back(self, host: Host, slot: bytes, entry: Entry) -> None:
        """Undo ``pop``: the entry waits again in its old slot."""
        _in(host.queue, slot)
        if is_retry(slot):
            self._wait_for_retry(host.queue, slot, entry.priority)
        else:
            lane = self._lane(host, slot)
            self._insert(lane, slot, encode_entry(entry))
            if host.queue.revisits is not None:
                host.queue.revisits.turns -= 1

    def remove(self, host: Host, slot: bytes, batch: Batch) -> None:
        """Delete an entry that was popped."""
        queue = host.queue
        batch.delete(_PENDING, pending_key(host.name, slot))
        _in(queue, slot)
        queue.size -= 1
        if is_retry(slot):
            queue.retry_size -= 1
        if queue.revisits is not None and _is_empty(queue):
            queue.revisits = None
        if not queue.size:
            self.hosts -= 1

    def change_class(self, host: Host, slot: bytes, entry: Entry, batch: Batch) -> None:
        """Move a waiting entry to its current class. Retries and revisits keep their slots."""
        to = slot if is_retry(slot) or is_revisit(slot) else with_class(slot, entry.priority)
        value = encode_entry(entry)
        if to != slot:
            batch.delete(_PENDING, pending_key(host.name, slot))
        batch.put(_PENDING, pending_key(host.name, to), value)
        if is_retry(slot):
            if self._due(slot) == host.queue.retry_at:
                host.queue.retry_class = entry.priority
            return
        if self.places is not None:
            self.places.note(entry, to, batch)
        lane = self._lane(host, slot)
        at = bisect_left(lane.window, slot)
        if at < len(lane.window) and lane.window[at].startswith(slot):
            del lane.window[at]
            self._rows -= 1
        self._insert(lane, to, value)

    def look_up(self, name: str, slot: bytes) -> Entry | None:
        """Return the entry in the slot of a host, or None. Raises EntryError."""
        value = self._store.get(_PENDING, pending_key(name, slot))
        return None if value is None else decode_entry(value)

    def forget(self, host: Host) -> None:
        """Drop the window from memory. Its rows are read again after the host is restored from its record."""
        for lane in (host.queue, host.queue.revisits):
            if lane is not None:
                self._rows -= len(lane.window)
                lane.window.clear()

    # -- taking ------------------------------------------------------------------------------------------------

    def pop(self, host: Host, now: float, *, fresh_first: bool = False) -> tuple[bytes, Entry]:
        """Take the next entry at ``now``; returns its slot and the entry.

        A due retry comes before the head of the fresh lane, or after it with ``fresh_first``. The host must have an
        entry to take. Raises EntryError if the store lacks it.
        """
        queue = host.queue
        if queue.retries_waiting and queue.retry_at <= now and not (fresh_first and queue.immediate):
            return self._pop_retry(host)
        if not queue.window or queue.revisits is not None:
            self.look_ahead(host)
        window, place = queue.window, 0
        if queue.revisits is not None and self._is_turn_of_revisits(queue, queue.revisits):
            window = queue.revisits.window
        elif self._best is not None and window:
            place = self._best(window)
        if not window:
            raise EntryError(f"host {host.name}: {queue.immediate} entries counted, none in the store")
        if queue.revisits is not None:
            queue.revisits.turns += 1
        self._rows -= 1
        row = window.pop(place)
        slot = row[:FRESH_SLOT_SIZE]
        _out(queue, slot)
        return slot, decode_entry(row[FRESH_SLOT_SIZE:])

    def peek(self, host: Host) -> Entry:
        """Return a waiting entry of the host, which must have one. Raises EntryError if the store lacks it."""
        if host.queue.immediate:
            self.look_ahead(host)
        for lane in (host.queue, host.queue.revisits):
            if lane is not None and lane.window:
                return decode_entry(lane.window[0][FRESH_SLOT_SIZE:])
        return decode_entry(self._first_retry(host)[1])

    def front(self, queue: BackQueue) -> int:
        """Return the class of the next entry of a queue with revisits.

        This is ``BackQueue.front`` if that entry is not in memory.
        """
        revisits = queue.revisits
        if revisits is None or not revisits.window or not self._is_turn_of_revisits(queue, revisits):
            return queue.front
        return decode_entry(revisits.window[0][FRESH_SLOT_SIZE:]).priority

    def look_ahead(self, host: Host) -> None:
        """Read the next rows of the fresh lane into empty windows."""
        queue = host.queue
        if not (queue.window or queue.complete):
            self._read(host, queue, FRESH_END if queue.revisits is None else REVISIT_START)
        if queue.revisits is not None and not (queue.revisits.window or queue.revisits.complete):
            self._read(host, queue.revisits, FRESH_END)

    def find_retry(self, host: Host) -> None:
        """Set the time and class of the first waiting retry."""
        key, value = self._first_retry(host)
        host.queue.retry_at = self._due(split_pending_key(key)[1])
        host.queue.retry_class = decode_entry(value).priority

    # -- internals ---------------------------------------------------------------------------------------------

    def _read(self, host: Host, lane: BackQueue | RevisitLane, end: bytes) -> None:
        """Read the next rows into an empty window."""
        limit = self._window()
        out = host.queue.out or ()
        prefix = pending_key(host.name, b"")
        rows = self._store.scan(_PENDING, prefix + lane.cursor, prefix + end, limit + len(out))
        lane.complete = len(rows) < limit + len(out)
        if not rows:
            return
        at = len(prefix)
        for key, _ in rows:
            if len(key) != at + FRESH_SLOT_SIZE:
                raise EntryError(f"not a frontier key: {key!r}")
        if lane is host.queue and is_revisit(rows[-1][0][at:]):
            # The host's record did not indicate waiting revisits. Other rows of the store may have been damaged too.
            host.queue.revisits = RevisitLane(_finished(host))
            lane.complete = False
            self._read(host, lane, REVISIT_START)
            return
        if out:
            # If all rows in flight are before the cursor, the scan returned more rows than the window may hold.
            waiting = [row for row in rows if row[0][at:] not in out]
            lane.complete = lane.complete and len(waiting) <= limit
            rows = waiting[:limit] or rows[-1:]
            lane.window = [key[at:] + value for key, value in waiting[:limit]]
        else:
            lane.window = [key[at:] + value for key, value in rows]
        self._rows += len(lane.window)
        lane.cursor = _behind(rows[-1][0][at:])

    def _is_turn_of_revisits(self, queue: BackQueue, revisits: RevisitLane) -> bool:
        """Return True if the next entry of the fresh lane is a revisit, as far as the windows show."""
        if not (queue.window and revisits.window):
            return bool(revisits.window)
        return int((revisits.turns + 1) * self._share) > int(revisits.turns * self._share)

    def _lane(self, host: Host, slot: bytes) -> BackQueue | RevisitLane:
        """Return the lane in which a row of the fresh lane waits."""
        queue = host.queue
        if not is_revisit(slot):
            return queue
        if queue.revisits is None:
            queue.revisits = RevisitLane(_finished(host), complete=queue.complete)
        return queue.revisits

    def _window(self) -> int:
        """Return how many rows a host's window may hold now."""
        free = self._limits.rows - self._rows
        share = _GREED * free // max(1, min(self.hosts, self._limits.waiting))
        return max(1, min(self._limits.read_ahead, share))

    def _insert(self, lane: BackQueue | RevisitLane, slot: bytes, value: bytes) -> None:
        """Put a waiting row of the fresh lane into the window if it belongs there; otherwise it stays on disk only."""
        window = lane.window
        if not lane.complete and slot >= lane.cursor:
            return
        if len(window) < self._window():
            insort(window, slot + value)
            self._rows += 1
            return
        if window and slot < window[-1]:
            insort(window, slot + value)
            slot = window.pop()[:FRESH_SLOT_SIZE]
        lane.cursor, lane.complete = slot, False

    def _wait_for_retry(self, queue: BackQueue, slot: bytes, priority: int) -> None:
        if slot <= queue.retry_cursor:
            queue.retry_cursor = RETRY_START
        due = self._due(slot)
        if not queue.retries_waiting or due < queue.retry_at:
            queue.retry_at, queue.retry_class = due, priority
        queue.retries_waiting += 1

    def _pop_retry(self, host: Host) -> tuple[bytes, Entry]:
        queue = host.queue
        key, value = self._first_retry(host)
        _, slot = split_pending_key(key)
        queue.retry_cursor = slot
        queue.retries_waiting -= 1
        _out(queue, slot)
        if queue.retries_waiting:
            self.find_retry(host)
        return slot, decode_entry(value)

    def _first_retry(self, host: Host) -> tuple[bytes, bytes]:
        # Slots up to the cursor are finished or in flight. The cursor moves back if a clock step between two runs puts
        # a retry before it.
        queue = host.queue
        out = queue.out or ()
        prefix = pending_key(host.name, b"")
        start = prefix + queue.retry_cursor + b"\0"
        for key, value in self._store.scan(_PENDING, start, prefix + FRESH_START, 1 + len(out)):
            if split_pending_key(key)[1] not in out:
                return key, value
        raise EntryError(f"host {host.name}: {queue.retries_waiting} retries counted, none in the store")


def _out(queue: BackQueue, slot: bytes) -> None:
    queue.taken += 1
    if queue.out is None:
        queue.out = set()
    queue.out.add(slot)


def _in(queue: BackQueue, slot: bytes) -> None:
    queue.taken -= 1
    if queue.out is not None:
        queue.out.discard(slot)
        if not queue.out:
            queue.out = None  # an empty set takes 216 bytes per host


def _finished(host: Host) -> int:
    return host.tally.fetched + host.tally.failed


def _is_empty(queue: BackQueue) -> bool:
    """Return True if no revisit waits, and none is in flight that might return to the queue."""
    revisits = queue.revisits
    assert revisits is not None
    return not revisits.window and revisits.complete and not any(map(is_revisit, queue.out or ()))


def _behind(slot: bytes) -> bytes:
    """Return the first slot after this one."""
    return (int.from_bytes(slot, "big") + 1).to_bytes(len(slot), "big")
