"""The frontier: the known, unfinished URLs, and the order in which they are taken.

    admit     put a URL into its host's back queue, at the place given by its class and the job's order
    take      lease the first URL of the host whose turn it is
    finish    end the lease: the URL is done or returns for another try; the host's gap starts
    release   return an unused lease as if it had not been given

Each host has one back queue on disk (``queues``) and a next time. A host that can be leased waits in the front queue of
its next entry (``workbench``), on a heap ordered by the time at which the host is ready. The ``gate`` enforces gaps,
holds and lines for each lease. Two requests to one host cannot overlap, by construction: a host is on the heap or
leased, never both.

Time is an argument, in seconds since 1970. Each call puts its changes into the caller's batch. The caller writes the
batch in the same step, then calls ``written``. ``take`` and ``finish`` are O(log hosts). Memory holds a working set of
hosts, a ticket of about 90 bytes for each other host with queued URLs, and rows read ahead. Memory use does not grow
with the number of pending URLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat

from crawler.base.kv import Batch, Reader
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.ad_hoc_lease import AdHocLeases
from crawler.frontier.capacity import AT_ONCE, Bar, Serving
from crawler.frontier.entry import Entry, QueueOf, class_of_slot, queue_of, retry_slot
from crawler.frontier.host import NO_PAGE_CAUSES, Host, count_fetched, count_finished
from crawler.frontier.host_closed import HostClosed, RefusedHosts
from crawler.frontier.host_status import HostRow, HostSnapshot, describe, snapshot
from crawler.frontier.lease import (
    AddressKnown,
    Completion,
    Done,
    Lease,
    Retry,
    RobotsKnown,
    RobotsLater,
    SideRequestDone,
    TakenBack,
    Throttled,
)
from crawler.frontier.limits import Limits
from crawler.frontier.opic_score import Importance
from crawler.frontier.order import Order, Place, placed_slot, slot_of
from crawler.frontier.overrides import Overrides
from crawler.frontier.politeness import HoldReason
from crawler.frontier.queues import Places
from crawler.frontier.request_outcome import HostResult, RequestOutcome
from crawler.frontier.states import CLOSED, INSIDE, OUTSIDE
from crawler.frontier.workbench import Workbench
from crawler.url.refusal.forbidden_targets import Refusal

_ALWAYS = float("inf")
_LOOK = 1.0  # seconds between two checks of a host whose domain may have used up its budget


class Frontier:
    """Manages host queues, politeness and leases over a store."""

    def __init__(
        self,
        store: Reader,
        settings: PolitenessSettings,
        limits: Limits | None = None,
        *,
        order: Order = Order.BREADTH,
        robots: bool = True,
        queue_of: QueueOf = queue_of,
    ) -> None:
        """Without ``limits`` only the limits in ``settings`` apply. ``robots`` is True if a host's robots.txt is
        fetched before its pages. ``queue_of`` returns the name of an href's queue; URLs of one queue must share scheme,
        host and port.
        """
        self._limits = limits or Limits()
        self._robots = robots
        self.order = order
        self.queue_of = queue_of
        self._importance = Importance(active=order is Order.SCORE)
        self._workbench = Workbench(store, settings, self._limits, self._importance)
        self._gate = self._workbench.gate
        self._queues = self._workbench.queues
        self.overrides = Overrides(self._workbench)
        self.ad_hoc = AdHocLeases(self._workbench)
        self.next_number = 0  # the first unused slot number
        self.queued = 0  # number of waiting URLs

    def load(self, now: float, *, next_number: int = 0, hosts: int = 0) -> None:
        """Resume a stored job that knows ``hosts`` hosts.

        If the clock has been set back, stored times may be too far in the future; they are cut to the longest hold that
        the settings allow.
        """
        self.next_number, self._workbench.met = next_number, hosts
        self._gate.load(now)
        self.queued = self._workbench.load()

    def resume(self) -> None:
        """Make every host wait out its gap before its first request.

        This includes hosts that the job does not know: an earlier run may have requested them and lost its writes.
        """
        self._gate.resume()

    def send(self, href: str, now: float) -> float:
        """Ask to send a request for a URL of a leased host.

        Returns ``now`` if it may be sent now; it is then counted as sent. Returns a later time if the gap to another
        request has not passed; the caller must ask again then.
        """
        host = self._workbench.kept(self.queue_of(href)) if self._gate.may_overlap() else None
        return now if host is None else self._workbench.send(host, now)

    def over_budget(self, href: str) -> Refusal | None:
        """Return the refusal of a URL whose host or domain has used up its budget; None for any other URL."""
        host = self._workbench.look(self.queue_of(href))
        closed = None if host is None else self._gate.closure(host)
        return closed.refusal if closed is not None and closed.budget else None

    def change(self, settings: PolitenessSettings, limits: Limits) -> Iterator[None]:
        """Apply new settings with the same host key.

        The caller must exhaust the iterator and may use the frontier between its steps. It moves hosts that waited
        under the old settings to their places under the new ones.
        """
        self._limits = limits
        self._workbench.change(settings, limits)
        return self._workbench.reconsider()

    def alternate(self) -> None:
        """From now on, let a host's turn end after each URL, for a fetcher that gains nothing from sessions."""
        self._workbench.sessions.pages = 1

    def opening(self) -> float | None:
        """Return the start of the next permitted hours (seconds since 1970) if no host can be requested earlier.

        Returns None otherwise.
        """
        ready = self.next_ready()
        return ready if ready is not None and self._gate.own.is_opening(ready) else None

    # -- admit -------------------------------------------------------------------------------------------------

    def admit(
        self,
        entries: Iterable[Entry],
        batch: Batch,
        *,
        first: bool = False,
        places: Iterable[Place | None] = repeat(None),
    ) -> None:
        """Queue URLs that are new to the seen-set, and put the changes into ``batch``.

        With ``first``, revisits wait in their own class, and class 0 goes ahead of everything else on its host.
        ``places`` are the positions in the host queues that another fetcher asks for.
        """
        rows = []
        for entry, place in zip(entries, places, strict=False):
            if place is not None:
                slot = placed_slot(place, entry, self.next_number)
            elif first and not entry.priority:
                slot = retry_slot(0.0, self.next_number)  # due at once
            else:
                slot = slot_of(self.order, entry._replace(revisit=False) if first else entry, self.next_number)
            self.next_number += 1
            rows.append((slot, entry, True))
        self.queued += self._put(rows, batch)

    def change_class(self, rows: Iterable[tuple[bytes, Entry]], batch: Batch) -> int:
        """Move the entries waiting in these slots to their current classes. Returns the number moved.

        An entry in flight keeps its class.
        """
        return self._put([(slot, entry, False) for slot, entry in rows], batch)

    def keep_places(self, store: Reader) -> None:
        """From now on, record where URLs wait, so that ``raise_classes`` finds them."""
        self._queues.places = Places(store)

    def raise_classes(self, classes: Mapping[str, int], batch: Batch) -> int:
        """Move pending URLs forward to the given class if they wait in a later one. Returns the number moved.

        ``classes`` maps hrefs to classes. URLs in flight or waiting for another try are left alone. Has no effect
        before ``keep_places`` is called. Raises EntryError.
        """
        places, rows = self._queues.places, []
        if places is None or not classes:
            return 0
        for (href, priority), slot in zip(classes.items(), places.find(list(classes)), strict=True):
            if slot is None or class_of_slot(slot) <= priority:
                continue
            entry = self._queues.look_up(self.queue_of(href), slot)
            if entry is None or entry.href != href:
                places.forget(href, batch)
            else:
                rows.append((slot, entry._replace(priority=priority)))
        return self.change_class(rows, batch)

    def _put(self, rows: Iterable[tuple[bytes, Entry, bool]], batch: Batch) -> int:
        """Queue entries: put new ones (True) in their slots, and move others from their slots to their current classes.

        Entries in flight are skipped. Returns the number of entries put or moved.
        """
        hosts, queues, put = dict[str, Host](), self._queues, 0
        for slot, entry, is_new in rows:
            name = self.queue_of(entry.href)
            host = hosts.get(name)
            if host is None:
                host = hosts[name] = self._workbench.host(name)
            if is_new:
                queues.add(host, slot, entry, batch)
                if entry.score:
                    self._importance.bring(host, entry.score)
            elif slot in (host.queue.out or ()):
                continue
            else:
                queues.change_class(host, slot, entry, batch)
            put += 1
        for host in hosts.values():
            self._workbench.save(host, batch)
        return put

    def share(self, lease: Lease) -> float:
        """Return the importance that the leased page passes on to its links; 0 unless the order is by score."""
        return 0.0 if lease.entry is None else self._importance.share(lease.host, lease.entry)

    def credit(self, hrefs: Iterable[str], each: float, batch: Batch) -> None:
        """Add ``each`` to the score of every known URL in ``hrefs``. Has no effect unless the order is by score."""
        if not self._importance.active:
            return
        brought: dict[str, float] = {}
        for href in hrefs:
            self._importance.credit(href, each)
            name = self.queue_of(href)
            brought[name] = brought.get(name, 0.0) + each
        for name, amount in brought.items():
            host = self._workbench.find(name)
            if host is not None and host.queue.size:
                self._importance.bring(host, amount)
                self._workbench.save(host, batch)

    def written(self) -> None:
        """Evict surplus hosts from memory, after the caller has written all batches with their records."""
        self._workbench.trim()

    # -- take --------------------------------------------------------------------------------------------------

    def take(self, now: float) -> Lease | None:
        """Return a lease on the host whose turn it is, or None if no host is ready at ``now``.

        One call skips only a limited number of hosts that are not ready or must join a line. At the limit it also
        returns None, so that the caller can do other work; ``next_ready`` is then not later than ``now``.
        """
        workbench, gate = self._workbench, self._gate
        gate.now, sent_away = now, 0
        while (host := workbench.next(now)) is not None:
            gate.refused.judge(host.name)
            closed = gate.closure(host)
            if closed is not None:
                gate.withdraw(host)
                workbench.sessions.end(host)
                return self._lease_entry(host, now, closed=closed)
            if gate.in_flight_may_use_up_domain(host):
                workbench.send_away(host, now + _LOOK)
                sent_away += 1
                if sent_away == self._limits.memory.passed_over:
                    break
                continue
            if not host.session_until:
                workbench.begin_session(host, now)
            if gate.wants_address(host):
                return self._lease_side_request(host, now, address=True)
            politeness, at = host.politeness, gate.enter(host, now)
            if at == now:
                asks = self._robots and politeness.robots_until <= now and not host.robots_unused
                if asks and not gate.ignores_robots(host):
                    return self._lease_side_request(host, now)
                return self._lease_entry(host, now)
            workbench.send_away(host, at)
            sent_away += 1
            if sent_away == self._limits.memory.passed_over:
                break
        return None

    def _lease_entry(self, host: Host, now: float, *, closed: HostClosed | None = None) -> Lease:
        # After a failure, take a fresh URL before a retry: the failure may be specific to the retried page.
        fresh_first = host.failures.in_a_row > 0
        slot, entry = self._queues.pop(host, now if closed is None else _ALWAYS, fresh_first=fresh_first)
        host.robots_unused = False
        host.session_pages += 1
        sessions = self._workbench.sessions
        if host.session_pages >= sessions.pages:
            sessions.end(host)
        self.queued -= 1
        return self._workbench.begin(
            Lease(host, slot, entry, now, closed, host.kind, INSIDE if closed is None else CLOSED)
        )

    def _lease_side_request(self, host: Host, now: float, *, address: bool = False) -> Lease:
        host.side_request = True
        return self._workbench.begin(Lease(host, b"", None, now, None, host.kind, OUTSIDE if address else INSIDE))

    def next_ready(self) -> float | None:
        """Return when ``take`` will next give a lease if nothing else happens, in seconds since 1970; None if never."""
        return self._workbench.next_ready()

    def peek(self, host: Host) -> Entry:
        """Return a waiting entry of the host, which must have one. Raises EntryError if the store lacks it."""
        return self._queues.peek(host)

    # -- finish ------------------------------------------------------------------------------------------------

    def finish(self, lease: Lease, end: Completion, now: float, batch: Batch) -> None:
        """End the lease with the given completion."""
        host, workbench = lease.host, self._workbench
        if isinstance(end, Done):
            workbench.end(lease, end.request, now)
            self._done(lease, batch)
            count_finished(host, lease.entry)
            host.tally.result = max(host.tally.result, end.result)
            host.tally.pages += end.needs_scripts is not None
            host.tally.scripted += bool(end.needs_scripts)
            if end.failed:
                host.tally.failed += 1
            elif end.request is not None and not end.excluded:
                count_fetched(host, 1)
        elif isinstance(end, Retry):
            workbench.end(lease, end.request, now)
            self._again(lease, end.entry, now + end.wait, batch)
        elif isinstance(end, Throttled):
            workbench.end(lease, end.request, now)
            if end.entry is not None:
                self._again(lease, end.entry, host.politeness.next_time, batch)
            else:
                self._done(lease, batch)
                host.tally.result = max(host.tally.result, HostResult.THROTTLED)
                count_fetched(host, 1)
        elif isinstance(end, TakenBack):
            self.queued += lease.entry is not None
            workbench.take_back(lease, now)
        else:
            self._finish_side_request(lease, end, now)
        workbench.save(host, batch)

    def answered(self, lease: Lease, request: RequestOutcome, now: float) -> None:
        """Record that a lease's request ended at ``now`` while its page is still being processed.

        The host may be requested again after its gap. The caller ends the lease with the same outcome, or releases it.
        Nothing changes on disk.
        """
        self._workbench.answered(lease, request, now)

    def hold_queue(self, host: Host, held: bool) -> None:
        """Stop (True) or resume (False) handing out queued URLs of a leased host.

        Other requests to it remain possible.
        """
        host.waits = held
        self._workbench.place(host)

    def _finish_side_request(
        self, lease: Lease, end: RobotsKnown | RobotsLater | AddressKnown | SideRequestDone, now: float
    ) -> None:
        host, politeness = lease.host, lease.host.politeness
        if isinstance(end, AddressKnown):
            self._gate.locate(host, end.address)
            self._workbench.end(lease, None, now)
            self._gate.restore(host)
            return
        self._workbench.end(lease, end.request, now)
        if isinstance(end, RobotsKnown):
            politeness.robots_tries = 0
            host.robots_unused = True
            self._gate.robots_said(host, end.crawl_delay, now)
            # Keep the robots.txt valid at least until the first URL after the hold. Otherwise a host whose hold is
            # longer than the validity of its robots.txt would only ever be asked for robots.txt.
            politeness.robots_until = max(end.until, politeness.next_time + 1.0)
            if end.closed is not None:
                self._gate.refused.close(host.name, end.closed, politeness.robots_until)
        elif isinstance(end, RobotsLater):
            politeness.robots_tries += end.counts
            self._gate.hold(host, now + end.wait, HoldReason.ROBOTS_RETRY)

    def _done(self, lease: Lease, batch: Batch) -> None:
        if self._importance.active and lease.entry is not None:
            self._importance.spend(lease.host, lease.entry)
        if self._queues.places is not None and lease.entry is not None:
            self._queues.places.forget(lease.entry.href, batch)
        self._queues.remove(lease.host, lease.slot, batch)

    def _again(self, lease: Lease, again: Entry, not_before: float, batch: Batch) -> None:
        self._queues.remove(lease.host, lease.slot, batch)
        slot = retry_slot(not_before, self.next_number)
        self.next_number += 1
        self._queues.add(lease.host, slot, again, batch)
        self.queued += 1

    def release(self, lease: Lease) -> None:
        """Put back a leased URL that was not requested. It becomes the host's next URL. Nothing changes on disk."""
        self.queued += lease.entry is not None
        self._workbench.cancel(lease)

    def lend(self, lease: Lease, lent: bool) -> None:
        """With True, free the slot of a visit that only waits; with False, take the slot back. The host stays
        leased."""
        self._gate.lend(lease, lent)

    def uncount(self, ended: Iterable[tuple[Entry, bool]], batch: Batch) -> None:
        """Subtract finished URLs whose records were lost from the counts of their hosts.

        These URLs have been admitted again. ``ended`` contains each entry with True if it had failed.
        """
        for entry, failed in ended:
            host = self._workbench.host(self.queue_of(entry.href))
            if failed:
                host.tally.failed = max(0, host.tally.failed - 1)
            else:
                count_fetched(host, -min(1, host.tally.fetched))
            self._workbench.save(host, batch)

    # -- state -------------------------------------------------------------------------------------------------

    @property
    def refused(self) -> RefusedHosts:
        """The hosts to which one of our rules forbids requests."""
        return self._gate.refused

    @property
    def hosts(self) -> int:
        """Number of hosts known to the job."""
        return self._workbench.met

    @property
    def hosts_pending(self) -> int:
        """Number of hosts with URLs queued or in flight."""
        return self._queues.hosts

    @property
    def hosts_without_page(self) -> dict[str, int]:
        """Number of hosts without a fetched page although all their URLs are finished, for each reason."""
        return {cause: self._queues.without_page[cause] for cause in NO_PAGE_CAUSES}

    @property
    def busy_hosts(self) -> dict[str, int]:
        """Number of active leases of each host; hosts without any are absent."""
        return dict(self._workbench.out)

    @property
    def leased(self) -> int:
        """Number of active leases."""
        return self._workbench.leased

    def known(self, name: str) -> Host | None:
        """Return the working state of a host in memory or in a line; None for any other host.

        The stored record of any other host is complete.
        """
        return self._workbench.known(name)

    def seen(self, name: str, now: float) -> Host | None:
        """Return a read-only view of a known host at ``now``, including the holds on its key."""
        host = self._workbench.known(name)
        return None if host is None else self._gate.seen(host, now)

    def serving(self, bar: Bar | None) -> Serving:
        """Return the current capacity of the crawl. ``bar`` is the limit that all due hosts wait for, or None."""
        return Serving(bar, self._workbench.admits(), self._gate.share.slow_from)

    @property
    def slots_held(self) -> list[int]:
        """Number of slots held by quick, new and slow hosts."""
        return self._gate.share.held

    def describe(self, name: str, now: float, serving: Serving = AT_ONCE) -> HostRow | None:
        """Return the host's row in the host table, or None if the job does not know the host.

        ``serving`` is the current capacity of the crawl for due hosts.
        """
        found = self.snapshot(name, now, serving)
        return None if found is None else found.row

    def describe_known(self, name: str, now: float, serving: Serving = AT_ONCE) -> HostRow | None:
        """Return the row of a host in memory or in a line; None for any other, whose stored record is complete."""
        host = self.seen(name, now)
        if host is None:
            return None
        own, budget = self._gate.politeness(host), self._gate.budget(host)
        return describe(host, now, own, budget, serving)

    def snapshot(self, name: str, now: float, serving: Serving = AT_ONCE) -> HostSnapshot | None:
        """Return a read-only copy of the host at ``now``, or None if the job does not know the host."""
        host = self._workbench.look(name)
        if host is None:
            return None
        own, budget = self._gate.politeness(host), self._gate.budget(host)
        return snapshot(self._gate.seen(host, now), now, own, budget, serving)
