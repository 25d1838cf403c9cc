"""The workbench: the hosts that have something to do, each in one place only, and whose turn it is.

A host is *on the heap* of a front queue until its turn comes (``schedule``), or *leased*, or *in a line* at the gate,
or *idle*. With N lease slots it stays on the heap until all N are out. So two requests to one host, or to its
robots.txt, cannot overlap, and its gap cannot be cut short: there is nothing to check. (The name and the idea are those
of BUbiNG's Workbench.)

A bounded number of hosts is in memory (``working_set``); of each other one with something queued there is a ticket on
the heap or a name in a line, and its record in the store. ``host`` finds a host wherever it is. What changes on the way
is put into the batch of the caller's step (``save``), which then also gives the host its place.

Cost: ``next``, ``place``, ``begin`` and ``end`` are O(log hosts); a host out of memory costs a read of its record.
"""

from __future__ import annotations

from crawler.frontier.gate import Gate
from crawler.frontier.host import Host, decode_host, encode_host, host_name
from crawler.frontier.importance import Importance
from crawler.frontier.lease import Lease
from crawler.frontier.limits import Limits
from crawler.frontier.queues import BackQueues
from crawler.frontier.request_outcome import RequestOutcome
from crawler.frontier.schedule import Schedule
from crawler.frontier.working_set import WorkingSet
from crawler.kv import Batch, Family, Reader
from crawler.settings import PolitenessSettings

_MOVED_MAX = 16  # hosts that one call of next puts into the front queue of another class
_HOSTS = Family.HOSTS  # to look a member up in its enumeration takes longer than all that a step does with it


