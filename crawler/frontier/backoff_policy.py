"""What an answer, or none, changes in how a host is treated from now on.

    answered                strikes and snoozes are forgotten
    429 or 503              back-off, doubling; after ``retire_throttled`` in a row the host is retired
    no answer: a strike     back-off, doubling; after ``snooze_after`` strikes in a row the host is snoozed
    no answer after that    snoozed again, twice as long; after ``retire_after`` snoozes the host is retired

Pure: the host's record is changed, the caller stores it.
"""

from __future__ import annotations

from crawler.frontier.faults import Asked, Fault
from crawler.frontier.host import Host
from crawler.frontier.politeness import Rule, hold_after_strike, hold_after_throttle, snooze
from crawler.settings import PolitenessSettings

SMOOTHING = 0.25  # weight of the newest response time; a dozen of them outweigh all before

Hold = tuple[float, Rule]


def note(host: Host, asked: Asked, taken_at: float, now: float, settings: PolitenessSettings) -> Hold | None:
    """Take into account what a request, begun at ``taken_at`` and over at ``now``, came to. Returns for how many
    seconds the host is held beyond its gap, and by which rule; None when it is not. (An answer 429 or 503 holds it
    too: ``throttled``.)"""
    host.seconds += asked.seconds
    host.size_read += asked.size
    fault = asked.fault
    if fault is None or fault.timed:
        host.latency = asked.seconds if host.latency is None else _smoothed(host.latency, asked.seconds)
    if fault is not None:
        host.errors = host.errors or {}
        host.errors[fault] = host.errors.get(fault, 0) + 1
    if fault is None or not fault.strikes:
        host.strikes = host.snoozes = 0
        host.fault = None
        if fault is not Fault.THROTTLED:
            host.backoff = 0
            host.retired = False
        return None
    host.fault = fault
    # Requests that were already under way when the last one failed are the same event.
    if taken_at < host.strike_at:
        return None
    host.strikes += 1
    host.strike_at = now
    return _after_strike(host, now, settings)


def throttled(host: Host, retry_after: float | None, taken_at: float, now: float, settings: PolitenessSettings) -> Hold:
    """The host answered 429 or 503: for how long it is held, and by which rule."""
    hold = hold_after_throttle(retry_after, host.backoff, settings, host.name)
    if taken_at >= host.backoff_at:
        host.backoff += 1
        host.backoff_at = now
    if settings.retire_throttled and host.backoff >= settings.retire_throttled:
        host.retired, host.fault = True, Fault.THROTTLED
        return 0.0, Rule.RETIRED
    return hold


def _after_strike(host: Host, now: float, settings: PolitenessSettings) -> Hold:
    due = host.snoozes > 0 or host.strikes >= settings.snooze_after
    if not settings.snooze_after or not due:
        return hold_after_strike(host.strikes, settings, host.name)
    if settings.retire_after and host.snoozes >= settings.retire_after:
        host.retired = True
        return 0.0, Rule.RETIRED
    host.snoozes += 1
    return snooze(host.snoozes, settings, host.name)


def _smoothed(latency: float, newest: float) -> float:
    return latency + SMOOTHING * (newest - latency)


def give_another_chance(host: Host) -> None:
    """A retired host is asked again, as if it had never failed."""
    host.retired = False
    host.strikes = host.snoozes = host.backoff = 0
    host.fault = None
