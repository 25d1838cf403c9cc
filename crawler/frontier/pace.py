"""How long a host takes for what it has queued: the host that takes longest ends a crawl."""

from __future__ import annotations

from dataclasses import dataclass

from crawler.frontier.host import Host, workload
from crawler.frontier.politeness import gap
from crawler.settings import PolitenessSettings


@dataclass(frozen=True, slots=True)
class HostTime:
    """``seconds`` until a host has been asked for all ``pending`` URLs: until its next time, and ``seconds_per_url``
    for each."""

    name: str
    pending: int
    seconds_per_url: float
    seconds: float


def pace(crawl_delay: float | None, latency: float | None, settings: PolitenessSettings) -> float:
    """Seconds that each URL of a host takes: the gap and the time of a response, over its lease slots. The starts of
    two requests are a gap apart however many slots there are."""
    between, _ = gap(crawl_delay, latency, settings)
    return max(between, (between + (latency or 0.0)) / settings.per_host)


def time_of(host: Host, now: float, settings: PolitenessSettings) -> HostTime:
    """The time of a host from ``now`` (seconds since 1970) on."""
    known = host.politeness
    return _time(host.name, (host.queue.size, known.next_time, known.crawl_delay, known.latency), now, settings)


def stored_time(name: str, value: bytes, now: float, settings: PolitenessSettings) -> HostTime:
    """``time_of`` for a stored record, which is not decoded. Raises HostRecordError."""
    return _time(name, workload(value), now, settings)


def _time(
    name: str,
    work: tuple[int, float, float | None, float | None],
    now: float,
    settings: PolitenessSettings,
) -> HostTime:
    size, next_time, crawl_delay, latency = work
    each = pace(crawl_delay, latency, settings)
    return HostTime(name, size, each, max(0.0, next_time - now) + size * each if size else 0.0)
