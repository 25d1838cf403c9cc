"""How long a crawl takes at least for what it has queued.

A host is asked for one URL after another, a gap apart. Hosts that share one gap (``politeness.host_key``) take turns,
so their times add up. The host or group that takes longest ends a crawl, unless slots or the rate limit take longer for
all URLs together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crawler.frontier.host import Host, decode_host, workload
from crawler.frontier.politeness import gap
from crawler.settings import PolitenessSettings
from crawler.urls import registrable_domain

GROUPS_MOST = 100_000  # groups that are added up; beyond, the hosts of a new one count one by one


@dataclass(frozen=True, slots=True)
class HostTime:
    """``seconds`` until a host has been asked for all ``pending`` URLs: until its next time, and ``seconds_per_url``
    for each. Of ``hosts`` that share one gap it is the sum, by the name of the one that has most pending."""

    name: str
    pending: int
    seconds_per_url: float
    seconds: float
    hosts: int = 1


class Work(NamedTuple):
    """What a host has to do: ``size`` URLs from ``next_time`` on (seconds since 1970). ``address``: None if it is not
    known."""

    name: str
    size: int
    next_time: float
    crawl_delay: float | None
    latency: float | None
    address: str | None = None

    @classmethod
    def of(cls, host: Host) -> Work:
        known = host.politeness
        return cls(host.name, host.queue.size, known.next_time, known.crawl_delay, known.latency, known.address)

    @classmethod
    def stored(cls, name: str, value: bytes, rule: str) -> Work:
        """That of a stored record, which is decoded only if the host key ``rule`` needs more. Raises
        HostRecordError."""
        return cls.of(decode_host(name, value)) if rule == "address" else cls(name, *workload(value))


def pace(crawl_delay: float | None, latency: float | None, settings: PolitenessSettings) -> float:
    """Seconds that each URL of a host takes: the gap and the time of a response, over its lease slots. The starts of
    two requests are a gap apart however many slots there are."""
    between, _ = gap(crawl_delay, latency, settings)
    return seconds_per_url(between, latency, settings.per_host)


def seconds_per_url(between: float, latency: float | None, per_host: int) -> float:
    """The same, of a gap that is known."""
    return max(between, (between + (latency or 0.0)) / per_host)


def time_of(work: Work, now: float, settings: PolitenessSettings) -> HostTime:
    """The time of a host on its own from ``now`` (seconds since 1970) on."""
    each = pace(work.crawl_delay, work.latency, settings)
    return HostTime(work.name, work.size, each, max(0.0, work.next_time - now) + work.size * each if work.size else 0.0)


def shared_key(work: Work, rule: str) -> str | None:
    """The key of the hosts that share a gap with this one; None if none does. ``rule`` is ``politeness.host_key``."""
    name, _, port = work.name.rpartition(":")
    if rule == "address":
        return work.address
    if rule == "domain":
        return registrable_domain(name)
    return name if rule == "host" and port.isdigit() else None


@dataclass(slots=True)
class _Group:
    """Hosts that share one gap: the sums over their URLs."""

    most: HostTime
    hosts: int = 0
    pending: int = 0
    gaps: float = 0.0  # seconds
    responses: float = 0.0  # seconds
    delay: float = 0.0  # the longest Crawl-delay counts for all
    wait: float = float("inf")  # until the first may be asked


class HostTimes:
    """The times of all hosts of a job from ``now`` on, added one by one. ``slowest``: of all so far; None if none has
    anything queued. ``slot_seconds``: the time of all responses."""

    def __init__(self, rule: str, now: float) -> None:
        self.slowest: HostTime | None = None
        self.slot_seconds = 0.0
        self._rule = rule
        self._now = now
        self._groups: dict[str, _Group] = {}
        self._key: str | None = None

    def add(self, work: Work, settings: PolitenessSettings) -> None:
        """Add a host that is asked. ``settings`` are its own."""
        if not work.size:
            return
        self.slot_seconds += work.size * (work.latency or 0.0)
        alone, key = time_of(work, self._now, settings), shared_key(work, self._rule)
        if key is None:
            self._longer(alone)
            return
        if self._rule == "host" and key != self._key:
            # In order of name, the hosts of one name follow each other.
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
        group.gaps += work.size * gap(None, work.latency, settings)[0]
        group.responses += work.size * (work.latency or 0.0)
        if work.crawl_delay is not None:
            group.delay = max(group.delay, min(work.crawl_delay, settings.max_crawl_delay))
        group.wait = min(group.wait, max(0.0, work.next_time - self._now))
        if alone.pending > group.most.pending:
            group.most = alone
        if group.hosts == 1:
            self._longer(alone)
            return
        gaps = max(group.gaps, group.pending * group.delay)
        seconds = max(gaps, (gaps + group.responses) / settings.per_host)
        each = seconds / group.pending
        self._longer(HostTime(group.most.name, group.pending, each, group.wait + seconds, group.hosts))

    def _longer(self, other: HostTime) -> None:
        if self.slowest is None or other.seconds > self.slowest.seconds:
            self.slowest = other
