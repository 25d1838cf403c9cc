"""Estimates the minimum time that a crawl needs for its queued URLs.

A host's URLs are requested one after another, a gap apart. Hosts that share one gap (``politeness.host_key``) take
turns, so their times add up. The slowest host or group determines the end of a crawl, unless slots or the rate limit
take longer for all URLs together.
"""

from __future__ import annotations

from msgspec import Struct

from crawler.base.kv import Family, Reader
from crawler.base.settings.parts import PolitenessSettings, RetrySettings
from crawler.frontier.entry import FRESH_START, RETRY_START, decode_entry, pending_key, retry_time, split_pending_key
from crawler.frontier.host import Host
from crawler.frontier.host_status import RETRIES, next_time_of
from crawler.frontier.politeness import HoldReason, gap
from crawler.frontier.retries import waits_left
from crawler.url.urls.domain import registrable_domain

RETRIES_MOST = 64  # number of a host's waiting retries that are read
ERRORS_LEAST = 5  # 5xx responses in a row after which all further responses of a host are expected to be 5xx
GROUPS_MOST = 100_000  # number of groups that are summed; beyond it, hosts of new groups are counted individually


class HostTime(Struct, frozen=True):
    """The time until all ``pending`` URLs of a host have been requested.

    ``seconds`` is ``wait_seconds``, the time until its next request, plus ``seconds_per_url`` for each URL; if the URLs
    that wait for another try take longer in case all of these tries fail, it is that time, and ``fails`` is True.
    ``reason`` is why the host waits, empty if only for its gap. For ``hosts`` that share one gap it is the sum, under
    the name of the host with most pending URLs.
    """

    name: str
    pending: int
    seconds_per_url: float
    seconds: float
    hosts: int = 1
    wait_seconds: float = 0.0
    reason: str = ""
    fails: bool = False


class Work(Struct, frozen=True):
    """The pending work of a host: ``size`` URLs from ``next_time`` (seconds since 1970). ``reason`` is why it waits,
    empty if only for its gap.

    ``address`` is None if unknown. If all tries of its failing URLs fail, the last one is due at ``tried_until``
    (seconds since 1970) or later. ``grows`` and ``deep`` are copied from the host's ``Growth``.
    """

    name: str
    size: int
    next_time: float
    crawl_delay: float | None
    latency: float | None
    address: str | None = None
    reason: str = ""
    grows: bool = False
    deep: str = ""
    tried_until: float = 0.0

    @classmethod
    def of(cls, host: Host, tried_until: float = 0.0) -> Work:
        known, queue = host.politeness, host.queue
        next_time = next_time_of(host)
        return cls(
            host.name,
            queue.size,
            next_time,
            known.crawl_delay,
            known.latency,
            known.address,
            RETRIES if next_time > known.next_time else _words(known.hold_reason),
            host.growth.grows,
            host.growth.deep,
            tried_until,
        )


def tried_until(store: Reader, host: Host, settings: RetrySettings) -> float:
    """Return when the last try of the host's failing URLs, or of its robots.txt, is due if all of them fail, in seconds
    since 1970; 0 if nothing fails."""
    known = host.politeness
    if known.robots_tries:
        return known.next_time + sum(waits_left(known.robots_tries, settings.tries, settings, host.name))
    start, end = pending_key(host.name, RETRY_START), pending_key(host.name, FRESH_START)
    until, tries = 0.0, (host.queue.size - host.queue.retry_size) * settings.tries
    for key, value in store.scan(Family.PENDING, start, end, RETRIES_MOST) if host.queue.retry_size else ():
        entry = decode_entry(value)
        waits = waits_left(entry.tries, settings.tries, settings, entry.href) if entry.tries else []
        until = max(until, retry_time(split_pending_key(key)[1]) + sum(waits))
        tries += 1 + len(waits)
    if host.failures.server_errors < ERRORS_LEAST:
        return until
    return max(until, known.next_time + (tries - 1) * (known.next_time - known.last_request))


def _words(reason: HoldReason) -> str:
    return "" if reason.is_gap else reason.words


