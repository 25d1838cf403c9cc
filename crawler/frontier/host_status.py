"""A host as a row of the tables: its state, next time and reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from crawler.frontier.host import Host, decode_host, glance
from crawler.frontier.host_closed import closure, retired_words
from crawler.frontier.politeness import HoldReason, gap
from crawler.settings import BudgetSettings, PolitenessSettings

_NO_BUDGET = BudgetSettings()


class HostState(StrEnum):
    """The state of a host. If several apply, the first in this list counts."""

    BLOCKED = "blocked"  # by the user, or over its budget: its URLs are excluded
    RETIRED = "retired"  # it keeps failing: its URLs are reported as failed
    PAUSED = "paused"  # by the user
    LEASED = "leased"  # a request is in flight
    IDLE = "idle"  # no URLs left
    SNOOZED = "snoozed"
    WAITING = "waiting"  # for its next time
    READY = "ready"


@dataclass(frozen=True, slots=True)
class HostRow:
    """One row of the table of hosts. ``next_time`` is in seconds since 1970; None if nothing is queued or requests to
    the host have stopped. ``rule`` is one word and ``reason`` a sentence that explain the state. ``errors`` counts
    the failures of all tries by class."""

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


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """A host at one moment, for readers in other threads: nothing in it is shared with the working state. Times are in
    seconds since 1970."""

    row: HostRow
    leased: int  # lease slots that are out
    in_line: bool
    next_time: float
    hold_reason: HoldReason
    crawl_delay: float | None
    robots_until: float


def snapshot(host: Host, now: float, settings: PolitenessSettings, budget: BudgetSettings) -> HostSnapshot:
    """The host at ``now``."""
    politeness = host.politeness
    return HostSnapshot(
        describe(host, now, settings, budget),
        host.leased,
        host.in_line,
        politeness.next_time,
        politeness.hold_reason,
        politeness.crawl_delay,
        politeness.robots_until,
    )


def describe(host: Host, now: float, settings: PolitenessSettings, budget: BudgetSettings) -> HostRow:
    """The row of a host at ``now``. A host read from the store has nothing in flight."""
    state = state_of(host, now, budget)
    rule, reason = _why(host, state, now, budget)
    open_times = state in (HostState.SNOOZED, HostState.WAITING, HostState.READY, HostState.LEASED)
    next_time = _next_time(host) if open_times and host.queue.size else None
    tally, known = host.tally, host.politeness
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
        gap_seconds=gap(known.crawl_delay, known.latency, settings)[0],
        latency_seconds=known.latency,
        errors={failure.word: count for failure, count in sorted((tally.errors or {}).items())},
    )


def _next_time(host: Host) -> float:
    queue, next_time = host.queue, host.politeness.next_time
    waits_for_retry = not queue.immediate and queue.retries_waiting and queue.retry_at > next_time
    return queue.retry_at if waits_for_retry else next_time


def state_of(host: Host, now: float, budget: BudgetSettings) -> HostState:
    """The state of a host at ``now``. A host read from the store has nothing in flight."""
    closed = closure(host, budget)
    if closed is not None:
        return HostState.RETIRED if closed.failed else HostState.BLOCKED
    if host.politeness.paused:
        return HostState.PAUSED
    if host.leased:
        return HostState.LEASED
    if host.in_line:
        return HostState.WAITING
    if not host.queue.size:
        return HostState.IDLE
    if _next_time(host) <= now:
        return HostState.READY
    politeness = host.politeness
    snoozed = politeness.hold_reason is HoldReason.SNOOZED and politeness.next_time > now
    return HostState.SNOOZED if snoozed else HostState.WAITING


def stored_state(name: str, value: bytes, now: float, budget: BudgetSettings) -> HostState:
    """``state_of`` for a stored record, decoded only if necessary. Raises HostRecordError."""
    rule, flags, size, next_time, _ = glance(value)
    if flags or budget != _NO_BUDGET:
        return state_of(decode_host(name, value), now, budget)
    if not size:
        return HostState.IDLE
    if next_time <= now:
        return HostState.READY
    return HostState.SNOOZED if rule == HoldReason.SNOOZED else HostState.WAITING


def _why(host: Host, state: HostState, now: float, budget: BudgetSettings) -> tuple[str, str]:
    """The rule behind a state, and a sentence that explains it."""
    rule = host.politeness.hold_reason.name.lower()
    match state:
        case HostState.RETIRED | HostState.BLOCKED:
            closed = closure(host, budget)
            assert closed is not None
            return closed.rule, retired_words(host) if closed.failed else closed.words
        case HostState.PAUSED:
            return "paused", "paused by user"
        case HostState.LEASED:
            return rule, "robots.txt is being fetched" if host.side_request else "request in flight"
        case HostState.IDLE:
            return rule, "no URLs left"
        case HostState.READY:
            return rule, "ready"
        case HostState.SNOOZED:
            times, last = host.failures.in_a_row, host.failures.last
            word = "no answer" if last is None else last.word
            return rule, f"{times} requests in a row without an answer, the last: {word}"
    if host.in_line:
        return "turn", "waits for its turn: the slots of its key are taken"
    if host.politeness.next_time <= now:
        return "retry", "its URLs failed and wait for their next try"
    return rule, host.politeness.hold_reason.words
