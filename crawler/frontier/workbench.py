"""The workbench holds the hosts with pending URLs, each in exactly one place, and decides whose turn it is.

A host is *on the heap* of a front queue until its turn comes (``front_queues``), or *leased*, or *in a line* at the
gate, or *idle*. With N lease slots it stays on the heap until all N are taken. By construction, therefore, two requests
to one host or its robots.txt cannot overlap, and its gap cannot be cut short. (The name and the idea are from BUbiNG's
Workbench.)

A bounded number of hosts is in memory (``working_set``). Each other host with queued URLs has a ticket on the heap or a
name in a line, and its record in the store. ``host`` finds a host in whichever place it is. ``save`` puts a changed
host into the batch of the caller's transaction, and moves it to its place.

Cost: ``next``, ``place``, ``begin`` and ``end`` are O(log hosts); a host out of memory costs a read of its record.
"""

from __future__ import annotations

from collections.abc import Iterator

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.front_queues import ACTIVE, Schedule, place_of
from crawler.frontier.gate import Gate
from crawler.frontier.host import NO_FAILURES, Host, decode_host, encode_host, host_name
from crawler.frontier.host_closed import DomainTallies
from crawler.frontier.host_session import Sessions
from crawler.frontier.lease import Lease
from crawler.frontier.limits import Limits
from crawler.frontier.opic_score import Importance
from crawler.frontier.queues import BackQueues
from crawler.frontier.request_outcome import RequestOutcome
from crawler.frontier.slot_share import ALL, QUICK, SLOW, Kinds
from crawler.frontier.states import (
    ANSWER,
    ANSWERED,
    CALL,
    END,
    IN_LINE,
    INSIDE,
    QUEUED,
    SCHEDULE,
    UNSCHEDULE,
    WAIT,
    change_lease,
    change_queue,
)
from crawler.frontier.working_set import WorkingSet

_MOVED_MAX = 16  # maximum number of hosts that one call of next moves to the front queue of another class
_RECONSIDERED = 256  # hosts between two yields
_HOSTS = Family.HOSTS  # looking up an enumeration member costs more than using it


