"""What an answer, or none, changes in how a host is treated from now on.

    answered                failures and snoozes are forgotten
    429 or 503              back-off, doubling; after ``retire_throttled`` in a row the host is retired
    no answer               back-off, doubling; after ``snooze_after`` failures in a row the host is snoozed
    no answer after that    snoozed again, twice as long; after ``retire_after`` snoozes the host is retired

Pure: the host's record is changed, the caller stores it.
"""

from __future__ import annotations

from crawler.frontier.host import Host
from crawler.frontier.politeness import HoldReason, hold_after_failure, hold_after_throttle, snooze
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.settings import PolitenessSettings

SMOOTHING = 0.25  # weight of the newest response time; a dozen of them outweigh all before

Hold = tuple[float, HoldReason]


def note(host: Host, request: RequestOutcome, taken_at: float, now: float, settings: PolitenessSettings) -> Hold | None:
    """Take into account what a request, begun at ``taken_at`` and over at ``now``, came to. Returns for how many
    seconds the host is held beyond its gap, and by which rule; None when it is not. (An answer 429 or 503 holds it
    too: ``throttled``.)"""
    host.seconds += request.seconds
    host.size_read += request.size
    failure = request.failure
    if failure is None or failure.timed:
        host.latency = request.seconds if host.latency is None else _smoothed(host.latency, request.seconds)
    if failure is not None:
        host.errors = host.errors or {}
        host.errors[failure] = host.errors.get(failure, 0) + 1
    if failure is None or not failure.unanswered:
        host.failures_in_a_row = host.snoozes = 0
        host.last_failure = None
        if failure is not FailureClass.THROTTLED:
            host.backoff = 0
            host.retired = False
        return None
    host.last_failure = failure
    # Requests that were already under way when the last one failed are the same event.
    if taken_at < host.failed_at:
        return None
    host.failures_in_a_row += 1
    host.failed_at = now
    return _after_failure(host, now, settings)


def throttled(host: Host, retry_after: float | None, taken_at: float, now: float, settings: PolitenessSettings) -> Hold:
    """The host answered 429 or 503: for how long it is held, and by which rule."""
    hold = hold_after_throttle(retry_after, host.backoff, settings, host.name)
    if taken_at >= host.throttled_at:
        host.backoff += 1
        host.throttled_at = now
    if settings.retire_throttled and host.backoff >= settings.retire_throttled:
        host.retired, host.last_failure = True, FailureClass.THROTTLED
        return 0.0, HoldReason.RETIRED
    return hold


def _after_failure(host: Host, now: float, settings: PolitenessSettings) -> Hold:
    due = host.snoozes > 0 or host.failures_in_a_row >= settings.snooze_after
    if not settings.snooze_after or not due:
        return hold_after_failure(host.failures_in_a_row, settings, host.name)
    if settings.retire_after and host.snoozes >= settings.retire_after:
        host.retired = True
        return 0.0, HoldReason.RETIRED
    host.snoozes += 1
    return snooze(host.snoozes, settings, host.name)


def _smoothed(latency: float, newest: float) -> float:
    return latency + SMOOTHING * (newest - latency)


def give_another_chance(host: Host) -> None:
    """A retired host is asked again, as if it had never failed."""
    host.retired = False
    host.failures_in_a_row = host.snoozes = host.backoff = 0
    host.last_failure = None
