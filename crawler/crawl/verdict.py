"""What a fetch means for its URL: done, once more, or the whole host held. Pure: response in, decision out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from crawler.fetch import Failure, Response
from crawler.frontier import Entry, retry_wait
from crawler.records import Outcome, PageRecord
from crawler.settings import RetrySettings

REDIRECTS = frozenset({301, 302, 303, 307, 308})
THROTTLED = frozenset({429, 503})
# 501 and 505 say that the server will never do it; every other 5xx may pass.
_LASTING_5XX = frozenset({501, 505})


@dataclass(frozen=True, slots=True)
class Finished:
    """The URL is done; ``body`` is the page whose links are to be taken, ``location`` where a redirect points."""

    record: PageRecord
    body: bytes | None = None
    charset: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """The URL is asked again after ``wait`` seconds."""

    entry: Entry
    wait: float
    reason: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """The host is held, for ``retry_after`` seconds when it named a time. ``last`` is the record of a URL that has
    had all its tries, else ``entry`` goes again."""

    entry: Entry
    retry_after: float | None
    last: PageRecord | None


Verdict = Finished | Again | Throttled


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
    if result.status in THROTTLED:
        again = entry._replace(throttled=entry.throttled + 1)
        spent = again.throttled >= settings.throttled_tries
        return Throttled(again, parse_retry_after(result.retry_after, now), record if spent else None)
    if result.status >= 500 and result.status not in _LASTING_5XX and entry.tries + 1 < settings.tries:
        again = entry._replace(tries=entry.tries + 1)
        return Again(again, retry_wait(again.tries, settings), f"status {result.status}")
    if result.status in REDIRECTS:
        return Finished(record, location=result.location)
    if 200 <= result.status < 300:
        return Finished(record, body=result.body, charset=result.charset)
    return Finished(record)


def _judge_failure(entry: Entry, failure: Failure, now: float, settings: RetrySettings) -> Verdict:
    if failure.kind.transient and entry.tries + 1 < settings.tries:
        again = entry._replace(tries=entry.tries + 1)
        return Again(again, retry_wait(again.tries, settings), failure.message)
    outcome = Outcome.EXCLUDED if failure.kind.excluded else Outcome.FAILED
    return Finished(PageRecord(entry, outcome, now, error=f"{failure.kind.value}: {failure.message}"))


def parse_retry_after(text: str | None, now: float) -> float | None:
    """Seconds to wait by a Retry-After header (RFC 9110, 10.2.3: seconds or an HTTP date); None when it says
    nothing that can be understood."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        # Longer than any limit; int() of a hostile header would be slow, float() of it infinite.
        return float(text) if len(text) < 12 else 1e12
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)
