"""A host as a row of the tables: its state, next time and reason."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from crawler.base.settings.hours import hours_of
from crawler.base.settings.parts import BudgetSettings, PolitenessSettings
from crawler.frontier.capacity import AT_ONCE, Bar, Serving
from crawler.frontier.host import Host
from crawler.frontier.host_closed import closure, retired_words
from crawler.frontier.politeness import HoldReason, gap
from crawler.frontier.slot_share import NEW, kind_of
from crawler.frontier.states import IN_LINE

SCRIPTED_SHARE = 0.25  # share of a host's pages; below it, only a part of the site is an application
SCRIPTED_NAMED = 20
RETRIES = "its URLs failed and will be retried"


class HostState(StrEnum):
    """The state of a host. If several states apply, the first in this list counts."""

    BLOCKED = "blocked"  # blocked by the user, or over its budget: its URLs are excluded
    RETIRED = "retired"  # it keeps failing: its URLs are reported as failed
    PAUSED = "paused"  # by the user
    ROBOTS = "robots"  # its robots.txt is being fetched, or its address looked up
    LEASED = "leased"  # a request for a page is in flight
    IDLE = "idle"  # no URLs left
    SNOOZED = "snoozed"
    HELD = "held"  # it is not due yet because of a failure, a refusal or its Retry-After
    WAITING = "waiting"  # it is not due yet because of its gap, its hours or the rate of its group
    QUEUED = "queued"  # it is due, and waits for its turn or for a slot
    READY = "ready"  # it is due, and nothing blocks it


# States in which a host's URLs take no time: they are finished without a request, or wait for the user.
UNTIMED = (HostState.BLOCKED, HostState.RETIRED, HostState.PAUSED, HostState.IDLE)


class HostRow(Struct, frozen=True):
    """One row of the host table.

    ``next_time`` is in seconds since 1970, or None if nothing is queued or requests to the host have stopped. ``rule``
    (one word) and ``reason`` (a sentence) explain the state. ``errors`` counts the failures of all tries by class.
    ``no_page`` is the reason why all its URLs finished without a page. ``needs_scripts`` counts its pages that show
    signs of needing scripts.
    """

    host: str
    state: HostState
    pending: int
    in_flight: int
    fetched: int
    failed: int
    next_time: float | None
    wait_seconds: float
    rule: str
    reason: str
    gap_seconds: float
    latency_seconds: float | None
    errors: dict[str, int]
    grows: bool  # True if its queue grows as fast as it is read
    no_page: str | None
    needs_scripts: int


class ScriptedHosts(Struct):
    """Number of hosts that probably need a browser: at least ``SCRIPTED_SHARE`` of their pages show signs of it.

    ``named`` lists the hosts with the most such pages.
    """

    count: int = 0
    named: list[dict[str, Any]] = field(default_factory=list)

    def add(self, host: str, pages: int, scripted: int) -> None:
        """Count a host with this many pages if it probably needs a browser."""
        if scripted and scripted >= SCRIPTED_SHARE * pages:
            self.merge(1, [{"host": host, "pages": scripted, "of": pages}])

    def merge(self, count: int, named: list[dict[str, Any]]) -> None:
        """Add counts of more hosts."""
        self.count += count
        self.named = sorted([*self.named, *named], key=lambda each: (-each["pages"], each["host"]))[:SCRIPTED_NAMED]


class HostSnapshot(Struct, frozen=True):
    """A snapshot of a host, for readers in other threads: it shares nothing with the working state.

    Times are in seconds since 1970.
    """

    row: HostRow
    leased: int  # lease slots in use
    side_request: bool  # True if one of them is for its robots.txt or its address
    in_line: bool
    next_time: float
    hold_reason: HoldReason
    robots_until: float
    robots_unused: bool  # True if robots.txt was fetched for the next page, regardless of ``robots_until``
    kind: int  # see ``slot_share``
    in_session: bool


def snapshot(
    host: Host,
    now: float,
    settings: PolitenessSettings,
    budget: BudgetSettings,
    serving: Serving = AT_ONCE,
) -> HostSnapshot:
    """Return a snapshot of the host at ``now``. ``serving`` is the current capacity of the crawl."""
    politeness = host.politeness
    return HostSnapshot(
        describe(host, now, settings, budget, serving),
        host.asked,
        host.side_request,
        host.state >= IN_LINE,
        politeness.next_time,
        politeness.hold_reason,
        politeness.robots_until,
        host.robots_unused,
        kind_of(host, serving.slow_from),
        host.session_until > 0.0,
    )


def describe(
    host: Host,
    now: float,
    settings: PolitenessSettings,
    budget: BudgetSettings,
    serving: Serving = AT_ONCE,
) -> HostRow:
    """Return the row of a host at ``now``. A host read from the store has nothing in flight."""
    state = state_of(host, now, budget, serving)
    rule, reason = _why(host, state, now, budget, serving)
    next_time = next_time_of(host) if state not in UNTIMED and host.queue.size else None
    opens = hours_of(settings.hours, settings.time_zone).opens(now) if settings.hours else now
    if opens > now and state in (HostState.READY, HostState.QUEUED, HostState.WAITING) and opens >= (next_time or 0.0):
        # The host was not due since its hours ended, or was read from the store, which records this hold as a gap.
        state, next_time = HostState.WAITING, opens
        rule, reason = HoldReason.HOURS.name.lower(), HoldReason.HOURS.words
    tally, known = host.tally, host.politeness
    between, _ = gap(known.crawl_delay, settings)
    return HostRow(
        host=host.name,
        state=state,
        pending=host.queue.size,
        in_flight=host.queue.taken,
        fetched=tally.fetched,
        failed=tally.failed,
        next_time=next_time,
        wait_seconds=0.0 if next_time is None else max(0.0, next_time - now),
        rule=rule,
        reason=reason,
        gap_seconds=between,
        latency_seconds=known.latency,
        errors={failure.word: count for failure, count in sorted((tally.errors or {}).items())},
        grows=host.growth.grows,
        no_page=host.no_page,
        needs_scripts=tally.scripted,
    )


def next_time_of(host: Host) -> float:
    """Return the time before which no URL of the host is requested."""
    queue, next_time = host.queue, host.politeness.next_time
    return max(next_time, queue.retry_at) if queue.only_retries else next_time


def state_of(host: Host, now: float, budget: BudgetSettings, serving: Serving = AT_ONCE) -> HostState:
    """Return the state of a host at ``now``. A host read from the store has nothing in flight."""
    closed = closure(host, budget)
    if closed is not None:
        return HostState.RETIRED if closed.failed else HostState.BLOCKED
    politeness = host.politeness
    if politeness.paused:
        return HostState.PAUSED
    if host.leased:
        return HostState.ROBOTS if host.side_request else HostState.LEASED
    if host.state >= IN_LINE:
        return HostState.QUEUED
    if not host.queue.size:
        return HostState.IDLE
    if next_time_of(host) <= now:
        return HostState.READY if _bar(host, serving) is None else HostState.QUEUED
    reason = politeness.hold_reason
    if politeness.next_time > now and not reason.holds:
        return HostState.WAITING
    return HostState.SNOOZED if reason is HoldReason.SNOOZED and politeness.next_time > now else HostState.HELD


def _bar(host: Host, serving: Serving) -> Bar | None:
    """Return the limit that a due host waits for, or None."""
    if serving is AT_ONCE:
        return None
    return serving.bar_of(kind_of(host, serving.slow_from), in_session=host.session_until > 0.0)


def _why(host: Host, state: HostState, now: float, budget: BudgetSettings, serving: Serving) -> tuple[str, str]:
    """Return the rule behind a state, and a sentence that explains it."""
    rule = host.politeness.hold_reason.name.lower()
    match state:
        case HostState.RETIRED | HostState.BLOCKED:
            closed = closure(host, budget)
            assert closed is not None
            return closed.rule, retired_words(host) if closed.failed else closed.words
        case HostState.PAUSED:
            return "paused", "paused by user"
        case HostState.ROBOTS:
            return rule, "robots.txt is being fetched"
        case HostState.LEASED:
            return rule, "request in flight"
        case HostState.IDLE:
            return rule, "no pending URLs" + (f", and no page: {host.no_page}" if host.no_page else "")
        case HostState.READY:
            return rule, "ready"
        case HostState.QUEUED:
            return _why_queued(host, serving)
        case HostState.SNOOZED:
            times, last = host.failures.in_a_row, host.failures.last
            word = "no answer" if last is None else last.word
            return rule, f"{times} requests in a row without a response; last failure: {word}"
    if host.politeness.next_time <= now:
        return "retry", RETRIES
    return rule, host.politeness.hold_reason.words


def _why_queued(host: Host, serving: Serving) -> tuple[str, str]:
    if host.state >= IN_LINE:
        return Bar.TURN, "waiting for its turn: all slots of its key are in use"
    bar = _bar(host, serving)
    assert bar is not None
    if serving.bar is None and bar is Bar.SLOT:
        kind = "new" if kind_of(host, serving.slow_from) == NEW else "slow"
        return bar, f"{bar.words}: none is free for {kind} hosts"
    return bar, bar.words
