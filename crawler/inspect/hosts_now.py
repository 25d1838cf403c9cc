"""The current state of a job's hosts that is not in their records, for a reader in another process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

from msgspec import Struct, field

from crawler.base.kv import Family, Reader
from crawler.base.settings.parts import PolitenessSettings
from crawler.base.settings.sites import Sites
from crawler.frontier.capacity import AT_ONCE, Serving
from crawler.frontier.entry import queue_of
from crawler.frontier.host import Host, host_name, stored_host
from crawler.frontier.host_keys import NO_HOLD, OF_THE_KEY, KeyHold, under_key
from crawler.frontier.host_status import HostSnapshot, snapshot
from crawler.frontier.politeness import HoldReason
from crawler.frontier.queues import read_host
from crawler.inspect.statistics import SlotFigures
from crawler.job.live_status import Live

_PORTS_MOST = 64  # maximum number of records read to find the holds on one host


class HostsNow(Struct, frozen=True):
    """``in_flight`` counts URLs in flight by host. ``side_requests`` are the hosts whose robots.txt or address is being
    fetched. ``serving`` is what the crawl can do for a due host."""

    store: Reader
    in_flight: Mapping[str, int] = field(default_factory=dict)
    side_requests: Mapping[str, float] = field(default_factory=dict)
    serving: Serving = AT_ONCE

    def host(self, name: str, value: bytes, held: KeyHold = NO_HOLD) -> Host:
        """Return the host of a stored record; ``held`` are the holds from other hosts with its key. Raises
        HostRecordError."""
        host = read_host(self.store, name, value)
        host.queue.taken = self.in_flight.get(name, 0)
        host.side_request = name in self.side_requests
        host.leased = host.queue.taken + host.side_request
        return host if held is NO_HOLD else under_key(host, held)

    def holds(
        self, rows: Iterable[tuple[bytes, bytes]], settings: Callable[[str], PolitenessSettings]
    ) -> dict[str, KeyHold]:
        """Return, by host, the holds from other hosts of the same name (``politeness.host_key = "host"``), according to
        these stored records. Raises HostRecordError."""
        found: dict[str, KeyHold] = {}
        for _, group in groupby(rows, lambda row: row[0].rpartition(b":")[0]):
            hosts = [(host_name(key), value) for key, value in group]
            if len(hosts) > 1:
                found |= self._holds_of_name(dict(hosts), settings(hosts[0][0]).per_host)
        return found

    def _holds_of_name(self, hosts: dict[str, bytes], slots: int) -> Iterator[tuple[str, KeyHold]]:
        stored = [stored_host(value).politeness for value in hosts.values()]
        held = ((each.next_time, each.hold_reason) for each in stored if each.hold_reason in OF_THE_KEY)
        until, reason = max(held, default=(0.0, 0))
        flying = sum(self.in_flight.get(name, 0) + (name in self.side_requests) for name in hosts)
        crawl_delay = max(0.0, *(each.crawl_delay or 0.0 for each in stored))
        for name in hosts:
            busy = flying >= slots and not self.is_busy(name)
            yield name, KeyHold(until, HoldReason(reason), busy, crawl_delay)

    def holds_on(self, name: str, settings: PolitenessSettings) -> KeyHold:
        """Return the hold on one host from other hosts of the same name. Raises HostRecordError."""
        if settings.host_key != "host":
            return NO_HOLD
        start = name.rpartition(":")[0].encode("ascii") + b":"
        rows = self.store.scan(Family.HOSTS, start, start[:-1] + b";", _PORTS_MOST)
        return self.holds(rows, lambda _: settings).get(name, NO_HOLD)

    def snapshot(self, name: str, sites: Sites, now: float) -> HostSnapshot | None:
        """Return the state of one host; None if none of its URLs has been admitted. Raises HostRecordError."""
        stored = self.store.get(Family.HOSTS, name.encode("ascii")) if name.isascii() else None
        if stored is None:
            return None
        own = sites.of_host(name)
        host = self.host(name, stored, self.holds_on(name, own.politeness))
        return snapshot(host, now, own.politeness, own.budget, self.serving)

    def is_busy(self, name: str) -> bool:
        """True if a request to the host is in flight."""
        return name in self.in_flight or name in self.side_requests


def hosts_now(live: Live | None, store: Reader) -> HostsNow:
    """Return the state of the hosts that the running crawl reports; an empty state if no crawl is running."""
    if live is None:
        return HostsNow(store)
    slots = slot_figures(live)
    serving = AT_ONCE if slots is None else slots.serving
    return HostsNow(store, Counter(map(queue_of, live.in_flight)), live.side_requests, serving)


def slot_figures(live: Live) -> SlotFigures | None:
    """Return the slots of a crawl; None if it has not reported any yet."""
    told = live.stats.get("slots")
    return None if told is None else SlotFigures(**told)
