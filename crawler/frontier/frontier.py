"""The frontier: the URLs known and unfinished, and the order to take them in.

    admit     a URL joins its host's back queue, at the place that its class and the job's order give it
    take      the host whose turn it is gives the head of its queue as a lease
    finish    the URL is done, or goes back for another try; the host may be asked again after its gap

Each host has one back queue on disk (``queues``) and a next time. Hosts that may be handed out stand on one heap, that
of the class of their next entry, by the time at which they are ready (``schedule``). A host that is handed out leaves
the heap, and comes back when its lease ends (with N lease slots it stays on until all N are out), so two requests to
one host, or to its robots.txt, cannot overlap and its gap cannot be cut short: there is nothing to check.

Time is an argument, and what must be stored is put into the batch that the caller writes in the same step; ``take``
comes after that and is O(log hosts). Memory is bounded by a working set of hosts (``hosts``), a ticket of some 90 bytes
for each further one with something queued, and a read-ahead, never by the number of pending URLs.
"""

from __future__ import annotations

from collections.abc import Iterable

from crawler.frontier.ad_hoc_lease import AdHocLeases
from crawler.frontier.entry import Entry, retry_slot, retry_time
from crawler.frontier.gate import Gate, Limits
from crawler.frontier.host import Host, decode_host, encode_host, host_name
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.importance import Importance
from crawler.frontier.lease import Lease
from crawler.frontier.order import Order, slot_of
from crawler.frontier.overrides import Overrides
from crawler.frontier.politeness import HoldReason
from crawler.frontier.queues import BackQueues
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.frontier.row import HostRow, describe
from crawler.frontier.schedule import Schedule
from crawler.frontier.working_set import WorkingSet
from crawler.kv import Batch, Family, Reader
from crawler.settings import PolitenessSettings
from crawler.urls import host_key

_MOVED_MAX = 16  # hosts that one call of take puts into the front queue of another class
_PASSED_MAX = 256  # hosts that one call of take sends into a line, or passes over for not being ready
_ALWAYS = float("inf")
_HOSTS = Family.HOSTS  # to look a member up in its enumeration takes longer than all that a step does with it
_ANSWERED = RequestOutcome()
_THROTTLED = RequestOutcome(failure=FailureClass.THROTTLED)


