"""What the table of hosts is sorted by, of hosts that have no row yet: a row costs ten times as much.

The stored record of a host tells it, or its state in the memory of the running crawl. What neither tells costs a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawler.base.settings import PolitenessSettings, Sites
from crawler.frontier import AT_ONCE, Host, Serving, decode_host, state_of
from crawler.frontier.host import StoredHost, stored_counts, stored_host
from crawler.frontier.host_status import next_time_of, state_of_stored
from crawler.frontier.politeness import gap
from crawler.frontier.tries_ahead import Pace, Troubles, slowed
from crawler.inspect.host_outlook import pace, seconds_left, share
from crawler.inspect.host_table import UNTOLD


class SortValues:
    """The values of hosts with nothing in flight for ``sort`` at ``now`` (seconds since 1970). ``serving``: what the
    crawl can do now for a host that is due. ``running``: it hands out URLs."""

    def __init__(
        self,
        sort: str,
        sites: Sites,
        now: float,
        serving: Serving = AT_ONCE,
        *,
        running: bool = True,
    ) -> None:
        self._sites = sites
        self._now = now
        self._serving = serving
        self._running = running
        of_times: dict[str, Callable[[str, bytes], Any]] = {
            "state": self._state,
            "pace": self._pace,
            "seconds_left": self._seconds_left,
            "latency_seconds": _latency,
        }
        self._in_memory = {
            "state": self._state_in_memory,
            "pace": self._pace_in_memory,
            "seconds_left": self._seconds_left_in_memory,
        }.get(sort)
        self.of_record = {**_COUNTS, **of_times}.get(sort, _untold)

    @property
    def need_memory(self) -> bool:
        """Whether a record does not tell of a host that is in the memory of the running crawl."""
        return self._in_memory is not None

    def in_memory(self, host: Host) -> Any:
        """The value of a host in the memory of the running crawl. If that changes, the caller's thread does it."""
        return UNTOLD if self._in_memory is None else self._in_memory(host)

    def _state(self, name: str, value: bytes) -> Any:
        own = self._sites.of_host(name)
        if own.politeness.hours:
            return UNTOLD
        return state_of_stored(stored_host(value), self._now, own.budget, self._serving)

    def _state_in_memory(self, host: Host) -> Any:
        own = self._sites.of_host(host.name)
        return UNTOLD if own.politeness.hours else state_of(host, self._now, own.budget, self._serving)

    def _pace(self, name: str, value: bytes) -> Any:
        if not self._running:
            return None
        own, host = self._sites.of_host(name), stored_host(value)
        if own.politeness.hours:
            return UNTOLD
        state = state_of_stored(host, self._now, own.budget, self._serving)
        each, more = self._times(name, value, host, own.politeness)
        return pace(state, host.fetched + host.failed, each, more)

    def _pace_in_memory(self, host: Host) -> Any:
        if not self._running:
            return None
        own = self._sites.of_host(host.name)
        if own.politeness.hours:
            return UNTOLD
        state = state_of(host, self._now, own.budget, self._serving)
        each, more = self._times_in_memory(host, own.politeness)
        return pace(state, host.tally.fetched + host.tally.failed, each, more)

    def _seconds_left(self, name: str, value: bytes) -> Any:
        own, host = self._sites.of_host(name), stored_host(value)
        if own.politeness.hours:
            return UNTOLD
        state = state_of_stored(host, self._now, own.budget, self._serving)
        each, more = self._times(name, value, host, own.politeness)
        return seconds_left(state, host.size, each, more, max(0.0, host.next_time - self._now))

    def _seconds_left_in_memory(self, host: Host) -> Any:
        own = self._sites.of_host(host.name)
        if own.politeness.hours:
            return UNTOLD
        state = state_of(host, self._now, own.budget, self._serving)
        each, more = self._times_in_memory(host, own.politeness)
        return seconds_left(state, host.queue.size, each, more, max(0.0, next_time_of(host) - self._now))

    def _times(
        self, name: str, value: bytes, host: StoredHost, settings: PolitenessSettings
    ) -> tuple[float, float | None]:
        """(Seconds that each URL of a host takes, what further tries and holds add); None is not known."""
        if host.troubled or host.error_count:
            return self._times_in_memory(decode_host(name, value), settings)
        latency = None if host.latency < 0 else host.latency
        between, _ = gap(None if host.crawl_delay < 0 else host.crawl_delay, latency, settings)
        return Pace(between, latency).each(settings.per_host), 0.0

    def _times_in_memory(self, host: Host, settings: PolitenessSettings) -> tuple[float, float | None]:
        known = host.politeness
        shown = Pace(gap(known.crawl_delay, known.latency, settings)[0], known.latency)
        more = slowed(Troubles.of(host), shown, settings, self._sites.settings.retry)
        return shown.each(settings.per_host), more


def _latency(name: str, value: bytes) -> float | None:
    latency = stored_host(value).latency
    return None if latency < 0 else latency


def _failed(name: str, value: bytes) -> Any:
    _, _, failed, errors = stored_counts(value)
    return UNTOLD if errors else (failed, 0)


def _share(name: str, value: bytes) -> float | None:
    queued, fetched, failed, _ = stored_counts(value)
    return share(fetched, failed, queued)


def _untold(name: str, value: bytes) -> Any:
    return UNTOLD


_COUNTS: dict[str, Callable[[str, bytes], Any]] = {
    "work": lambda name, value: (False, stored_counts(value)[0]),
    "host": lambda name, value: name,
    "share": _share,
    "pending": lambda name, value: stored_counts(value)[0],
    "fetched": lambda name, value: stored_counts(value)[1],
    "failed": _failed,
    "errors": lambda name, value: UNTOLD if stored_counts(value)[3] else 0,
}
