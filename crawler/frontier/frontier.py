"""The frontier: the URLs known and unfinished, and the order to take them in.

    admit     a URL joins the tail of its host's back queue
    take      the host that has been ready longest gives the head of its queue as a lease
    finish    the URL is done, or goes back for another try; the host may be asked again after its gap

Each host has one back queue on disk and, in memory, a next time. Hosts that may be handed out stand on one heap by the
time at which they are ready; ``take`` pops the first that is due. A host that is handed out leaves the heap, and comes
back when its lease ends (with N lease slots it stays on until all N are out), so two requests to one host cannot
overlap and its gap cannot be cut short: there is nothing to check. robots.txt is fetched under the same leases and the
same gap.

Nothing here knows a socket, a file or a clock: time is an argument, and what must be stored is put into the batch that
the caller writes in the same step. Costs: ``take`` is O(log hosts); memory is bounded by hosts with something queued
and a read-ahead of a few entries, never by the number of pending URLs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from crawler.frontier.entry import (
    FRESH_END,
    FRESH_START,
    RETRY_START,
    Entry,
    EntryError,
    decode_entry,
    encode_entry,
    fresh_slot,
    is_retry,
    pending_key,
    retry_slot,
    retry_time,
    split_pending_key,
)
from crawler.frontier.host import Host, decode_host, encode_host, host_name
from crawler.frontier.politeness import Rule, gap, hold_after_throttle
from crawler.frontier.storage import Batch, Family, Reader
from crawler.settings import PolitenessSettings
from crawler.urls import host_key

READ_AHEAD = 16  # entries read from a host's queue at once
BUFFERED_MAX = 65_536  # entries in all read-ahead buffers; above it hosts read one entry at a time
IDLE_HOSTS_MAX = 10_000  # hosts with nothing queued whose state is still kept in memory
_SCAN = 4_096  # host records read at a time when a job is resumed


@dataclass(frozen=True, slots=True, eq=False)
class Lease:
    """A host's slot, handed out. ``entry`` is None when the host's robots.txt is to be fetched first."""

    host: Host
    slot: bytes
    entry: Entry | None
    taken_at: float


class Frontier:
    """Host queues, politeness and leases over a store."""

    def __init__(
        self,
        store: Reader,
        settings: PolitenessSettings,
        *,
        robots: bool = True,
        next_number: int = 0,
        hosts: int = 0,
    ) -> None:
        """``robots`` says whether a host's robots.txt comes before its pages; ``next_number`` is the first
        slot number that was never used in this job, ``hosts`` how many hosts it has met."""
        self._store = store
        self._settings = settings
        self._robots = robots
        self._hosts: dict[str, Host] = {}
        self._idle: OrderedDict[str, Host] = OrderedDict()
        self._heap: list[tuple[float, int, int, Host]] = []
        self._pushes = 0
        self._buffered = 0
        self._now = self._loaded = 0.0  # the last time that was named, and the first
        self.next_number = next_number
        self.hosts = hosts
        self.queued = 0
        self.leased = 0

    # -- resuming ----------------------------------------------------------------------------------------------

    def load(self, now: float) -> None:
        """Take up the hosts of a stored job. A next time further ahead than any rule allows (the clock was set
        back while the job lay still) is cut to what the rules allow."""
        self._now = self._loaded = now
        start = b""
        while rows := self._store.scan(Family.HOSTS, start, None, _SCAN):
            for key, value in rows:
                host = decode_host(host_name(key), value)
                if host.size:
                    self._settle(host, now)
                    self._hosts[host.name] = host
                    self.queued += host.size
                    self._schedule(host)
            start = rows[-1][0] + b"\0"

    def _settle(self, host: Host, now: float) -> None:
        # A request that was under way when the process died left no trace: it may have been a moment ago.
        pause, rule = gap(host.crawl_delay, self._settings)
        self._clamp(host)
        if host.next_time < now + pause:
            host.next_time, host.rule = now + pause, rule
        if host.retry_size:
            self._find_retry(host)

    def _clamp(self, host: Host) -> None:
        """A stored time may be of a clock that was set back since: no rule holds a host longer than from now on."""
        pause, _ = gap(host.crawl_delay, self._settings)
        held = host.rule in (Rule.RETRY_AFTER, Rule.BACKOFF, Rule.ROBOTS_RETRY)
        host.next_time = min(host.next_time, self._now + (max(self._longest_hold(), pause) if held else pause))

    def _longest_hold(self) -> float:
        return max(self._settings.max_retry_after, self._settings.backoff_max)

    # -- admit -------------------------------------------------------------------------------------------------

    def admit(self, entries: Iterable[Entry], batch: Batch) -> None:
        """Queue URLs that the seen-set found new, and put what makes that durable into ``batch``."""
        touched: dict[str, Host] = {}
        for entry in entries:
            name = host_key(entry.href)
            host = touched.get(name)
            if host is None:
                host = touched[name] = self._host(name)
            slot = fresh_slot(self.next_number)
            self.next_number += 1
            batch.put(Family.PENDING, pending_key(name, slot), encode_entry(entry))
            host.size += 1
            self.queued += 1
            if host.complete and len(host.buffer) < READ_AHEAD and self._buffered < BUFFERED_MAX:
                host.buffer.append((slot, entry))
                host.cursor = slot
                self._buffered += 1
            else:
                host.complete = False
        for name, host in touched.items():
            batch.put(Family.HOSTS, name.encode("ascii"), encode_host(host))
            self._schedule(host)

    def _host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._idle.pop(name, None)
            if host is None:
                stored = self._store.get(Family.HOSTS, name.encode("ascii"))
                if stored is None:
                    host = Host(name)
                    self.hosts += 1
                else:
                    host = decode_host(name, stored)
                    self._clamp(host)
            self._hosts[name] = host
        return host

    # -- take --------------------------------------------------------------------------------------------------

    def take(self, now: float) -> Lease | None:
        """A lease on the host that has been ready longest, or None when none is ready at ``now``."""
        heap, self._now = self._heap, now
        while heap and heap[0][0] <= now:
            _, _, version, host = heappop(heap)
            if version != host.version:
                continue  # the host was moved since; its newer place on the heap holds
            host.on_heap = False
            pause, rule = gap(host.crawl_delay, self._settings)
            if self._robots and host.robots_until <= now:
                host.robots_in_flight = True
                lease = Lease(host, b"", None, now)
            else:
                slot, entry = self._pop(host, now)
                host.taken += 1
                self.queued -= 1
                lease = Lease(host, slot, entry, now)
            host.leased += 1
            self.leased += 1
            if host.next_time < now + pause:
                host.next_time, host.rule = now + pause, rule
            self._schedule(host)
            return lease
        return None

    def next_ready(self) -> float | None:
        """The time at which ``take`` will next give a lease if nothing else happens; None: never."""
        heap = self._heap
        while heap and heap[0][2] != heap[0][3].version:
            heappop(heap)
        return heap[0][0] if heap else None

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

    def _pop(self, host: Host, now: float) -> tuple[bytes, Entry]:
        if host.retries_waiting and host.retry_at <= now:
            return self._pop_retry(host)
        if not host.buffer:
            self._read_ahead(host)
        if not host.buffer:
            raise EntryError(f"host {host.name}: {host.immediate} entries counted, none in the store")
        self._buffered -= 1
        return host.buffer.pop(0)

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
        host.retries_waiting -= 1
        if host.retries_waiting:
            self._find_retry(host)
        return slot, decode_entry(rows[0][1])

    def _find_retry(self, host: Host) -> None:
        rows = self._scan_retries(host, 1)
        if not rows:
            raise EntryError(f"host {host.name}: {host.retries_waiting} retries counted, none in the store")
        due = retry_time(split_pending_key(rows[0][0])[1])
        if due > self._now + self._longest_hold():
            due = self._loaded + self._longest_hold()  # of a clock that was set back before this process began
        host.retry_at = due

    def _scan_retries(self, host: Host, limit: int) -> list[tuple[bytes, bytes]]:
        # Slots up to the cursor are finished or in flight; it is set back where a clock that was set back between two
        # runs brings a retry before them.
        out = host.retries_out or set()
        start = pending_key(host.name, host.retry_cursor + b"\0")
        rows = self._store.scan(Family.PENDING, start, pending_key(host.name, FRESH_START), limit + len(out))
        return [row for row in rows if split_pending_key(row[0])[1] not in out][:limit]

    def _schedule(self, host: Host) -> None:
        """Put the host where it belongs: on the heap once, or nowhere."""
        if host.idle:
            self._rest(host)
            return
        if host.robots_in_flight or host.leased >= self._settings.per_host or not host.queued:
            self._leave_heap(host)
            return
        ready = host.next_time
        if not host.immediate and host.retry_at > ready:
            ready = host.retry_at
        if host.on_heap:
            if host.ready == ready:
                return
            host.version += 1
        host.on_heap, host.ready = True, ready
        self._pushes += 1
        heappush(self._heap, (ready, self._pushes, host.version, host))

    def _leave_heap(self, host: Host) -> None:
        if host.on_heap:
            host.on_heap = False
            host.version += 1

    def _rest(self, host: Host) -> None:
        """Nothing is queued: the stored record is all that must be kept."""
        self._leave_heap(host)
        self._hosts.pop(host.name, None)
        self._idle[host.name] = host
        if len(self._idle) > IDLE_HOSTS_MAX:
            self._idle.popitem(last=False)

    # -- finish ------------------------------------------------------------------------------------------------

    def finish(self, lease: Lease, now: float, batch: Batch, *, requested: bool = True, failed: bool = False) -> None:
        """The URL is done. ``requested`` is False when its host was not asked (robots.txt or a limit refused it):
        the gap then does not start anew. ``failed`` counts it among the host's failures."""
        host = lease.host
        self._end(lease, now, requested=requested)
        self._remove(lease, batch)
        if failed:
            host.failed += 1
        elif requested:
            host.fetched += 1
            host.backoff = 0
        self._store_host(host, batch)

    def retry(self, lease: Lease, again: Entry, wait: float, now: float, batch: Batch) -> None:
        """The URL goes through its host's queue again, no earlier than ``wait`` seconds from now."""
        self._end(lease, now, requested=True)
        self._again(lease, again, now + wait, batch)
        self._store_host(lease.host, batch)

    def throttle(self, lease: Lease, again: Entry | None, retry_after: float | None, now: float, batch: Batch) -> None:
        """The host answered 429 or 503: it is held, all of it. ``again`` is the URL's next try, or None when it
        has had all of them and is done."""
        host = lease.host
        self._end(lease, now, requested=True)
        wait, rule = hold_after_throttle(retry_after, host.backoff, self._settings)
        # Answers to requests that were already under way when the last one came are the same event.
        if lease.taken_at >= host.backoff_at:
            host.backoff += 1
            host.backoff_at = now
        if host.next_time < now + wait:
            host.next_time, host.rule = now + wait, rule
        if again is None:
            self._remove(lease, batch)
            host.fetched += 1
        else:
            self._again(lease, again, now + wait, batch)
        self._store_host(host, batch)

    def release(self, lease: Lease) -> None:
        """Hand back a URL that was not asked; it is the host's next one. Nothing changes on disk."""
        host = lease.host
        self.leased -= 1
        host.leased -= 1
        if lease.entry is None:
            host.robots_in_flight = False
        else:
            host.taken -= 1
            self.queued += 1
            host.buffer.insert(0, (lease.slot, lease.entry))
            self._buffered += 1
        self._schedule(host)

    def robots_known(self, lease: Lease, until: float, crawl_delay: float | None, now: float, batch: Batch) -> None:
        """The host's robots.txt was answered, or given up: what it says holds ``until`` then."""
        host = lease.host
        self._end(lease, now, requested=True)
        host.robots_until, host.robots_tries, host.crawl_delay = until, 0, crawl_delay
        pause, rule = gap(crawl_delay, self._settings)
        if host.next_time < now + pause:
            host.next_time, host.rule = now + pause, rule
        self._store_host(host, batch)

    def robots_later(self, lease: Lease, wait: float, now: float, batch: Batch) -> None:
        """robots.txt could not be had: the host is held and asked for it again after ``wait`` seconds."""
        host = lease.host
        self._end(lease, now, requested=True)
        host.robots_tries += 1
        if host.next_time < now + wait:
            host.next_time, host.rule = now + wait, Rule.ROBOTS_RETRY
        self._store_host(host, batch)

    def _end(self, lease: Lease, now: float, *, requested: bool) -> None:
        host, self._now = lease.host, now
        self.leased -= 1
        host.leased -= 1
        if lease.entry is None:
            host.robots_in_flight = False
        else:
            host.taken -= 1
        if requested:
            host.last_request = now
            pause, rule = gap(host.crawl_delay, self._settings)
            if host.next_time < now + pause:
                host.next_time, host.rule = now + pause, rule
        elif not host.leased:
            # The gap that `take` reserved was not used; what the last real request asks for still stands.
            pause, rule = gap(host.crawl_delay, self._settings)
            if host.rule in (Rule.GAP, Rule.CRAWL_DELAY):
                host.next_time = min(host.next_time, host.last_request + pause)

    def _remove(self, lease: Lease, batch: Batch) -> None:
        host = lease.host
        batch.delete(Family.PENDING, pending_key(host.name, lease.slot))
        host.size -= 1
        if is_retry(lease.slot):
            host.retry_size -= 1
            if host.retries_out is not None:
                host.retries_out.discard(lease.slot)

    def _again(self, lease: Lease, again: Entry, not_before: float, batch: Batch) -> None:
        host = lease.host
        self._remove(lease, batch)
        slot = retry_slot(not_before, self.next_number)
        self.next_number += 1
        batch.put(Family.PENDING, pending_key(host.name, slot), encode_entry(again))
        host.size += 1
        host.retry_size += 1
        if slot <= host.retry_cursor:
            host.retry_cursor = RETRY_START
        due = retry_time(slot)
        host.retry_at = due if not host.retries_waiting else min(host.retry_at, due)
        host.retries_waiting += 1
        self.queued += 1

    def _store_host(self, host: Host, batch: Batch) -> None:
        batch.put(Family.HOSTS, host.name.encode("ascii"), encode_host(host))
        self._schedule(host)

    # -- looking at it -----------------------------------------------------------------------------------------

    @property
    def hosts_pending(self) -> int:
        """Hosts with something queued or in flight."""
        return len(self._hosts)

    @property
    def on_heap(self) -> int:
        """Hosts that wait for their time, for the tests of the invariant."""
        return sum(host.on_heap for host in self._hosts.values())
