"""How responses and failures change the treatment of a host.

    a response              failures and snoozes are reset; a redirect may set a wait (Retry-After)
    the proxy failed        nothing changes
    a kept connection died  nothing changes: the next request needs a new connection
    any other 5xx           the gap doubles from the second in a row on
    429 or 503              back-off, doubling; after ``retire_throttled`` in a row the host is retired
    a challenge, a denial   back-off, doubling
    a login form            back-off, always the shortest
    no response             back-off, doubling; after ``snooze_after`` failures in a row the host is snoozed
    no response after that  snoozed again, twice as long; after ``retire_after`` snoozes the host is retired

Pure: the functions change the host's record, and the caller stores it.
"""

from __future__ import annotations

from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.host import NO_FAILURES, Failures, Host
from crawler.frontier.politeness import (
    PATIENCE,
    HoldReason,
    gap,
    hold_after_errors,
    hold_after_failure,
    hold_after_throttle,
    snooze,
)
from crawler.frontier.request_outcome import FailureClass, RequestOutcome

SMOOTHING = 0.25  # weight of the newest response time in the moving average

Hold = tuple[float, HoldReason]


def note(host: Host, request: RequestOutcome, taken_at: float, now: float, settings: PolitenessSettings) -> Hold | None:
    """Record the outcome of a request that started at ``taken_at`` and ended at ``now`` (seconds since 1970).

    Returns how many seconds the host is held beyond its gap, and the reason; None if it is not held.
    """
    tally, failure = host.tally, request.failure
    tally.seconds += request.seconds
    tally.size_read += request.size
    if failure is None or failure.timed:
        latency, politeness = request.seconds, host.politeness
        before = politeness.latency
        politeness.latency = latency if before is None else before + SMOOTHING * (latency - before)
    if failure is None:
        if host.failures is not NO_FAILURES:
            host.failures = _forgiven(host.failures)
        return hold_after_throttle(request.retry_after, 0, settings, host.name) if request.retry_after else None
    tally.errors = tally.errors or {}
    tally.errors[failure] = tally.errors.get(failure, 0) + 1
    if failure is FailureClass.DNS:
        host.located = False  # the name may now resolve to another address, which gives it another key
    if failure is FailureClass.PROXY or request.kept:
        return None  # the kept connection may have been too old; the next request uses a new one
    if failure is FailureClass.THROTTLED:
        return _throttled(host, request, taken_at, now, settings)
    if failure is FailureClass.BLOCKED:
        # Slow down further, but do not retire the host, because its other pages may be open.
        return _backed_off(host, None, taken_at, now, settings)[0], HoldReason.BLOCKED
    if failure.unanswered:
        return unanswered(host, failure, taken_at, now, settings)
    errors = host.failures.server_errors
    host.failures = _forgiven(host.failures)
    if failure is FailureClass.LOGIN:
        return hold_after_throttle(None, 0, settings, host.name)[0], HoldReason.BLOCKED
    return _server_error(host, errors, taken_at, now, settings) if failure is FailureClass.SERVER_ERROR else None


def _server_error(host: Host, errors: int, taken_at: float, now: float, settings: PolitenessSettings) -> Hold | None:
    """Handle a 5xx response that comes after ``errors`` other 5xx responses in a row."""
    # A request that was in flight when the last one failed belongs to the same event.
    if taken_at >= host.failures.erred_at:
        errors += 1
    host.failures = host.failures._replace(server_errors=errors, erred_at=now)
    own, _ = gap(host.politeness.crawl_delay, settings)
    return hold_after_errors(errors, own, settings)


def _forgiven(failures: Failures) -> Failures:
    """Reset the counts after a response.

    The times stay: a request that was in flight at the last failure still counts as part of that failure.
    """
    return Failures(
        failed_at=failures.failed_at,
        throttled_at=failures.throttled_at,
        erred_at=failures.erred_at,
    )


def _throttled(
    host: Host, request: RequestOutcome, taken_at: float, now: float, settings: PolitenessSettings
) -> Hold | None:
    """Handle a 429 or 503 response."""
    hold = _backed_off(host, request.retry_after, taken_at, now, settings)
    most = PATIENCE[settings.patience].retire_throttled
    if most and host.failures.backoff >= most:
        host.failures = host.failures._replace(retired=True, last=FailureClass.THROTTLED)
        return 0.0, HoldReason.RETIRED
    return hold


def _backed_off(
    host: Host, retry_after: float | None, taken_at: float, now: float, settings: PolitenessSettings
) -> Hold:
    """Count a response that asks for a longer pause, and return the hold.

    ``backoff`` counts these responses. Like any response, it ends a run of failures, but it does not end a run of
    server errors.
    """
    failures = host.failures._replace(in_a_row=0, snoozes=0, last=None)
    hold = hold_after_throttle(retry_after, failures.backoff, settings, host.name)
    if taken_at >= failures.throttled_at:
        failures = failures._replace(backoff=failures.backoff + 1, throttled_at=now)
    host.failures = failures
    return hold


def unanswered(
    host: Host, failure: FailureClass, taken_at: float, now: float, settings: PolitenessSettings
) -> Hold | None:
    """Record that the host did not respond. Returns the hold, as ``note`` does."""
    failures = host.failures._replace(last=failure, server_errors=0)
    # A request that was in flight when the last one failed belongs to the same event.
    if taken_at < failures.failed_at:
        host.failures = failures
        return None
    failures = failures._replace(in_a_row=failures.in_a_row + 1, failed_at=now)
    patience = PATIENCE[settings.patience]
    due = failures.snoozes > 0 or failures.in_a_row >= patience.snooze_after
    if not patience.snooze_after or not due:
        hold = hold_after_failure(failures.in_a_row, settings, host.name)
    elif patience.retire_after and failures.snoozes >= patience.retire_after:
        failures = failures._replace(retired=True)
        hold = 0.0, HoldReason.RETIRED
    else:
        failures = failures._replace(snoozes=failures.snoozes + 1)
        hold = snooze(failures.snoozes, settings, host.name)
    host.failures = failures
    return hold


def give_another_chance(host: Host) -> None:
    """Reset the failures of the host: requests to it resume as if it had never failed."""
    host.failures = _forgiven(host.failures)
