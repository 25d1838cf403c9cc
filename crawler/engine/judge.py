"""Decides what a fetch means for its URL: the URL is finished or retried, or its whole host is held. Pure: response in,
decision out."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

import mmh3
from msgspec.structs import replace

from crawler.base.settings.parts import RetrySettings
from crawler.frontier.entry import Entry
from crawler.frontier.lease import Retry
from crawler.frontier.page import Answer, validator
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.frontier.retries import retry_wait, tries_of
from crawler.job.records import Outcome, PageRecord
from crawler.job.revisit import NOT_MODIFIED
from crawler.job.verdict import Draft, Throttled, Verdict
from crawler.web.fetch import Failure, FailureKind, Response
from crawler.web.fetch.outcome import REDIRECTS, browser_text
from crawler.web.links.about import clean
from crawler.web.links.encoding import sniff_xml_encoding

THROTTLED = frozenset({429, 503})
FORBIDDEN, PAYMENT = 403, 402
_LASTING = frozenset({501, 505})  # statuses of requests that the server will never support
GONE = frozenset({404, 410})
PRICE_MOST = 100  # characters
_CLASSES = {
    FailureKind.DNS: FailureClass.DNS,
    FailureKind.REFUSED: FailureClass.REFUSED,
    FailureKind.UNREACHABLE: FailureClass.UNREACHABLE,
    FailureKind.TLS: FailureClass.TLS,
    FailureKind.CONNECT_TIMEOUT: FailureClass.TIMEOUT,
    FailureKind.HEADERS_TIMEOUT: FailureClass.TIMEOUT,
    FailureKind.BODY_TIMEOUT: FailureClass.TIMEOUT,
    FailureKind.CUT_OFF: FailureClass.CUT_OFF,
    FailureKind.PROTOCOL: FailureClass.PROTOCOL,
    FailureKind.INTERNAL: FailureClass.INTERNAL,
    FailureKind.PROXY: FailureClass.PROXY,
}


def judge(entry: Entry, result: Response | Failure, now: float, settings: RetrySettings) -> Verdict:
    """Return the decision about ``entry``. ``now`` is in seconds since 1970."""
    if isinstance(result, Failure):
        return _judge_failure(entry, result, now, settings)
    if result.unsigned:
        return Retry(entry, 0.0, request_outcome(result))  # not counted as a try: the next request will be signed
    record = PageRecord(
        entry=entry,
        outcome=Outcome.FETCHED,
        fetched_at=now,
        status=result.status,
        error=result.note,
        content_type=result.content_type,
        size=None if result.body is None else len(result.body),
        truncated=result.truncated,
    )
    request = asked_to_wait(request_outcome(result), result, now)
    if request.failure is FailureClass.THROTTLED:
        again = entry._replace(throttled=entry.throttled + 1)
        spent = again.throttled >= tries_of(FailureClass.THROTTLED, settings)
        return Throttled(again, Draft(record, request) if spent else None, request)
    if request.failure is not None and entry.tries + 1 < tries_of(request.failure, settings):
        return _again(entry, request, settings)
    if result.location is not None:
        return Draft(record, request, location=result.location)
    if result.status == PAYMENT:
        price = browser_text(result.headers.get("Crawler-Price", ""))
        record.outcome, record.price = Outcome.PAYMENT, clean(price, PRICE_MOST)
    if 200 <= result.status < 400:  # a redirect without a target is a page, as in browsers
        return Draft(record, request, body=result.body, charset=_charset(result))
    return Draft(record, request)


def asked_to_wait(request: RequestOutcome, result: Response, now: float) -> RequestOutcome:
    """Return what the request means for its host, including the seconds to wait if the answer asks for a pause.
    Throttling answers and redirects may ask for a pause (RFC 9110, 10.2.3). A 403 that asks for one also counts as
    throttling."""
    after = parse_retry_after(result.retry_after, now, result.headers.get("Date"))
    if after and result.status == FORBIDDEN:
        request = request._replace(failure=FailureClass.THROTTLED)
    throttled = request.failure is FailureClass.THROTTLED
    return request._replace(retry_after=after) if throttled or result.status in REDIRECTS else request


def _charset(result: Response) -> str | None:
    """Return the label of the body's encoding: from the header, or from the XML declaration where that is certain."""
    if result.body is None or result.content_type != "application/xhtml+xml":
        return result.charset
    return sniff_xml_encoding(result.body, result.charset)


def partial_answer(entry: Entry, failure: Failure, settings: RetrySettings) -> Response | None:
    """Return the partial response if it is good enough to use: the previous try was cut off in the same way, or only
    one try is allowed."""
    partial = failure.partial
    is_alike = partial is not None and entry.tries > 0 and entry.cut == partial.truncated
    return partial if is_alike or tries_of(failure_class(failure.kind), settings) == 1 else None


