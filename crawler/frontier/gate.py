"""The politeness gate: when a host may be requested, and if not now, why.

The gap between two requests and the lease slots belong to a *host key* (``host_keys``). By default the key is the
host's name, shared by http, https and all ports. The hosts of a key take turns, and the largest Crawl-delay of any of
them applies to all. Each host still has its own queue, robots.txt, failures, snoozes and budget.

Hosts that are slow, did not respond to the last request or were never requested get only the slots that the others
leave free (``slot_share``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawler.base.settings.parts import BudgetSettings, PolitenessSettings
from crawler.frontier.backoff_policy import give_another_chance, longest_hold, note
from crawler.frontier.entry import retry_time
from crawler.frontier.host import Host, Politeness
from crawler.frontier.host_closed import HostClosed, RefusedHosts, closure, in_flight_may_use_up_domain, pages_left
from crawler.frontier.host_keys import NO_HOLD, OF_THE_KEY, Group, HostKeys, hold, under_key
from crawler.frontier.lease import Lease
from crawler.frontier.limits import Limits
from crawler.frontier.own_times import OwnTimes
from crawler.frontier.politeness import HoldReason, gap
from crawler.frontier.request_outcome import RequestOutcome
from crawler.frontier.send_times import SendTimes
from crawler.frontier.slot_share import SlotShare
from crawler.frontier.states import CALL, IN_LINE, INSIDE, WAIT, change_queue

_OWN = frozenset((HoldReason.SITE_RATE, HoldReason.HOURS))  # holds set by the settings, other than gaps


class Gate:
    """Decides when hosts may be requested."""

    def __init__(
        self,
        settings: PolitenessSettings,
        limits: Limits,
        called: Callable[[str], None],
        siblings: Callable[[Host], Iterable[Host]],
    ) -> None:
        """``called`` is called with the name of each host that has its turn in a line.

        ``siblings`` returns the other stored hosts with the same name.
        """
        self.settings = settings
        self.limits = limits
        self.now = 0.0  # the time of the latest call
        self.refused = RefusedHosts()
        self._lines = _Lines(called)
        budget = limits.budget
        self._bounded = budget != BudgetSettings() or (limits.sites is not None and limits.sites.bound)
        self.own = OwnTimes(settings, limits.sites)
        self.share = SlotShare(limits.slots, limits.slow_slots)
        self._keys = HostKeys(settings.host_key, self.politeness, limits.memory.names, siblings, limits.sites)
        self.loaded = 0.0  # time at which the run started
        self._sends = SendTimes()

    def change(self, settings: PolitenessSettings, limits: Limits) -> None:
        """Apply new settings. ``reconsider`` must then be called for each host."""
        self.settings, self.limits = settings, limits
        self.refused.hosts.clear()  # the settings may now ignore robots.txt, and our own rules are evaluated again
        self._sends.change()
        self._bounded = limits.budget != BudgetSettings() or (limits.sites is not None and limits.sites.bound)
        self.own = OwnTimes(settings, limits.sites)

    def reconsider(self, host: Host) -> None:
        """Shorten the hold of a host without a lease if its gap is now shorter, or the settings no longer hold it."""
        politeness = host.politeness
        pause, _ = self.gap(host)
        if self._keys.shared and politeness.crawl_delay is not None:
            self._keys.note_delay(host)
        if (group := self._keys.group(host)) is not None:
            for name in group.slots.resize(self.politeness(host).per_host):
                self._lines.call(name)
            if not group.slots.inside:
                _unreserve(group, pause)
        since = max(politeness.last_request, self.loaded) + pause
        if (politeness.hold_reason.is_gap or politeness.hold_reason in _OWN) and not host.asked:
            politeness.next_time = min(politeness.next_time, since)

    # -- resuming ----------------------------------------------------------------------------------------------

    def load(self, now: float) -> None:
        """Start a run at ``now``."""
        self.now = self.loaded = now

    def resume(self) -> None:
        """Start the run with stored hosts."""
        self._keys.resume(self.loaded)

    def restore(self, host: Host) -> None:
        """Adjust the next time of a stored host to the rules of this run.

        The stored time may be too late, because an earlier run had other rules or because the clock was set back.
        """
        now, politeness, keys = self.now, host.politeness, self._keys
        if self._keys.shared and politeness.crawl_delay is not None:
            keys.note_delay(host)
        if host.failures.retired and self.settings.retry_retired and politeness.next_time <= self.loaded:
            give_another_chance(host)
        # If the clock was set back after the time was stored, cut the time to the longest hold, counted from now. A
        # last request in the future proves that the clock was set back. In that case, count from the start of the run;
        # otherwise a host that leaves memory and returns would be postponed each time.
        longest, _ = self.gap(host)
        if not politeness.hold_reason.is_gap:
            longest = max(longest_hold(self.settings), self.limits.longest_retry, longest)
        since = self.loaded if politeness.last_request > now else now
        politeness.next_time = min(politeness.next_time, since + longest)
        if self._keys.shared and politeness.next_time > now and politeness.hold_reason in OF_THE_KEY:
            keys.hold(host, politeness.next_time, politeness.hold_reason, now)

    def restore_queued(self, host: Host) -> None:
        """Restore a host with queued URLs, and hold it for one gap from the start of the run.

        A request that was in flight when the previous process died left no trace; it may have been sent just before the
        process died.
        """
        self.restore(host)
        pause, reason = self.gap(host)
        hold(host.politeness, self.loaded + pause, reason)

    def retry_due(self, slot: bytes) -> float:
        """Return when a stored retry is due, in seconds since 1970.

        If the clock has been set back, the wait is capped at the longest hold.
        """
        time, longest = retry_time(slot), max(longest_hold(self.settings), self.limits.longest_retry)
        return self.loaded + longest if time > self.now + longest else time

    # -- asking ------------------------------------------------------------------------------------------------

    def gap(self, host: Host) -> tuple[float, HoldReason]:
        """Return the seconds between two requests to the host, from end to start, and the rule that sets them."""
        asked = host.politeness.crawl_delay
        if self._keys.delays:
            asked = max(asked or 0.0, self._keys.delays.get(self._keys.key(host), 0.0))
        return gap(asked, self.politeness(host))

    def politeness(self, host: Host) -> PolitenessSettings:
        """Return the politeness settings of the host."""
        return self.settings if self.limits.sites is None else self.limits.sites.of_host(host.name).politeness

    def budget(self, host: Host) -> BudgetSettings:
        """Return the budget of the host."""
        return self.limits.budget if self.limits.sites is None else self.limits.sites.of_host(host.name).budget

    def ignores_robots(self, host: Host) -> bool:
        """Return True if the host is crawled regardless of its robots.txt."""
        return self.limits.sites is not None and self.limits.sites.of_host(host.name).robots.ignore

    def closure(self, host: Host) -> HostClosed | None:
        """Return the reason why requests to the host have stopped, or None for an open host."""
        if self.refused.hosts and (refused := self.refused.closure(host.name, self.now)) is not None:
            return refused
        if not (self._bounded or host.politeness.blocked or host.failures.retired):
            return None  # the case for most hosts; this runs four times per step
        return closure(host, self.budget(host))

    def held_until(self, host: Host) -> float:
        """Return the time until which all hosts of the host's key are held, in seconds since 1970."""
        group = self._keys.group(host)
        return 0.0 if group is None else group.next_time

    def seen(self, host: Host, now: float) -> Host:
        """Return a read-only view of the host, including the holds on its key: the host itself, or a copy."""
        held = self._keys.hold_on(host, now)
        return host if held is NO_HOLD else under_key(host, held)

    def is_free(self, host: Host) -> bool:
        """Return True if the host can be leased: it is not in a line and has a free lease slot."""
        return not (host.state >= IN_LINE or host.side_request or host.asked >= self.politeness(host).per_host)

    def in_flight_may_use_up_budget(self, host: Host) -> bool:
        """Return True if the requests in flight to the host may use up its budget."""
        return self._bounded and pages_left(host, self.budget(host)) == 0

    def in_flight_may_use_up_domain(self, host: Host) -> bool:
        """Return True if the requests in flight to hosts of the host's domain may use up the domain's budget."""
        return host.domain is not None and in_flight_may_use_up_domain(host, self.budget(host))

    def wants_address(self, host: Host) -> bool:
        """Return True if the address of the host must be looked up before any request."""
        if host.located or self.settings.host_key != "address":
            return False
        return not host.inside  # the key must not change while a request is in flight

    def locate(self, host: Host, address: str | None) -> None:
        """Store the address of the host. None means not found; an earlier address then still applies."""
        politeness = host.politeness
        host.located = True
        if address is not None and address != politeness.address:
            self.withdraw(host)  # leave the lines of its previous groups
            politeness.address, host.key = address, ""

    def share_a_key(self, host: Host, other: Host) -> bool:
        """Return True if the two hosts have the same host key: one gap and one set of lease slots."""
        return self._keys.key(host) == self._keys.key(other)

    def enter(self, host: Host, now: float) -> float | None:
        """Ask for a place for a request at ``now``. The host's own next time must have come.

        Returns ``now`` if the request may be made; the gap after it is then reserved. Returns a later time if the host
        must wait until then, and None if it waits in a line until it is called.
        """
        self.now = now
        if self.own.has_hours and (opens := self.own.opens(self.politeness(host), now)) > now:
            self.withdraw(host)  # so that hosts of its key with other hours can go first
            hold(host.politeness, opens, HoldReason.HOURS)
            return opens
        group = self._keys.entering(host, now)
        if group is not None:
            if not group.slots.enter(host.name):
                self._lines.wait(host)
                return None
            if group.next_time > now:
                group.slots.step_back(host.name)
                hold(host.politeness, group.next_time, group.hold_reason)  # the host table shows this reason
                return group.next_time
        if self.limits.sites is not None and (turn := self.own.turn(host.name, now)) > now:
            if group is not None:
                group.slots.step_back(host.name)
            hold(host.politeness, turn, HoldReason.SITE_RATE)
            return turn
        self.share.held[host.kind] += 1
        host.inside += 1
        self.hold_gap(host, now)
        return now

    def again(self, host: Host, now: float) -> float:
        """Ask for another request at ``now`` within a lease that has a place.

        Returns ``now`` if it may be made; the gap after it is then reserved. Returns a later time if it must wait until
        then.
        """
        self.now = now
        at = host.politeness.next_time
        at = max(at, self.held_until(host))
        if at <= now and self.own.has_hours:
            at = self.own.opens(self.politeness(host), now)
        if at <= now and self.limits.sites is not None:
            at = self.own.turn(host.name, now)
        if at > now:
            return at
        self.hold_gap(host, now)
        return now

    def send(self, host: Host, now: float) -> float:
        """Ask to send a request that has a place.

        Returns ``now`` if it may be sent now; it is then counted as sent. Returns a later time if another request with
        the same gap was sent first; the caller must ask again then.
        """
        if not self.may_overlap():
            return now
        key = self._keys.key(host)
        at = self._sends.next_time(key, self.gap(host)[0], now)
        if at == now:
            self._sends.hold(key, self.hold_gap(host, now), now)
        return at

    def ended(self, host: Host, now: float) -> float:
        """Hold the host for its gap after a request. Returns the gap in seconds."""
        pause = self.hold_gap(host, now)
        if self.may_overlap():
            self._sends.hold(self._keys.key(host), pause, now)
        return pause

    def may_overlap(self) -> bool:
        """Return True if requests with the same gap may be in flight at the same time."""
        return self.settings.per_host > 1 or self.limits.sites is not None

    def withdraw(self, host: Host) -> None:
        """Remove the host from all lines, and give up a place reserved for it."""
        self._lines.leave(host)
        self.own.give_back(host.name)
        if (group := self._keys.group(host)) is not None:
            self._lines.call(group.slots.withdraw(host.name))

    def in_line(self, name: str) -> bool:
        """Return True if the host is in a line. Only the gate knows; the stored record does not contain it."""
        return name in self._lines

    # -- answers -----------------------------------------------------------------------------------------------

    def leave(self, lease: Lease) -> None:
        """Release the slot of a lease."""
        host = lease.host
        if not lease.lent:
            self.share.held[lease.kind] -= 1
        host.inside -= 1
        if self._keys.groups and (group := self._keys.groups.get(host.key)) is not None:
            self._lines.call(group.slots.leave())

    def lend(self, lease: Lease, lent: bool) -> None:
        """With True, free the slot of a visit that only waits; with False, take the slot back."""
        lease.lent = lent
        if lease.state == INSIDE:
            self.share.held[lease.kind] += -1 if lent else 1

    def answered(self, lease: Lease, request: RequestOutcome, now: float) -> None:
        """Record the outcome of a request that ended at ``now``.

        Holds the host for its gap, or for longer if the outcome requires it.
        """
        host = lease.host
        held = note(host, request, lease.taken_at, now, self.politeness(host))
        politeness = host.politeness
        politeness.last_request = now
        group = self._keys.groups.get(host.key) if self._keys.groups else None
        if group is not None:
            group.last_request = now
        pause = self.ended(host, now)
        if held is not None:
            wait, reason = held
            hold(politeness, now + wait, reason)
            if reason not in OF_THE_KEY:
                self.withdraw(host)  # a place reserved for it would be blocked during the whole hold
            elif group is not None:
                hold(group, now + wait, reason)
        if lease.kind or not host.tally.fetched & 7:  # of the responses of quick hosts, sample one in eight
            self.share.learn(lease.kind, request.seconds, pause, answered=not host.failures.in_a_row)
        if host.failures.retired:
            politeness.next_time, politeness.hold_reason = now, HoldReason.RETIRED

    def hold_gap(self, host: Host, now: float) -> float:
        """Hold the host for its gap from ``now`` on. Returns the gap in seconds."""
        politeness = host.politeness
        settings = self.settings if self.limits.sites is None else self.limits.sites.of_host(host.name).politeness
        asked, keys = politeness.crawl_delay, self._keys
        if keys.delays and (largest := keys.delays.get(host.key)) is not None:
            asked = largest if asked is None or asked < largest else asked
        pause, reason = gap(asked, settings)
        if politeness.next_time < now + pause:  # inlined `hold`: this runs twice for each URL
            politeness.next_time, politeness.hold_reason = now + pause, reason
        if keys.groups and (group := keys.groups.get(host.key)) is not None:
            hold(group, now + pause, reason)
        return pause

    def robots_said(self, host: Host, crawl_delay: float | None, now: float) -> None:
        """Store the Crawl-delay from the host's robots.txt; the request for that file ended at ``now``."""
        before, host.politeness.crawl_delay = host.politeness.crawl_delay, crawl_delay
        if self._keys.shared:
            self._keys.note_delay(host, before)
        self.hold_gap(host, now)

    def hold(self, host: Host, until: float, reason: HoldReason) -> None:
        """Hold a single host until a time, unless another rule holds it longer."""
        hold(host.politeness, until, reason)

    def not_asked(self, host: Host) -> None:
        """Undo the reserved gap after a place has been given back without a request.

        The gap after the last real request still applies.
        """
        pause, _ = self.gap(host)
        if not host.asked:
            _unreserve(host.politeness, pause)
        group = self._keys.group(host)
        if group is not None and not group.slots.inside:
            _unreserve(group, pause)


class _Lines:
    """The hosts that wait in any line."""

    def __init__(self, called: Callable[[str], None]) -> None:
        self._called = called
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def wait(self, host: Host) -> None:
        """Add the host."""
        change_queue(host, WAIT)
        self._names.add(host.name)

    def leave(self, host: Host) -> None:
        """Remove the host."""
        change_queue(host, CALL)
        self._names.discard(host.name)

    def call(self, name: str | None) -> None:
        """Remove a host that has its turn, and report it."""
        if name is not None:
            self._names.discard(name)
            self._called(name)


def _unreserve(held: Politeness | Group, pause: float) -> None:
    if held.hold_reason.is_gap:
        held.next_time = min(held.next_time, held.last_request + pause)