class Frontier:
    """Host queues, politeness and leases over a store."""

    def __init__(
        self,
        store: Reader,
        settings: PolitenessSettings,
        *,
        limits: Limits | None = None,
        order: Order = Order.BREADTH,
        robots: bool = True,
        next_number: int = 0,
        hosts: int = 0,
    ) -> None:
        """``limits`` are none but those of ``settings`` where not given; ``robots``: robots.txt is asked for first;
        ``next_number``: the first slot number that was never used; ``hosts``: how many the job has met."""
        self._store = store
        self._gate = Gate(settings, limits or Limits(), self._called)
        self._per_host = settings.per_host
        self._robots = robots
        self.order = order
        self._importance = Importance(active=order is Order.SCORE)
        self._queues = BackQueues(store, self._retry_due, self._importance.best if order is Order.SCORE else None)
        self._hosts = WorkingSet(self._queues.forget)
        self.overrides = Overrides(self._gate, self._met, self._store_host)
        self.ad_hoc = AdHocLeases(
            self._gate, self._met, self._host, self._store_host, self._leased, self._end, self.release
        )
        self._schedule = Schedule()
        self._now = 0.0  # the last time that was named
        self.next_number = next_number
        self.hosts = hosts
        self.queued = 0
        self.leased = 0

    # -- resuming ----------------------------------------------------------------------------------------------

    def load(self, now: float) -> None:
        """Take up the hosts of a stored job; times of a clock that was set back since are cut to what is allowed."""
        self._now = now
        self._gate.load(now)
        for rows in self._store.pages(Family.HOSTS):
            for key, value in rows:
                host = decode_host(host_name(key), value)
                if host.size:
                    self._settle(host)
                    self.queued += host.size
                    self._queues.hosts += 1
                    self._importance.bring(host, 0.0, host.opic_score)
                    self._place(host)
                else:
                    self._gate.take_up(host, now)
            self.written()

    def _settle(self, host: Host) -> None:
        """A host with something queued was taken up from its record."""
        self._gate.settle(host, self._now)
        if host.retry_size:
            self._queues.find_retry(host)

    def _retry_due(self, slot: bytes) -> float:
        return self._gate.retry_due(retry_time(slot), self._now)

    # -- admit -------------------------------------------------------------------------------------------------

    def admit(self, entries: Iterable[Entry], batch: Batch) -> None:
        """Queue URLs that the seen-set found new, and put what makes that durable into ``batch``."""
        touched: dict[str, Host] = {}
        for entry in entries:
            name = host_key(entry.href)
            host = touched.get(name)
            if host is None:
                host = touched[name] = self._host(name)
            slot = slot_of(self.order, entry, self.next_number)
            self.next_number += 1
            self._queues.append(host, slot, entry, batch)
            self.queued += 1
            self._importance.bring(host, entry.score)
        for name, host in touched.items():
            batch.put(_HOSTS, name.encode("ascii"), encode_host(host))
            self._place(host)

    def share(self, lease: Lease) -> float:
        """The importance that the page of a lease hands on to what it links to; 0 unless the order is by score."""
        return 0.0 if lease.entry is None else self._importance.share(lease.host, lease.entry)

    def credit(self, hrefs: Iterable[str], each: float, batch: Batch) -> None:
        """Links to URLs that were known already bring them so much each; only where the order is by score."""
        for name, amount in self._importance.credit(hrefs, each).items():
            host = self._met(name)
            if host is not None and host.size:
                self._importance.bring(host, amount)
                self._store_host(host, batch)

    def written(self) -> None:
        """All batches were written: hosts that are too many leave memory, and are read from the store again."""
        self._hosts.trim()

    def _host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is not None:
            return host
        host = self._stored(name)
        if host is None:
            self.hosts += 1
            return Host(name)
        if not host.size:
            self._gate.take_up(host, self._now)
            return host
        self._settle(host)
        ready = self._ready(host)
        if ready is not None:
            host.on_heap, host.ready, host.place = True, ready, self._front(host)  # its ticket was left there
        return host

    def _called(self, name: str) -> None:
        """The turn of a host that stood in a line has come."""
        host = self._hosts.get(name)
        if host is None:
            host = self._stored(name)
            assert host is not None
            self._settle(host)
        host.in_line = False
        self._place(host)

    # -- take --------------------------------------------------------------------------------------------------

    def take(self, now: float) -> Lease | None:
        """A lease on the host whose turn it is, or None when none is ready at ``now``; None also when so many were not,
        or were sent into a line, that something else may want its turn: ``next_ready`` is then not after ``now``."""
        self._now = now
        in_line = 0
        while (host := self._next_host(now)) is not None:
            closed = self._gate.closure(host)
            if closed is not None:
                self._gate.withdraw(host)
                return self._lease_entry(host, now, closed=closed)
            if self._gate.wants_address(host):
                return self._lease_side_request(host, now, address=True)
            slow = self._gate.is_slow(host)
            at = self._gate.enter(host, now, slow=slow)
            if at == now:
                if self._robots and host.robots_until <= now:
                    return self._lease_side_request(host, now, slow=slow)
                return self._lease_entry(host, now, slow=slow)
            if at is not None:
                self._schedule.put(host, at, self._front(host))
            self._hosts.place(host)
            if host.in_line:
                self._hosts.trim_resting()
                if (in_line := in_line + 1) == _PASSED_MAX:
                    break
        return None

    def _next_host(self, now: float) -> Host | None:
        """The host whose turn it is, off the heap, and in no other place yet."""
        moved = 0
        for _ in range(_PASSED_MAX):
            if (due := self._schedule.pop(now)) is None:
                return None
            host = self._host(due.name)
            host.on_heap = False
            ready = self._ready(host)
            if ready is not None and ready <= now:
                self._queues.look_ahead(host)
                # What was read may be of a class that comes later than that of the cursor.
                if self._front(host) <= due.place or moved == _MOVED_MAX:
                    return host
                moved += 1
            self._place(host)
        self._hosts.trim()
        return None

    def _lease_entry(self, host: Host, now: float, *, closed: HostClosed | None = None, slow: bool = False) -> Lease:
        # Of a host that gave no answer something else is asked for: it may have been the page that it failed on.
        fresh_first = host.failures_in_a_row > 0
        slot, entry = self._queues.pop(host, now if closed is None else _ALWAYS, fresh_first=fresh_first)
        self.queued -= 1
        return self._leased(Lease(host, slot, entry, now, closed=closed, slow=slow))

    def _lease_side_request(self, host: Host, now: float, *, address: bool = False, slow: bool = False) -> Lease:
        host.side_request = True
        return self._leased(Lease(host, b"", None, now, slow=slow, address=address))

    def _leased(self, lease: Lease) -> Lease:
        host = lease.host
        host.leased += 1
        self.leased += 1
        if host.leased < self._per_host:
            self._place(host)
        else:
            self._hosts.place(host)  # it was taken off the heap, and has no other lease to give
        return lease

    def next_ready(self) -> float | None:
        """The time at which ``take`` will next give a lease if nothing else happens; None: never."""
        return self._schedule.next_ready()

    def peek(self, host: Host) -> Entry:
        """An entry of the host that waits; the host must have one (EntryError: the store lacks it)."""
        return self._queues.peek(host)

    def _ready(self, host: Host) -> float | None:
        """When the host may be handed out; None: not while it is as it is."""
        queued = host.size - host.taken
        if not queued or host.leased >= self._per_host:
            return None
        closed = self._gate.closure(host) is not None
        if self._gate.rests(host, closed=closed):
            return None
        if closed:
            return self._now  # not before: the hosts that may be asked have their turns too
        return host.next_time if queued > host.retries_waiting else max(host.next_time, host.retry_at)

    def _front(self, host: Host) -> int:
        return self._importance.front(host, self._queues.hosts)

    def _place(self, host: Host) -> None:
        """Put the host where it belongs: on the heap once, or nowhere."""
        ready = self._ready(host)
        if ready is None:
            self._schedule.leave(host)
        else:
            self._schedule.put(host, ready, self._front(host))
        self._hosts.place(host)

    # -- finish ------------------------------------------------------------------------------------------------

    def finish(
        self,
        lease: Lease,
        now: float,
        batch: Batch,
        *,
        requested: bool = True,
        failed: bool = False,
        excluded: bool = False,
        request: RequestOutcome = _ANSWERED,
    ) -> None:
        """The URL is done. ``requested`` is False when its host was not asked (robots.txt or a limit refused it):
        the gap then does not start anew. ``failed`` counts it among the host's failures, ``excluded`` not at all,
        ``request`` is what the last request came to."""
        host = lease.host
        self._end(lease, now, request if requested else None)
        self._done(lease, batch)
        if failed:
            host.failed += 1
        elif requested and not excluded:
            host.fetched += 1
        self._store_host(host, batch)

    def uncount(self, ended: Iterable[tuple[Entry, bool]], batch: Batch) -> None:
        """Finished URLs, and whether each had failed, were admitted again for want of their records: their hosts count
        them no more."""
        for entry, failed in ended:
            host = self._host(host_key(entry.href))
            if failed:
                host.failed = max(0, host.failed - 1)
            else:
                host.fetched = max(0, host.fetched - 1)
            self._store_host(host, batch)

    def retry(
        self, lease: Lease, again: Entry, wait: float, now: float, batch: Batch, request: RequestOutcome = _ANSWERED
    ) -> None:
        """The URL goes through its host's queue again, no earlier than ``wait`` seconds from now."""
        self._end(lease, now, request)
        self._again(lease, again, now + wait, batch)
        self._store_host(lease.host, batch)

    def throttle(
        self,
        lease: Lease,
        again: Entry | None,
        retry_after: float | None,
        now: float,
        batch: Batch,
        request: RequestOutcome = _THROTTLED,
    ) -> None:
        """The host answered 429 or 503: it is held, all of it. ``again`` is the URL's next try, or None when it
        has had all of them and is done."""
        host = lease.host
        self._end(lease, now, request, retry_after)
        if again is None:
            self._done(lease, batch)
            host.fetched += 1
        else:
            self._again(lease, again, host.next_time, batch)
        self._store_host(host, batch)

    def release(self, lease: Lease) -> None:
        """Hand back a URL that was not asked; it is the host's next one. Nothing changes on disk."""
        host = lease.host
        self.leased -= 1
        host.leased -= 1
        if lease.entry is None:
            host.side_request = False
        else:
            self._queues.give_back(host, lease.slot, lease.entry)
            self.queued += 1
        self._place(host)
        if lease.entered:
            self._gate.leave(host, slow=lease.slow)

    def robots_known(
        self,
        lease: Lease,
        until: float,
        crawl_delay: float | None,
        now: float,
        batch: Batch,
        request: RequestOutcome = _ANSWERED,
    ) -> None:
        """The host's robots.txt was answered, or given up: what it says holds ``until`` then."""
        host = lease.host
        self._end(lease, now, request)
        host.robots_until, host.robots_tries, host.crawl_delay = until, 0, crawl_delay
        self._gate.hold_gap(host, now)
        self._store_host(host, batch)

    def robots_later(
        self, lease: Lease, wait: float, now: float, batch: Batch, request: RequestOutcome = _ANSWERED
    ) -> None:
        """robots.txt could not be had: the host is held and asked for it again after ``wait`` seconds."""
        host = lease.host
        self._end(lease, now, request)
        host.robots_tries += 1
        self._gate.hold(host, now + wait, HoldReason.ROBOTS_RETRY)
        self._store_host(host, batch)

    def address_known(self, lease: Lease, address: str | None, now: float, batch: Batch) -> bool:
        """The address that the host answers at, or None when it could not be had: the host then stands for itself.
        Returns whether it was had."""
        host = lease.host
        if address != host.address:
            self._gate.withdraw(host)  # from the line of the group that it leaves
        host.address, host.located = address, True
        self._end(lease, now, None)
        self._gate.take_up(host, now)
        self._store_host(host, batch)
        return address is not None

    def _end(self, lease: Lease, now: float, request: RequestOutcome | None, retry_after: float | None = None) -> None:
        host, self._now = lease.host, now
        self.leased -= 1
        host.leased -= 1
        host.side_request = host.side_request and lease.entry is not None
        if not lease.entered:
            return
        if request is not None:
            self._gate.answered(host, request, lease.taken_at, now, retry_after)
        self._gate.leave(host, slow=lease.slow)
        if request is None:
            self._gate.not_asked(host)

    def _done(self, lease: Lease, batch: Batch) -> None:
        if lease.entry is not None:
            self._importance.spend(lease.host, lease.entry)
        self._queues.remove(lease.host, lease.slot, batch)

    def _again(self, lease: Lease, again: Entry, not_before: float, batch: Batch) -> None:
        host = lease.host
        self._queues.remove(host, lease.slot, batch)
        slot = retry_slot(not_before, self.next_number)
        self.next_number += 1
        self._queues.put_retry(host, slot, again, batch)
        self.queued += 1

    def _store_host(self, host: Host, batch: Batch) -> None:
        batch.put(_HOSTS, host.name.encode("ascii"), encode_host(host))
        self._place(host)

    def _met(self, name: str) -> Host | None:
        known = self._hosts.get(name) is not None
        known = known or (name.isascii() and self._store.get(Family.HOSTS, name.encode("ascii")) is not None)
        return self._host(name) if known else None

    # -- looking at it -----------------------------------------------------------------------------------------

    def known(self, name: str) -> Host | None:
        """The working state of a host in memory or in a line; of any other the stored record says all."""
        host = self._hosts.get(name)
        if host is None and self._gate.may_be_in_line(name):
            host = self._stored(name)
            return host if host is not None and host.in_line else None
        return host

    def _stored(self, name: str) -> Host | None:
        stored = self._store.get(Family.HOSTS, name.encode("ascii", "replace"))
        if stored is None:
            return None
        host = decode_host(name, stored)
        host.in_line = self._gate.in_line(host)
        return host

    @property
    def hosts_pending(self) -> int:
        """Hosts with something queued or in flight."""
        return self._queues.hosts

    def describe(self, name: str, now: float) -> HostRow | None:
        """The host's row in the table of hosts; None when the job has met no such host."""
        host = self._hosts.get(name) or self._stored(name)
        return None if host is None else describe(host, now, self._gate.settings, self._gate.limits.budget)
