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

from crawler.frontier.entry import Entry, fresh_slot, retry_slot, retry_time
from crawler.frontier.host import Host, decode_host, encode_host, host_name
from crawler.frontier.politeness import Rule, gap, hold_after_throttle
from crawler.frontier.queues import BackQueues
from crawler.frontier.schedule import Schedule
from crawler.frontier.storage import Batch, Family, Reader
from crawler.settings import PolitenessSettings
from crawler.urls import host_key

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
        self._queues = BackQueues(store, self._retry_due)
        self._schedule = Schedule()
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
                    self._place(host)
            start = rows[-1][0] + b"\0"

    def _settle(self, host: Host, now: float) -> None:
        # A request that was under way when the process died left no trace: it may have been a moment ago.
        pause, rule = gap(host.crawl_delay, self._settings)
        self._clamp(host)
        if host.next_time < now + pause:
            host.next_time, host.rule = now + pause, rule
        if host.retry_size:
            self._queues.find_retry(host)

    def _clamp(self, host: Host) -> None:
        """A stored time may be of a clock that was set back since: no rule holds a host longer than from now on."""
        pause, _ = gap(host.crawl_delay, self._settings)
        held = host.rule in (Rule.RETRY_AFTER, Rule.BACKOFF, Rule.ROBOTS_RETRY)
        host.next_time = min(host.next_time, self._now + (max(self._longest_hold(), pause) if held else pause))

    def _longest_hold(self) -> float:
        return max(self._settings.max_retry_after, self._settings.backoff_max)

    def _retry_due(self, slot: bytes) -> float:
        due = retry_time(slot)
        if due > self._now + self._longest_hold():
            return self._loaded + self._longest_hold()  # of a clock that was set back before this process began
        return due

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
            self._queues.append(host, slot, entry, batch)
            self.queued += 1
        for name, host in touched.items():
            batch.put(Family.HOSTS, name.encode("ascii"), encode_host(host))
            self._place(host)

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
        self._now = now
        host = self._schedule.pop(now)
        if host is None:
            return None
        pause, rule = gap(host.crawl_delay, self._settings)
        if self._robots and host.robots_until <= now:
            host.robots_in_flight = True
            lease = Lease(host, b"", None, now)
        else:
            slot, entry = self._queues.pop(host, now)
            self.queued -= 1
            lease = Lease(host, slot, entry, now)
        host.leased += 1
        self.leased += 1
        if host.next_time < now + pause:
            host.next_time, host.rule = now + pause, rule
        self._place(host)
        return lease

    def next_ready(self) -> float | None:
        """The time at which ``take`` will next give a lease if nothing else happens; None: never."""
        return self._schedule.next_ready()

    def peek(self, host: Host) -> Entry:
        """An entry of the host that waits; the host must have one (EntryError: the store lacks it)."""
        return self._queues.peek(host)

    def _place(self, host: Host) -> None:
        """Put the host where it belongs: on the heap once, or nowhere."""
        if host.idle:
            self._rest(host)
        elif host.robots_in_flight or host.leased >= self._settings.per_host or not host.queued:
            self._schedule.leave(host)
        elif host.immediate:
            self._schedule.put(host, host.next_time)
        else:
            self._schedule.put(host, max(host.next_time, host.retry_at))

    def _rest(self, host: Host) -> None:
        """Nothing is queued: the stored record is all that must be kept."""
        self._schedule.leave(host)
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
        self._queues.remove(host, lease.slot, batch)
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
            self._queues.remove(host, lease.slot, batch)
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
            self._queues.give_back(host, lease.slot, lease.entry)
            self.queued += 1
        self._place(host)

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

    def _again(self, lease: Lease, again: Entry, not_before: float, batch: Batch) -> None:
        host = lease.host
        self._queues.remove(host, lease.slot, batch)
        slot = retry_slot(not_before, self.next_number)
        self.next_number += 1
        self._queues.put_retry(host, slot, again, batch)
        self.queued += 1

    def _store_host(self, host: Host, batch: Batch) -> None:
        batch.put(Family.HOSTS, host.name.encode("ascii"), encode_host(host))
        self._place(host)

    # -- looking at it -----------------------------------------------------------------------------------------

    @property
    def hosts_pending(self) -> int:
        """Hosts with something queued or in flight."""
        return len(self._hosts)

    @property
    def on_heap(self) -> int:
        """Hosts that wait for their time, for the tests of the invariant."""
        return sum(host.on_heap for host in self._hosts.values())
