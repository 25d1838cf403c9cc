"""What a fetch means for its URL: done, once more, or the whole host held. Pure: response in, decision out."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from crawler.fetch import Failure, FailureKind, Response
from crawler.frontier import Asked, Entry, Fault, retry_wait, tries_of
from crawler.job.verdict import Again, Finished, Throttled, Verdict
from crawler.records import Outcome, PageRecord
from crawler.settings import RetrySettings

REDIRECTS = frozenset({301, 302, 303, 307, 308})
THROTTLED = frozenset({429, 503})
_FAULTS = {
    FailureKind.DNS: Fault.DNS,
    FailureKind.REFUSED: Fault.REFUSED,
    FailureKind.UNREACHABLE: Fault.UNREACHABLE,
    FailureKind.TLS: Fault.TLS,
    FailureKind.CONNECT_TIMEOUT: Fault.TIMEOUT,
    FailureKind.HEADERS_TIMEOUT: Fault.TIMEOUT,
    FailureKind.BODY_TIMEOUT: Fault.TIMEOUT,
    FailureKind.CUT_OFF: Fault.CUT_OFF,
    FailureKind.PROTOCOL: Fault.PROTOCOL,
}


def judge(entry: Entry, result: Response | Failure, now: float, settings: RetrySettings) -> Verdict:
    """``now`` is in seconds since 1970."""
    if isinstance(result, Failure):
        return _judge_failure(entry, result, now, settings)
    record = PageRecord(
        entry=entry,
        outcome=Outcome.FETCHED,
        fetched_at=now,
        status=result.status,
        content_type=result.content_type,
        size=None if result.body is None else len(result.body),
    )
    asked = Asked(result.seconds, result.received, status_fault(result.status, settings))
    if asked.fault is Fault.THROTTLED:
        again = entry._replace(throttled=entry.throttled + 1)
        spent = again.throttled >= settings.throttled_tries
        return Throttled(
            again,
            parse_retry_after(result.retry_after, now, result.headers.get("Date")),
            record if spent else None,
            asked,
        )
    if asked.fault is not None and entry.tries + 1 < tries_of(asked.fault, settings):
        return _again(entry, f"status {result.status}", asked, settings)
    if result.status in REDIRECTS:
        return Finished(record, asked, location=result.location)
    if 200 <= result.status < 300:
        return Finished(record, asked, body=result.body, charset=result.charset)
    return Finished(record, asked)


def status_fault(status: int, settings: RetrySettings) -> Fault | None:
    """The class of failure that a status belongs to; None for an answer to be content with."""
    if status in THROTTLED:
        return Fault.THROTTLED
    return Fault.SERVER_ERROR if status >= 500 and status not in settings.lasting_statuses else None


def failure_fault(kind: FailureKind) -> Fault:
    """The class that a kind of failure belongs to."""
    return _FAULTS.get(kind, Fault.OTHER)


def _judge_failure(entry: Entry, failure: Failure, now: float, settings: RetrySettings) -> Verdict:
    fault = failure_fault(failure.kind)
    asked = Asked(failure.seconds, 0, fault)
    if entry.tries + 1 < tries_of(fault, settings):
        return _again(entry, failure.message, asked, settings)
    outcome = Outcome.EXCLUDED if failure.kind.excluded else Outcome.FAILED
    return Finished(PageRecord(entry, outcome, now, error=f"{failure.kind.value}: {failure.message}"), asked)


def _again(entry: Entry, reason: str, asked: Asked, settings: RetrySettings) -> Again:
    assert asked.fault is not None
    again = entry._replace(tries=entry.tries + 1)
    return Again(again, retry_wait(asked.fault, again.tries, settings, entry.href), reason, asked)


def parse_retry_after(text: str | None, now: float, sent: str | None = None) -> float | None:
    """Seconds to wait by a Retry-After header (RFC 9110, 10.2.3: seconds or an HTTP date); None when it says
    nothing that can be understood. A date is compared with that of the answer (``sent``), by the server's own clock:
    ours may be off."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        # Longer than any limit; int() of a hostile header would be slow, float() of it infinite.
        return float(text) if len(text) < 12 else 1e12
    until = _moment(text)
    if until is None:
        return None
    begin = None if sent is None else _moment(sent)
    return max(0.0, until - (now if begin is None else begin))


def _moment(text: str) -> float | None:
    """An HTTP date in seconds since 1970."""
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
