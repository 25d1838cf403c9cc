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
from crawler.frontier.politeness import gap
from crawler.frontier.retries import waits_left
from crawler.url.urls.domain import registrable_domain

RETRIES_MOST = 64  # number of a host's waiting retries that are read
ERRORS_LEAST = 5  # 5xx responses in a row after which each further one is expected to take the present pause
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


def tried_until(store: Reader, host: Host, settings: RetrySettings) -> float:
    """Return when the last try of the host's failing URLs, or of its robots.txt, is due if all of them fail, in seconds
    since 1970; 0 if nothing fails."""
    known = host.politeness
    if known.robots_tries:
        return known.next_time + sum(waits_left(known.robots_tries, settings.tries, settings, host.name))
    start, end = pending_key(host.name, RETRY_START), pending_key(host.name, FRESH_START)
    until, tries = 0.0, 0
    for key, value in store.scan(Family.PENDING, start, end, RETRIES_MOST) if host.queue.retry_size else ():
        entry = decode_entry(value)
        waits = waits_left(entry.tries, settings.tries, settings, entry.href) if entry.tries else []
        until = max(until, retry_time(split_pending_key(key)[1]) + sum(waits))
        tries += 1 + len(waits)
    if host.failures.server_errors < ERRORS_LEAST:
        return until
    if host.queue.retry_size + host.tally.fetched > 2 * host.tally.pages:  # most of its URLs fail, so others will
        tries += (host.queue.size - host.queue.retry_size) * settings.tries
    return max(until, known.next_time + (tries - 1) * (known.next_time - known.last_request))


def shared_key(host: Host, rule: str) -> str | None:
    """Return the key of the hosts that share a gap with this one, or None. ``rule`` is ``politeness.host_key``."""
    name, _, port = host.name.rpartition(":")
    if rule == "address":
        return host.politeness.address
    if rule == "domain":
        return registrable_domain(name)
    return name if rule == "host" and port.isdigit() else None


class _Group(Struct):
    """Hosts that share one gap, or a single host: the sums over their URLs."""

    name: str = ""  # the host with the most pending URLs, their number, and why it waits
    most: int = 0
    reason: str = ""
    hosts: int = 0
    pending: int = 0
    gaps: float = 0.0  # sum of the gaps of all URLs, in seconds
    responses: float = 0.0  # sum of the response times of all URLs, in seconds
    delay: float = 0.0  # seconds; the longest Crawl-delay of the group, which applies to all of its hosts
    wait: float = float("inf")  # seconds until the first URL may be requested
    tries: float = 0.0  # seconds until the last try of the failing URLs

    def time(self, per_host: int) -> HostTime:
        """Return its time if each host has ``per_host`` lease slots. The starts of two requests are at least a gap
        apart, regardless of the number of slots."""
        gaps = max(self.gaps, self.pending * self.delay)
        busy = max(gaps, (gaps + self.responses) / per_host)
        seconds = max(self.wait + busy, self.tries)
        fails, each = seconds > self.wait + busy, busy / self.pending
        reason = self.reason or (RETRIES if fails else "")
        return HostTime(self.name, self.pending, each, seconds, self.hosts, self.wait, reason, fails)


class HostTimes:
    """The times of all hosts of a job from ``now`` on (seconds since 1970), added one by one.

    ``slowest`` is the slowest host or group so far; None if none has anything queued. ``growing`` is one of the hosts
    whose queue grows as fast as it is read: one far from the seeds if any, else the one with most pending URLs.
    """

    def __init__(self, rule: str, now: float) -> None:
        self.slowest: HostTime | None = None
        self.growing: Host | None = None
        self._rule = rule
        self._now = now
        self._groups: dict[str, _Group] = {}
        self._key: str | None = None

    def add(self, host: Host, settings: PolitenessSettings, tried_until: float = 0.0) -> None:
        """Add a host that can be requested. ``settings`` are the settings of that host."""
        if not host.queue.size:
            return
        if host.growth.grows:
            self.growing = max(self.growing or host, host, key=lambda each: (bool(each.growth.deep), each.queue.size))
        key = shared_key(host, self._rule)
        if self._rule == "host" and key != self._key:
            # Hosts are added in order of name, so those with the same name are adjacent.
            self._groups.clear()
            self._key = key
        group = _Group() if key is None else self._groups.get(key) or _Group()
        if key is not None and len(self._groups) < GROUPS_MOST:
            self._groups[key] = group
        self._join(group, host, settings, tried_until - self._now)
        time = group.time(settings.per_host)
        if self.slowest is None or time.seconds > self.slowest.seconds:
            self.slowest = time

    def _join(self, group: _Group, host: Host, settings: PolitenessSettings, tries: float) -> None:
        known, size, next_time = host.politeness, host.queue.size, next_time_of(host)
        group.hosts += 1
        group.pending += size
        group.gaps += size * gap(None, settings)[0]
        group.responses += size * (known.latency or 0.0)
        if known.crawl_delay is not None:
            group.delay = max(group.delay, min(known.crawl_delay, settings.max_crawl_delay))
        group.wait = min(group.wait, max(0.0, next_time - self._now))
        group.tries = max(group.tries, tries)
        if size > group.most:
            reason = "" if known.hold_reason.is_gap else known.hold_reason.words
            group.name, group.most = host.name, size
            group.reason = RETRIES if next_time > known.next_time else reason
