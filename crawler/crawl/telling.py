"""What the steps of a job tell of hosts and URLs, in sentences for people."""

from __future__ import annotations

from crawler.frontier import Host
from crawler.metrics import Events, Kind, duration
from crawler.records import Outcome, PageRecord


def tell_held(events: Events, host: Host, now: float) -> None:
    """The host is left alone for longer than its gap."""
    wait = max(0.0, host.next_time - now)
    events.add(now, Kind.BACKOFF, f"held for {duration(wait)}: {host.rule.words}", host.name)


def tell_failed(events: Events, record: PageRecord) -> None:
    """The URL is done without a response; of any other outcome nothing is told."""
    if record.outcome is Outcome.FAILED:
        events.add(record.fetched_at, Kind.ERROR, f"{record.entry.href}: {record.error}")
