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

from typing import NamedTuple

from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.host import NO_FAILURES, Failures, Host
from crawler.frontier.politeness import HoldReason, gap, jitter
from crawler.frontier.request_outcome import FailureClass, RequestOutcome

JITTER = 0.1  # maximum relative jitter of a hold, so that hosts that failed together do not return together
# In multiples of the first back-off (``politeness.backoff_first``). In brackets: the times for its default, 5 seconds.
_BACKOFF_MOST = 120  # (10 minutes)
_SNOOZE_FIRST, _SNOOZE_MOST = 12, 720  # (a minute to an hour)
_ERRORS_LEAST, _ERRORS_MOST = 0.1, 12  # (half a second to a minute) pauses after 5xx responses
SMOOTHING = 0.25  # weight of the newest response time in the moving average

Hold = tuple[float, HoldReason]


class Patience(NamedTuple):
    """How many chances failing hosts get. With 0, hosts are never snoozed, or never retired, for that reason."""

    snooze_after: int  # requests in a row without a response
    retire_after: int  # snoozes in a row
    retire_throttled: int  # 429 or 503 responses in a row
    retry_after_most: float  # seconds; a larger Retry-After is cut to this


PATIENCE = {
    "usual": Patience(5, 3, 100, 3_600.0),  # 8 minutes without a response; 16 hours of back-off
    "short": Patience(3, 2, 6, 30.0),  # for runs that the user waits for
    "endless": Patience(0, 0, 0, 3_600.0),
}


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


def hold_after_throttle(
    retry_after: float | None, level: int, settings: PolitenessSettings, host: str
) -> tuple[float, HoldReason]:
    """Return the seconds a host is held after 429 or 503, and the rule.

    This is ``retry_after`` if the server sent it, else a back-off that doubles with ``level``, the number of such
    responses in a row before this one.
    """
    if retry_after is not None:
        return cut_retry_after(retry_after, settings), HoldReason.RETRY_AFTER
    return _back_off(level, settings, host), HoldReason.BACKOFF


def cut_retry_after(seconds: float, settings: PolitenessSettings) -> float:
    """Return the wait that the server requested, cut to the longest one that is obeyed."""
    return min(max(seconds, 0.0), PATIENCE[settings.patience].retry_after_most)


def hold_after_errors(
    errors_in_a_row: int, own_gap: float, settings: PolitenessSettings
) -> tuple[float, HoldReason] | None:
    """Return the seconds a host with the gap ``own_gap`` is held after ``errors_in_a_row`` 5xx responses, and the rule.

    A single error has no effect; from the second on the gap doubles.
    """
    if errors_in_a_row < 2:
        return None
    least, most = _ERRORS_LEAST * settings.backoff_first, _ERRORS_MOST * settings.backoff_first
    return min(max(own_gap, least) * 2.0 ** min(errors_in_a_row - 1, 64), most), HoldReason.ERRORS


def hold_after_failure(failures_in_a_row: int, settings: PolitenessSettings, host: str) -> tuple[float, HoldReason]:
    """Return the seconds a host is held after ``failures_in_a_row`` requests without a response, and the rule."""
    wait = _back_off(failures_in_a_row - 1, settings, host)
    return wait, HoldReason.FAILING


def snooze(snoozes: int, settings: PolitenessSettings, host: str) -> tuple[float, HoldReason]:
    """Return the seconds of the ``snoozes``-th snooze in a row (1 for the first), and the rule."""
    unit = settings.backoff_first
    return _doubled(_SNOOZE_FIRST * unit, snoozes - 1, _SNOOZE_MOST * unit, host), HoldReason.SNOOZED


def longest_hold(settings: PolitenessSettings) -> float:
    """Return the longest hold of any rule but the gap, in seconds."""
    return max(PATIENCE[settings.patience].retry_after_most, _SNOOZE_MOST * settings.backoff_first * (1 + JITTER))


def _back_off(times: int, settings: PolitenessSettings, host: str) -> float:
    return _doubled(settings.backoff_first, times, _BACKOFF_MOST * settings.backoff_first, host)


def _doubled(first: float, times: int, most: float, host: str) -> float:
    # 2**64 seconds exceeds any maximum. Capping the exponent prevents a float overflow.
    return min(first * 2.0 ** min(times, 64), most) * (1 + JITTER * jitter(host, times))
