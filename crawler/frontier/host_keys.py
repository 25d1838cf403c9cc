"""Host keys: which hosts share one gap and one set of lease slots.

    host      all hosts of one name: every port, http and https (the default)
    origin    none: each scheme, host and port has its own
    domain    all hosts of a registrable domain, by the public suffix list
    address   all hosts at one IP address

Under any rule, hosts whose settings name a group (``[[site]] group``) have that group as their key.

Hosts that share a key are a *group*. Most names have a single origin. A name therefore becomes a group only when a
second origin of it enters the gate while the first may still be held. Until then the gate remembers only the host that
entered last, and the times of that host apply to the name.

Memory: a group is forgotten when its gap has passed and none of its hosts is in flight or in a line. If more than
``MemoryLimits.names`` names are held for longer than that, the records of the other hosts of a name are looked up when
it is requested. Keys with a Crawl-delay above ``politeness.delay`` are kept, since the delay applies to all hosts of
the key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.settings.parts import PolitenessSettings
from crawler.base.settings.sites import Sites
from crawler.frontier.fair_semaphore import FairSemaphore
from crawler.frontier.host import Host, Politeness
from crawler.frontier.politeness import HoldReason, gap
from crawler.frontier.states import IN_LINE, WAIT, change_queue
from crawler.url.urls.domain import registrable_domain

QUIET = 3_600.0  # seconds after the start of a run during which gaps of earlier requests are checked
NAMED = "="  # prefix of the keys of named groups; no other key starts with it
GROUPS_MAX = 10_000  # above this number, obsolete groups are evicted
# These reasons hold all hosts of the key. Others hold only the host itself.
OF_THE_KEY = frozenset(
    (
        HoldReason.GAP,
        HoldReason.CRAWL_DELAY,
        HoldReason.RETRY_AFTER,
        HoldReason.BACKOFF,
        HoldReason.BLOCKED,
        HoldReason.ERRORS,
    )
)


class Group(Struct):
    """Hosts that share one gap and one set of lease slots."""

    slots: FairSemaphore
    next_time: float = 0.0
    last_request: float = 0.0
    hold_reason: HoldReason = HoldReason.NONE


class KeyHold(NamedTuple):
    """The hold of a key's other hosts on one of its hosts: the end of the hold, in seconds since 1970, and its reason.

    ``busy`` is True if the other hosts use all lease slots of the key. ``crawl_delay`` is their largest Crawl-delay, if
    it is above ``politeness.delay``.
    """

    until: float = 0.0
    reason: HoldReason = HoldReason.NONE
    busy: bool = False
    crawl_delay: float = 0.0


NO_HOLD = KeyHold()


def under_key(host: Host, held: KeyHold) -> Host:
    """Return a read-only view of the host, including the holds on its key: the host itself, or a copy."""
    politeness = host.politeness
    if held.crawl_delay > (politeness.crawl_delay or 0.0):
        politeness = replace(politeness, crawl_delay=held.crawl_delay)
    if held.until > politeness.next_time:
        politeness = replace(politeness, next_time=held.until, hold_reason=held.reason)
    if politeness is host.politeness and (host.state >= IN_LINE or not held.busy):
        return host
    seen = copy(host)
    seen.politeness = politeness
    if held.busy:
        change_queue(seen, WAIT)
    return seen


class HostKeys:
    """The keys of a run, and the groups that are held or in use.

    ``groups`` and ``delays`` are read-only for callers: the group of each key, and the largest Crawl-delay of each key
    if it is above ``politeness.delay``.
    """

    def __init__(
        self,
        rule: str,
        settings: Callable[[Host], PolitenessSettings],
        names_max: int,
        siblings: Callable[[Host], Iterable[Host]],
        sites: Sites | None = None,
    ) -> None:
        """``rule`` is ``politeness.host_key``. ``settings`` returns the politeness settings of a host.

        ``siblings`` returns the stored hosts of the same name, and may be slow. ``sites`` defines the groups of hosts.
        """
        self._sites = sites if sites is not None and sites.grouped else None
        self.shared = rule != "origin" or self._sites is not None  # True if any hosts share a key
        self._rule = rule
        self._settings = settings
        self._names_max = names_max
        self._siblings = siblings
        self._looks = False  # True if the hold of a name may be only in the store
        self.groups: dict[str, Group] = {}
        self.delays: dict[str, float] = {}
        self._alone: dict[str, Host] = {}  # the host that entered last, for each name without a group
        self._prune_at = GROUPS_MAX
        self._resumed_at = -math.inf  # never

    def resume(self, at: float) -> None:
        """Start a run with stored hosts at ``at``: no host is requested before one gap has passed.

        A request that was in flight when the last process died left no trace.
        """
        self._resumed_at = at

    def key(self, host: Host) -> str:
        """Return the key of the host."""
        if not host.key:
            name, _, port = host.name.rpartition(":")
            if self._sites is not None and (named := self._sites.of_host(host.name).group) is not None:
                host.key = NAMED + named
                return host.key
            match self._rule:
                case "host" if port.isdigit():  # a queue whose name has another form is its own key
                    host.key = name
                case "domain":
                    host.key = registrable_domain(name)
                case "address":
                    host.key = host.politeness.address or host.name
                case _:
                    host.key = host.name
        return host.key

    def _is_name(self, key: str) -> bool:
        """Return True if all hosts of the key have one name."""
        return self._rule == "host" and not key.startswith(NAMED)

    def group(self, host: Host) -> Group | None:
        """Return the group of the host, or None if no active host shares its key."""
        return self.groups.get(self.key(host)) if self.groups else None

    def hold_on(self, host: Host, now: float) -> KeyHold:
        """Return the hold that the other hosts of its key impose on the host."""
        if not self.shared:
            return NO_HOLD
        held = self._held_by_others(host, now)
        delay = self.delays.get(self.key(host), 0.0) if self.delays else 0.0
        return held._replace(crawl_delay=delay) if delay else held

    def _held_by_others(self, host: Host, now: float) -> KeyHold:
        group = self.group(host)
        if group is not None:
            return KeyHold(group.next_time, group.hold_reason, not (host.asked or group.slots.admits(host.name)))
        first = self._alone.get(self.key(host))
        if first is None or first is host or first.name == host.name:
            return NO_HOLD
        return KeyHold(*self._held(first, now), first.inside >= self._settings(first).per_host)

    def entering(self, host: Host, now: float) -> Group | None:
        """Return the group that a host enters at ``now``, or None if no active host shares its key."""
        if not self.shared:
            return None
        key = host.key or self.key(host)
        other = self._alone.get(key)
        if other is host:
            return None  # the usual case
        group = self.groups.get(key)
        if group is not None:
            if host.politeness.crawl_delay is not None:
                self.note_delay(host)  # another host of the key may have lowered it
            return group
        if not self._is_name(key):
            return self._begin(host, now)
        if other is None:
            if now < self._resumed_at + QUIET and self._resumed_at + self._gap(host) > now:
                return self._begin(host, now)
            if self._looks and (group := self._look(host, now)) is not None:
                return group
            if len(self._alone) + len(self.groups) >= self._prune_at:
                self._make_room(now)
        elif other.name != host.name:
            return self._begin(host, now)
        self._alone[key] = host
        return None

    def hold(self, host: Host, until: float, reason: HoldReason, now: float) -> None:
        """Hold all hosts of the host's key until a time that is later than ``now``."""
        key = self.key(host)
        group = self.groups.get(key)
        if group is None:
            if key in self._alone and self._alone[key].name == host.name:
                return  # the key is held by this host's own next time
            if self._is_name(key) and len(self.groups) >= self._names_max:
                self._looks = True
                return
            group = self._begin(host, now)
        hold(group, until, reason)

    def note_delay(self, host: Host, before: float | None = None) -> None:
        """Apply the Crawl-delay of the host to all hosts of its key. ``before`` is its previous value."""
        key, delay = self.key(host), host.politeness.crawl_delay or 0.0
        known, least = self.delays.get(key, 0.0), self._settings(host).delay
        if delay > max(known, least):
            self.delays[key] = delay
            if (group := self.groups.get(key)) is not None:
                hold(group, self._resumed_at + self._gap(host), HoldReason.CRAWL_DELAY)
        elif delay < known and before == known:
            if self._is_name(key):
                delay = max(delay, *(each.politeness.crawl_delay or 0.0 for each in self._siblings(host)), 0.0)
            if delay > least:
                self.delays[key] = delay
            else:
                del self.delays[key]

    def _look(self, host: Host, now: float) -> Group | None:
        """Return the group of a name whose hold is recorded only in the store, or None if the name is not held."""
        held = [self._held(each, now) for each in self._siblings(host)]
        until, reason = max(held, default=(0.0, HoldReason.NONE))
        if until <= now:
            return None
        group = self._begin(host, now)
        hold(group, until, reason)
        return group

    def _gap(self, host: Host) -> float:
        settings = self._settings(host)
        return gap(self.delays.get(host.key), settings)[0] if self.delays else settings.delay

    def _begin(self, host: Host, now: float) -> Group:
        """Create the group of a host; the host remembered for the name so far is its first member."""
        if len(self._alone) + len(self.groups) >= self._prune_at:
            self._make_room(now)
        key = host.key
        group = self.groups[key] = Group(FairSemaphore(self._settings(host).per_host))
        hold(group, self._resumed_at + self._gap(host), HoldReason.GAP)
        first = self._alone.pop(key, None)
        if first is not None:
            group.slots.inside = first.inside
            group.last_request = first.politeness.last_request
            hold(group, *self._held(first, now))
        return group

    def _held(self, host: Host, now: float) -> tuple[float, HoldReason]:
        """Return the time until which a single host holds its key, and the reason."""
        politeness = host.politeness
        if politeness.hold_reason in OF_THE_KEY:
            return politeness.next_time, politeness.hold_reason
        # All other reasons hold only the host itself; its key is held only for the gap.
        asked = max(politeness.crawl_delay or 0.0, self.delays.get(host.key, 0.0))
        pause, reason = gap(asked, self._settings(host))
        return (now if host.inside else politeness.last_request) + pause, reason

    def _make_room(self, now: float) -> None:
        over = [key for key, group in self.groups.items() if group.slots.unused and group.next_time <= now]
        for key in over:
            del self.groups[key]
        for key, host in list(self._alone.items()):
            if host.inside:
                continue
            until, reason = self._held(host, now)
            del self._alone[key]
            if until > now and len(self.groups) >= self._names_max:
                self._looks = True
            elif until > now:  # a group takes less memory than a host
                self.groups[key] = Group(
                    FairSemaphore(self._settings(host).per_host), until, host.politeness.last_request, reason
                )
        self._prune_at = max(GROUPS_MAX, 2 * (len(self._alone) + len(self.groups)))


def hold(held: Politeness | Group, until: float, reason: HoldReason) -> None:
    """Hold a host or a group until a time, unless it is already held for longer."""
    if held.next_time < until:
        held.next_time, held.hold_reason = until, reason