class Workbench:
    """Finds hosts by name, in memory or in the store."""

    def __init__(self, store: Reader, settings: PolitenessSettings, limits: Limits, importance: Importance) -> None:
        self._store = store
        self._importance = importance
        self._per_host = settings.per_host
        self.gate = Gate(settings, limits, self._called, self._siblings)
        best = importance.best if importance.active else None
        self.queues = BackQueues(store, self.gate.retry_due, limits, best)
        self._schedule = Schedule()
        self._in_memory = WorkingSet(self._put_away, limits.memory)
        self.sessions = Sessions()
        self._domains = None if limits.budget.domain_pages is None else DomainTallies()
        self.met = 0  # number of hosts known to the job
        self.leased = 0
        self.out: dict[str, int] = {}  # number of active leases by host; hosts without one are absent

    def change(self, settings: PolitenessSettings, limits: Limits) -> None:
        """Apply new settings."""
        self._per_host = settings.per_host
        self.gate.change(settings, limits)

    def reconsider(self) -> Iterator[None]:
        """Place each host in memory by the current settings.

        Yields after every few hosts; the frontier may be used in between.
        """
        for number, host in enumerate(tuple(self._in_memory)):
            if self._in_memory.get(host.name) is host:
                self.gate.reconsider(host)
                self.place(host)
            if number % _RECONSIDERED == _RECONSIDERED - 1:
                yield

    # -- finding -----------------------------------------------------------------------------------------------

    def load(self) -> int:
        """Restore the hosts of a stored job. Returns the number of URLs queued for them."""
        queued = 0
        for rows in self._store.pages(_HOSTS):
            self.gate.resume()
            for key, value in rows:
                host = decode_host(host_name(key), value)
                if self._domains is not None:
                    self._domains.restore(host)
                if host.queue.size:
                    self._restore(host)
                    if host.politeness.latency is not None:
                        self.gate.share.meet(host.politeness.latency)
                    queued += host.queue.size
                    self.queues.hosts += 1
                    self._importance.bring(host, 0.0, host.tally.opic_score)
                    self.place(host)
                else:
                    self.gate.restore(host)
                self.queues.without_page[host.no_page] += 1
            self.trim()
        return queued

    def host(self, name: str) -> Host:
        """Return the host; a new one if the job does not know it."""
        host = self._in_memory.get(name)
        if host is not None:
            return host
        host = self._stored(name)
        if host is None:
            self.met += 1
            host = Host(name)
            if self._domains is not None:
                self._domains.attach(host)
            return host
        if not host.queue.size:
            self.gate.restore(host)
            return host
        self._restore(host)
        ready = self._ready(host)
        if ready is not None:
            host.kind = self.gate.share.kind(host)
            change_queue(host, SCHEDULE)  # its ticket is still in the schedule
            host.ready, host.place = ready, self._place(host)
        return host

    def find(self, name: str) -> Host | None:
        """Return the host, or None if the job does not know it."""
        known = self._in_memory.get(name) is not None
        known = known or (name.isascii() and self._store.get(_HOSTS, name.encode("ascii")) is not None)
        return self.host(name) if known else None

    def look(self, name: str) -> Host | None:
        """Return the host from memory or from the store, for reading only."""
        host = self._in_memory.get(name)
        if host is None and (host := self._stored(name)) is not None and host.queue.only_retries:
            self.queues.find_retry(host)
        return host

    def kept(self, name: str) -> Host | None:
        """Return the host if it is in memory."""
        return self._in_memory.get(name)

    def known(self, name: str) -> Host | None:
        """Return the working state of a host in memory or in a line; None for any other host.

        The stored record of any other host is complete.
        """
        host = self._in_memory.get(name)
        return self._stored(name) if host is None and self.gate.in_line(name) else host

    def _stored(self, name: str) -> Host | None:
        stored = self._store.get(_HOSTS, name.encode("ascii", "replace"))
        if stored is None:
            return None
        host = decode_host(name, stored)
        if self.gate.in_line(name):
            change_queue(host, WAIT)
        if self._domains is not None:
            self._domains.attach(host)
        return host

    def _siblings(self, host: Host) -> Iterator[Host]:
        """Yield the stored hosts with the same name and another port."""
        name = host.name.rpartition(":")[0].encode("ascii")
        for rows in self._store.pages(_HOSTS, name + b":", name + b";"):
            for key, value in rows:
                if (other := host_name(key)) != host.name:
                    yield decode_host(other, value)

    def _restore(self, host: Host) -> None:
        """Complete a host with queued URLs that was read from its record."""
        self.gate.restore_queued(host)
        if host.queue.retry_size:
            self.queues.find_retry(host)

    # -- turns -------------------------------------------------------------------------------------------------

    def next(self, now: float) -> Host | None:
        """Take the host whose turn it is off the heap. The caller must put it in another place."""
        moved = 0
        for _ in range(self.gate.limits.memory.passed_over):
            kinds = self.admits()
            if (due := self._schedule.pop(now, kinds)) is None:
                return None
            host = self.host(due.name)
            change_queue(host, UNSCHEDULE)
            if kinds is not ALL:
                self.rate(host)  # the host may have turned out to be slow
            ready = self._ready(host)
            if ready is not None and ready <= now and kinds[host.kind]:
                self.queues.look_ahead(host)
                # The class of the rows just read may be later than that of the cursor.
                if self._front(host) <= due.front or moved == _MOVED_MAX:
                    return host
                moved += 1
            self.place(host)
        self.trim()
        return None

    def begin_session(self, host: Host, now: float) -> None:
        """Start the turn of a host that ``next`` returned and that is not in a session."""
        self.sessions.begin(host, now)
        self._schedule.take(now)

    def next_ready(self) -> float | None:
        """Return when ``next`` will return a host if nothing else happens, in seconds since 1970; None if never."""
        return self._schedule.next_ready(self.admits())

    def admits(self) -> Kinds:
        """Return which kinds of hosts may have a slot."""
        share = self.gate.share
        quick_held, new_held, slow_held = share.held
        if new_held == slow_held and new_held + slow_held < share.least:
            return ALL  # not earlier, so that open hosts get their turns too
        quick, new, slow = self._schedule.waiting()
        active, each = self.sessions.quick, self._per_host
        # During the last request of a session, a host is in no queue and no session, but will return.
        return share.admits(active * each, max((active + quick) * each, quick_held), new=new, slow=slow)

    def _ready(self, host: Host) -> float | None:
        """Return when the host may be handed out; None if it must not be handed out before its state changes."""
        queue, politeness = host.queue, host.politeness
        queued = queue.size - queue.taken
        if not queued or host.state >= IN_LINE or host.side_request or host.waits:
            return None
        if host.leased and host.asked >= self.gate.politeness(host).per_host:
            return None
        if self.gate.closure(host) is not None:
            return self.gate.now  # not before other hosts that are due: open hosts must get their turns too
        if politeness.paused or (host.leased and self.gate.in_flight_may_use_up_budget(host)):
            return None
        next_time = politeness.next_time
        return next_time if queued > queue.retries_waiting else max(next_time, queue.retry_at)

    def _front(self, host: Host) -> int:
        importance, queue = self._importance, host.queue
        front = queue.front if queue.revisits is None else self.queues.front(queue)
        return importance.front(host, front, self.queues.hosts) if importance.active else front

    # -- places ------------------------------------------------------------------------------------------------

    def place(self, host: Host) -> None:
        """Put the host in its place: on the heap or off it."""
        ready = self._ready(host)
        if ready is not None:
            self._schedule_at(host, ready)
        else:
            self._schedule.leave(host)
            if not (host.leased or host.state >= IN_LINE):
                self.sessions.end(host)
        self._in_memory.place(host)

    def _schedule_at(self, host: Host, ready: float) -> None:
        gate, politeness = self.gate, host.politeness
        asked, share, latency = politeness.last_request, gate.share, politeness.latency
        if ready == gate.now and gate.closure(host) is not None:
            asked, kind = ready, QUICK  # URLs of a closed host take turns with others, and take no time
        elif latency is not None and latency <= share.slow_from and host.failures is NO_FAILURES:
            kind = QUICK  # the usual case
        else:
            kind = share.kind(host)
        if kind != host.kind:
            self.sessions.rate(host, kind)
        until = host.session_until
        if until and (ready > until or kind == SLOW) and not host.robots_unused:
            self.sessions.end(host)
        place = place_of(self._front(host), kind, host.session_until > 0.0)
        if host.state & QUEUED and host.place == place and place & ACTIVE and host.ready <= ready <= gate.now:
            return  # it is due and has several slots, so it keeps its turn
        if not (host.state & QUEUED and host.ready == ready and host.place == place):
            self._schedule.put(host, ready, place, asked)

    def rate(self, host: Host) -> None:
        """Determine the kind of the host."""
        kind = self.gate.share.kind(host) if self.gate.closure(host) is None else QUICK
        if kind != host.kind:
            self.sessions.rate(host, kind)

    def _place(self, host: Host) -> int:
        return place_of(self._front(host), host.kind, host.session_until > 0.0)

    def _since(self, host: Host) -> float:
        return host.politeness.last_request if self.gate.closure(host) is None else self.gate.now

    def save(self, host: Host, batch: Batch) -> None:
        """Put the record of a changed host into the batch, and the host in its place."""
        self.queues.judge(host)
        batch.put(_HOSTS, host.name.encode("ascii"), encode_host(host))
        self.place(host)

    def send_away(self, host: Host, at: float | None) -> None:
        """Put away the host whose turn it was. It returns at ``at``, or when it is called if ``at`` is None."""
        if at is not None:
            self._schedule.put(host, at, self._place(host), self._since(host))
        self._in_memory.place(host)
        if host.state >= IN_LINE:
            self._in_memory.trim_resting()

    def _called(self, name: str) -> None:
        """Put a host back on the heap when it has its turn in a line."""
        host = self._in_memory.get(name)
        if host is None:
            host = self._stored(name)
            assert host is not None
            self._restore(host)
        change_queue(host, CALL)
        self.sessions.begin(host, self.gate.now)  # its place in the group stays reserved until it enters
        self.place(host)

    def _put_away(self, host: Host) -> None:
        """Evict a host from memory and end its session, which is not stored."""
        self.queues.forget(host)
        if host.session_until:
            self.sessions.end(host)
            if host.state & QUEUED:
                self._schedule.put(host, host.ready, host.place & ~ACTIVE, self._since(host))

    def trim(self) -> None:
        """Evict surplus hosts from memory, after the caller has written all batches with their records."""
        self._in_memory.trim()

    # -- leases ------------------------------------------------------------------------------------------------

    def begin(self, lease: Lease) -> Lease:
        """Take a lease slot of the host."""
        host = lease.host
        host.leased += 1
        if host.domain is not None:
            host.domain.leased += 1
        self.leased += 1
        self.out[host.name] = self.out.get(host.name, 0) + 1
        if host.asked < self.gate.politeness(host).per_host:
            self.place(host)
        else:
            self._in_memory.place(host)  # it is off the heap and has no free slot
        return lease

    def end(self, lease: Lease, request: RequestOutcome | None, now: float) -> None:
        """Free the slot of a lease; ``request`` is None if none was made. The caller then changes the host and saves
        it."""
        host, gate = lease.host, self.gate
        gate.now = now
        state = self._take_back(lease)
        if lease.is_alone:
            host.side_request = False
        if state != INSIDE:
            return
        if request is not None:
            gate.answered(lease, request, now)
        gate.leave(lease)
        if request is None:
            gate.not_asked(host)

    def answered(self, lease: Lease, request: RequestOutcome, now: float) -> None:
        """Record the end of a request whose lease continues: the slot is free again, and the host's gap starts."""
        host, gate = lease.host, self.gate
        gate.now = now
        host.answered += 1
        change_lease(lease, ANSWER)
        gate.answered(lease, request, now)
        gate.leave(lease)
        self.place(host)

    def send(self, host: Host, now: float) -> float:
        """Ask to send a request (``Gate.send``). If it is sent, the host's gap restarts."""
        before = host.politeness.next_time
        at = self.gate.send(host, now)
        if host.state & QUEUED and host.politeness.next_time != before:
            self.place(host)
        return at

    def cancel(self, lease: Lease) -> None:
        """Undo ``begin``, as if the lease had not been given. Nothing changes on disk."""
        host = lease.host
        state = self._take_back(lease)
        if lease.is_alone:
            host.side_request = False
        elif lease.entry is not None:
            self.queues.give_back(host, lease.slot, lease.entry)
        self.place(host)
        if state == INSIDE:
            self.gate.leave(lease)

    def take_back(self, lease: Lease, now: float) -> None:
        """Undo ``begin`` after a request whose outcome does not count for the host. The caller then saves the host."""
        self.gate.now = now
        lease.host.located = False  # its address may have been looked up during the same outage
        if lease.state == INSIDE:
            lease.host.politeness.last_request = now
            self.gate.ended(lease.host, now)
        self.cancel(lease)

    def _take_back(self, lease: Lease) -> int:
        """End a lease. Returns its previous state."""
        host, state = lease.host, change_lease(lease, END)
        self.leased -= 1
        if state == ANSWERED:
            host.answered -= 1
        host.leased -= 1
        if host.domain is not None:
            host.domain.leased -= 1
        left = self.out.pop(host.name) - 1
        if left:
            self.out[host.name] = left
        return state