class Workbench:
    """Hosts by name, wherever they are."""

    def __init__(self, store: Reader, settings: PolitenessSettings, limits: Limits, importance: Importance) -> None:
        self._store = store
        self._importance = importance
        self._per_host = settings.per_host
        self._passed_over = limits.memory.passed_over
        self.gate = Gate(settings, limits, self._called)
        best = importance.best if importance.active else None
        self.queues = BackQueues(store, self.gate.retry_due, limits.memory, best)
        self._schedule = Schedule()
        self._in_memory = WorkingSet(self.queues.forget, limits.memory)
        self.met = 0  # hosts that the job has met
        self.leased = 0

    # -- finding -----------------------------------------------------------------------------------------------

    def load(self) -> int:
        """Restore the hosts of a stored job; how many URLs they have queued."""
        queued = 0
        for rows in self._store.pages(_HOSTS):
            for key, value in rows:
                host = decode_host(host_name(key), value)
                if host.queue.size:
                    self._restore(host)
                    queued += host.queue.size
                    self.queues.hosts += 1
                    self._importance.bring(host, 0.0, host.tally.opic_score)
                    self.place(host)
                else:
                    self.gate.restore(host)
            self.trim()
        return queued

    def host(self, name: str) -> Host:
        """The host, which may be one that the job had not met."""
        host = self._in_memory.get(name)
        if host is not None:
            return host
        host = self._stored(name)
        if host is None:
            self.met += 1
            return Host(name)
        if not host.queue.size:
            self.gate.restore(host)
            return host
        self._restore(host)
        ready = self._ready(host)
        if ready is not None:
            host.on_heap, host.ready, host.front = True, ready, self._front(host)  # its ticket was left there
        return host

    def find(self, name: str) -> Host | None:
        """The host, if the job has met it."""
        known = self._in_memory.get(name) is not None
        known = known or (name.isascii() and self._store.get(_HOSTS, name.encode("ascii")) is not None)
        return self.host(name) if known else None

    def look(self, name: str) -> Host | None:
        """The host as it is in memory, else as it was stored; it is not to be changed."""
        return self._in_memory.get(name) or self._stored(name)

    def known(self, name: str) -> Host | None:
        """The working state of a host in memory or in a line; of any other the stored record says all."""
        host = self._in_memory.get(name)
        if host is None and self.gate.may_be_in_line(name):
            host = self._stored(name)
            return host if host is not None and host.in_line else None
        return host

    def _stored(self, name: str) -> Host | None:
        stored = self._store.get(_HOSTS, name.encode("ascii", "replace"))
        if stored is None:
            return None
        host = decode_host(name, stored)
        host.in_line = self.gate.in_line(host)
        return host

    def _restore(self, host: Host) -> None:
        """A host with something queued was read from its record."""
        self.gate.restore_queued(host)
        if host.queue.retry_size:
            self.queues.find_retry(host)

    # -- turns -------------------------------------------------------------------------------------------------

    def next(self, now: float) -> Host | None:
        """The host whose turn it is, off the heap, and in no other place yet."""
        moved = 0
        for _ in range(self._passed_over):
            if (due := self._schedule.pop(now)) is None:
                return None
            host = self.host(due.name)
            host.on_heap = False
            ready = self._ready(host)
            if ready is not None and ready <= now:
                self.queues.look_ahead(host)
                # What was read may be of a class that comes later than that of the cursor.
                if self._front(host) <= due.front or moved == _MOVED_MAX:
                    return host
                moved += 1
            self.place(host)
        self.trim()
        return None

    def next_ready(self) -> float | None:
        """When ``next`` will give a host if nothing else happens; None: never."""
        return self._schedule.next_ready()

    def _ready(self, host: Host) -> float | None:
        """When the host may be handed out; None: not while it is as it is."""
        queue, politeness = host.queue, host.politeness
        queued = queue.size - queue.taken
        if not queued or host.in_line or host.side_request or host.leased >= self._per_host:
            return None
        if self.gate.closure(host) is not None:
            return self.gate.now  # not before: the hosts that may be asked have their turns too
        if politeness.paused or (host.leased and self.gate.in_flight_may_use_up_budget(host)):
            return None
        next_time = politeness.next_time
        return next_time if queued > queue.retries_waiting else max(next_time, queue.retry_at)

    def _front(self, host: Host) -> int:
        importance = self._importance
        return importance.front(host, self.queues.hosts) if importance.active else host.queue.front

    # -- places ------------------------------------------------------------------------------------------------

    def place(self, host: Host) -> None:
        """Put the host where it belongs: on the heap once, or nowhere."""
        ready = self._ready(host)
        if ready is None:
            self._schedule.leave(host)
        else:
            self._schedule.put(host, ready, self._front(host))
        self._in_memory.place(host)

    def save(self, host: Host, batch: Batch) -> None:
        """The host has changed: its record goes into the batch, and the host where it belongs now."""
        batch.put(_HOSTS, host.name.encode("ascii"), encode_host(host))
        self.place(host)

    def send_away(self, host: Host, at: float | None) -> None:
        """The host whose turn it was may not be asked before ``at``; None: it is in a line."""
        if at is not None:
            self._schedule.put(host, at, self._front(host))
        self._in_memory.place(host)
        if host.in_line:
            self._in_memory.trim_resting()

    def _called(self, name: str) -> None:
        """The turn of a host in a line has come."""
        host = self._in_memory.get(name)
        if host is None:
            host = self._stored(name)
            assert host is not None
            self._restore(host)
        host.in_line = False
        self.place(host)

    def trim(self) -> None:
        """All batches were written: hosts that are too many leave memory, and are read from the store again."""
        self._in_memory.trim()

    @property
    def in_memory(self) -> int:
        """How many hosts are in memory."""
        return len(self._in_memory)

    # -- leases ------------------------------------------------------------------------------------------------

    def begin(self, lease: Lease) -> Lease:
        """A slot of the host is out."""
        host = lease.host
        host.leased += 1
        self.leased += 1
        if host.leased < self._per_host:
            self.place(host)
        else:
            self._in_memory.place(host)  # it was taken off the heap, and has no other lease to give
        return lease

    def end(self, lease: Lease, request: RequestOutcome | None, now: float) -> None:
        """The slot is free again, after a request or (None) without one. The caller changes the host and stores it."""
        host, gate = lease.host, self.gate
        gate.now = now
        self.leased -= 1
        host.leased -= 1
        if lease.entry is None:
            host.side_request = False
        if not lease.entered:
            return
        if request is not None:
            gate.answered(host, request, lease.taken_at, now)
        gate.leave(host, slow=lease.slow)
        if request is None:
            gate.not_asked(host)

    def cancel(self, lease: Lease) -> None:
        """The lease ends as if it had not been given. Nothing changes on disk."""
        host = lease.host
        self.leased -= 1
        host.leased -= 1
        if lease.entry is None:
            host.side_request = False
        else:
            self.queues.give_back(host, lease.slot, lease.entry)
        self.place(host)
        if lease.entered:
            self.gate.leave(host, slow=lease.slow)
