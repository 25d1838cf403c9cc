"""What the steps of a job tell of hosts and URLs, in sentences for people."""

from __future__ import annotations

from crawler.frontier import HoldReason, Host, RequestOutcome, retired_words
from crawler.metrics import Events, Kind, duration
from crawler.records import Outcome, PageRecord

_HOLDS = frozenset(
    (HoldReason.RETRY_AFTER, HoldReason.BACKOFF, HoldReason.FAILING, HoldReason.SNOOZED, HoldReason.ROBOTS_RETRY)
)


def tell_host(events: Events, host: Host, request: RequestOutcome, now: float) -> None:
    """What a request came to that the host did not answer, or only to be asked less; else nothing is told."""
    if request.failure is None:
        return
    if host.failures.retired:
        events.add(now, Kind.RETIRED, f"given up: {retired_words(host)}", host.name)
    elif host.politeness.hold_reason in _HOLDS and host.politeness.next_time > now:
        held, why = duration(host.politeness.next_time - now), host.politeness.hold_reason.words
        words = f"held for {held}: {why} ({request.failure.word})"
        events.add(now, Kind.BACKOFF, words, host.name)


def tell_failed(events: Events, record: PageRecord) -> None:
    """The URL is done without a response; of any other outcome nothing is told."""
    if record.outcome is Outcome.FAILED:
        events.add(record.fetched_at, Kind.ERROR, f"{record.entry.href}: {record.error}")
