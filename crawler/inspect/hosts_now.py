"""What is known of the hosts of a job besides their records, by a reader in another process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from crawler.frontier import AT_ONCE, Bar, Host, Serving, queue_of
from crawler.frontier.host import decode_host, glance
from crawler.inspect.statistics import SlotFigures
from crawler.job.live_status import Live
from crawler.kv import Family, Reader
from crawler.settings import Settings


@dataclass(frozen=True, slots=True)
class HostsNow:
    """``in_flight`` counts handed-out URLs by host. ``side_requests`` are the hosts whose robots.txt or address is
    asked for. ``serving``: what the crawl can do for a host that is due."""

    in_flight: Mapping[str, int] = field(default_factory=dict)
    side_requests: Mapping[str, float] = field(default_factory=dict)
    serving: Serving = AT_ONCE

    def host(self, name: str, value: bytes) -> Host:
        """The host of a stored record. Raises HostRecordError."""
        host = decode_host(name, value)
        host.queue.taken = self.in_flight.get(name, 0)
        host.side_request = name in self.side_requests
        host.leased = host.queue.taken + host.side_request
        return host

    def is_busy(self, name: str) -> bool:
        """Whether a request to the host is in flight."""
        return name in self.in_flight or name in self.side_requests


def hosts_now(live: Live | None, store: Reader, settings: Settings, now: float) -> HostsNow:
    """Return what the running crawl tells, if one runs. Otherwise a host that is due is asked when the crawl resumes,
    but if there are more of them than slots, it waits for its turn."""
    if live is not None:
        flying = Counter(map(queue_of, live.in_flight))
        slots = slot_figures(live)
        return HostsNow(flying, live.side_requests, AT_ONCE if slots is None else slots.serving)
    many = due_hosts(store, now, settings.crawl.concurrency) > settings.crawl.concurrency
    return HostsNow(serving=Serving(Bar.TURN) if many else AT_ONCE)


def slot_figures(live: Live) -> SlotFigures | None:
    """Return what a crawl tells of its slots; None if it is of an earlier version."""
    told = live.stats.get("slots")
    return None if told is None else SlotFigures(**told)


def due_hosts(store: Reader, now: float, most: int) -> int:
    """Return how many open hosts are due, by their records: exactly, or more than ``most``."""
    found = 0
    for page in store.pages(Family.HOSTS):
        for _, value in page:
            _, flags, size, next_time, _ = glance(value)
            found += bool(size) and not flags and next_time <= now
        if found > most:
            return found
    return found