def request_outcome(result: Response | Failure) -> RequestOutcome:
    """Return what the request means for its host."""
    if isinstance(result, Failure) and result.partial is not None:
        return RequestOutcome(result.seconds, result.partial.received)  # the host did answer
    if isinstance(result, Failure):
        return RequestOutcome(result.seconds, 0, failure_class(result.kind), kept=result.kept)
    return RequestOutcome(result.seconds, result.received, status_failure(result.status))


def status_failure(status: int) -> FailureClass | None:
    """Map a status to its failure class, or to None if the answer is acceptable."""
    if status in THROTTLED:
        return FailureClass.THROTTLED
    return FailureClass.SERVER_ERROR if status >= 500 and status not in _LASTING else None


def failure_class(kind: FailureKind) -> FailureClass:
    """Map a kind of failure to its failure class."""
    return _CLASSES.get(kind, FailureClass.OTHER)


def _judge_failure(entry: Entry, failure: Failure, now: float, settings: RetrySettings) -> Verdict:
    failed_as = failure_class(failure.kind)
    request = request_outcome(failure)
    if failed_as is FailureClass.PROXY:
        return Retry(entry, proxy_wait(settings, entry.href), request)  # not counted as a try: no server was asked
    if entry.tries + 1 < tries_of(failed_as, settings):
        entry = entry._replace(cut=None if failure.partial is None else failure.partial.truncated)
        return _again(entry, request, settings)
    outcome = Outcome.EXCLUDED if failure.kind.excluded else Outcome.FAILED
    return Draft(PageRecord(entry, outcome, now, error=failure.error), request)


def _again(entry: Entry, request: RequestOutcome, settings: RetrySettings) -> Retry:
    again = entry._replace(tries=entry.tries + 1)
    return Retry(again, retry_wait(again.tries, settings, entry.href), request)


def proxy_wait(settings: RetrySettings, name: str) -> float:
    """Return the seconds until a URL or a robots.txt is tried again after its proxy has failed."""
    return retry_wait(2, settings, name)


def answer_of(result: Response | Failure, *, conditional: bool) -> Answer | None:
    """Return what a visit found, or None if there was no answer. A 304 to an unconditional request does not confirm
    what earlier visits found.

    The fingerprint covers the status, the Location and the body, or the headers that describe the body if it was not
    downloaded."""
    if isinstance(result, Failure) or (result.status == NOT_MODIFIED and not conditional):
        return None
    headers = result.headers
    etag, modified = headers.get("ETag"), headers.get("Last-Modified")
    if result.status == NOT_MODIFIED:
        return Answer(None, validator(etag), validator(modified))
    said = f"{result.status} {result.location or ''}\n"
    if result.body is None:
        said += f"{etag} {modified} {headers.get('Content-Length')}"
    fingerprint = mmh3.hash_bytes(said.encode("utf-8", "surrogateescape") + (result.body or b""))
    if not 200 <= result.status < 300:
        return Answer(fingerprint, gone=result.status in GONE)
    if result.truncated is not None:
        return Answer(fingerprint)  # the whole page may still be requested, so validators are omitted
    return Answer(fingerprint, validator(etag), validator(modified))


def by_text(answer: Answer, status: int | None, digest: bytes) -> Answer:
    """Return the answer with a fingerprint made from the digest of the page's text."""
    return replace(answer, fingerprint=mmh3.hash_bytes(f"{status}\n".encode() + digest), of_text=True)


def as_not_found(answer: Answer) -> Answer:
    """Return the answer of a soft 404 page. Its fingerprint differs from that of a regular page with the same bytes. It
    has no validators, because the next visit must see the page to decide."""
    assert answer.fingerprint is not None  # a page always has a body
    return replace(
        answer, fingerprint=mmh3.hash_bytes(b"soft404\n" + answer.fingerprint), etag=None, last_modified=None
    )


def parse_retry_after(text: str | None, now: float, sent: str | None = None) -> float | None:
    """Return the seconds to wait from a Retry-After header, or None if it is not valid.

    The value is a number of seconds or an HTTP date (RFC 9110, 10.2.3). A date is compared with ``sent``, the date of
    the answer: both come from the server's clock, and our clock may be off."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        # This exceeds any limit. For a hostile header, int() would be slow and float() would return infinity.
        return float(text) if len(text) < 12 else 1e12
    until = _moment(text)
    if until is None:
        return None
    begin = None if sent is None else _moment(sent)
    return max(0.0, until - (now if begin is None else begin))


def _moment(text: str) -> float | None:
    """Return an HTTP date in seconds since 1970, or None if it is not valid."""
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