def pace(crawl_delay: float | None, latency: float | None, settings: PolitenessSettings) -> float:
    """Return the seconds that each URL of a host takes: the gap and the response time, divided among its lease slots.

    The starts of two requests are at least a gap apart, regardless of the number of slots.
    """
    between, _ = gap(crawl_delay, settings)
    return max(between, (between + (latency or 0.0)) / settings.per_host)


def time_of(work: Work, now: float, settings: PolitenessSettings) -> HostTime:
    """Return the time of a single host, from ``now`` (seconds since 1970) on."""
    each = pace(work.crawl_delay, work.latency, settings)
    if not work.size:
        return HostTime(work.name, 0, each, 0.0)
    wait, tries = max(0.0, work.next_time - now), work.tried_until - now
    seconds = wait + work.size * each
    if tries <= seconds:
        return HostTime(work.name, work.size, each, seconds, 1, wait, work.reason)
    return HostTime(work.name, work.size, each, tries, 1, wait, work.reason or RETRIES, fails=True)


def shared_key(work: Work, rule: str) -> str | None:
    """Return the key of the hosts that share a gap with this one, or None. ``rule`` is ``politeness.host_key``."""
    name, _, port = work.name.rpartition(":")
    if rule == "address":
        return work.address
    if rule == "domain":
        return registrable_domain(name)
    return name if rule == "host" and port.isdigit() else None


class _Group(Struct):
    """Hosts that share one gap: the sums over their URLs."""

    most: HostTime
    hosts: int = 0
    pending: int = 0
    gaps: float = 0.0  # sum of the gaps of all URLs, in seconds
    responses: float = 0.0  # sum of the response times of all URLs, in seconds
    delay: float = 0.0  # seconds; the longest Crawl-delay of the group, which applies to all of its hosts
    wait: float = float("inf")  # seconds until the first URL may be requested
    tries: float = 0.0  # seconds until the last try of the failing URLs


class HostTimes:
    """The times of all hosts of a job from ``now`` on, added one by one.

    ``slowest`` is the slowest host or group so far; None if none has anything queued. ``growing`` is one of the hosts
    whose queue grows as fast as it is read: one far from the seeds if any, else the one with most pending URLs.
    """

    def __init__(self, rule: str, now: float) -> None:
        self.slowest: HostTime | None = None
        self.growing: Work | None = None
        self._rule = rule
        self._now = now
        self._groups: dict[str, _Group] = {}
        self._key: str | None = None

    def add(self, work: Work, settings: PolitenessSettings) -> None:
        """Add a host that can be requested. ``settings`` are the settings of that host."""
        if not work.size:
            return
        if work.grows:
            self.growing = max(self.growing or work, work, key=lambda each: (bool(each.deep), each.size))
        alone, key = time_of(work, self._now, settings), shared_key(work, self._rule)
        if key is None:
            self._longer(alone)
            return
        if self._rule == "host" and key != self._key:
            # Hosts are added in order of name, so those with the same name are adjacent.
            self._groups.clear()
            self._key = key
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) == GROUPS_MOST:
                self._longer(alone)
                return
            group = self._groups[key] = _Group(alone)
        self._join(group, work, alone, settings)

    def _join(self, group: _Group, work: Work, alone: HostTime, settings: PolitenessSettings) -> None:
        group.hosts += 1
        group.pending += work.size
        group.gaps += work.size * gap(None, settings)[0]
        group.responses += work.size * (work.latency or 0.0)
        if work.crawl_delay is not None:
            group.delay = max(group.delay, min(work.crawl_delay, settings.max_crawl_delay))
        group.wait = min(group.wait, alone.wait_seconds)
        group.tries = max(group.tries, work.tried_until - self._now)
        if alone.pending > group.most.pending:
            group.most = alone
        if group.hosts == 1:
            self._longer(alone)
            return
        gaps = max(group.gaps, group.pending * group.delay)
        seconds = max(gaps, (gaps + group.responses) / settings.per_host)
        each = seconds / group.pending
        most, wait, tries = group.most, group.wait, group.tries
        seconds, fails = max(wait + seconds, tries), tries > wait + seconds
        self._longer(HostTime(most.name, group.pending, each, seconds, group.hosts, wait, most.reason, fails))

    def _longer(self, other: HostTime) -> None:
        if self.slowest is None or other.seconds > self.slowest.seconds:
            self.slowest = other
