"""Adds events about hosts and URLs, worded as sentences for users."""

from __future__ import annotations

from crawler.base.figures import duration
from crawler.frontier.host import Host
from crawler.frontier.host_closed import retired_words
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import RequestOutcome
from crawler.frontier.traps.soft404 import Lesson, PageKind
from crawler.job.metrics.events import Events, Kind
from crawler.job.records import Outcome, PageRecord

_LEARNED = {
    PageKind.NOT_FOUND: "answers nonexistent paths with status 200 and the same page",
    PageKind.APPLICATION: "is a single-page application, which answers every path with the same page",
}
_HOLDS = frozenset(
    (
        HoldReason.RETRY_AFTER,
        HoldReason.BACKOFF,
        HoldReason.BLOCKED,
        HoldReason.ERRORS,
        HoldReason.FAILING,
        HoldReason.SNOOZED,
        HoldReason.ROBOTS_RETRY,
    )
)


def tell_host(events: Events, host: Host, request: RequestOutcome, now: float) -> None:
    """Add an event if the host was held or retired because of a failed request."""
    if request.failure is None:
        return
    if host.failures.retired:
        events.add(now, Kind.RETIRED, f"given up: {retired_words(host)}", host.name)
    elif host.politeness.hold_reason in _HOLDS and host.politeness.next_time > now:
        held, why = duration(host.politeness.next_time - now), host.politeness.hold_reason.words
        words = f"held for {held}: {why} ({request.failure.word})"
        events.add(now, Kind.BACKOFF, words, host.name)


def tell_learned(events: Events, lesson: Lesson, now: float) -> str | None:
    """Add an event if the crawler has learned how the host responds to requests for nonexistent paths. Returns the text
    of the event."""
    words = _LEARNED.get(lesson.row.kind)
    if words is not None:
        words = f"{words} (see {lesson.row.probe}): its links are left out"
        events.add(now, Kind.SOFT404, words, lesson.host)
    return words


def tell_failed(events: Events, record: PageRecord) -> None:
    """Add an event if the URL failed."""
    if record.outcome is Outcome.FAILED:
        events.add(record.fetched_at, Kind.ERROR, f"{record.entry.href}: {record.error}")
