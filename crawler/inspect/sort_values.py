"""What the table of hosts is sorted by, of hosts that have no row yet: a row costs ten times as much.

The stored record of a host tells it, or its state in the memory of the running crawl. What neither tells costs a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawler.base.settings.sites import Sites
from crawler.frontier.host import Host, stored_host
from crawler.frontier.host_status import state_of, state_of_stored
from crawler.frontier.serving import AT_ONCE, Serving
from crawler.inspect.host_table import UNTOLD, share


class SortValues:
    """The values of hosts with nothing in flight for ``sort`` at ``now`` (seconds since 1970). ``serving``: what the
    crawl can do now for a host that is due."""

    def __init__(
        self,
        sort: str,
        sites: Sites,
        now: float,
        serving: Serving = AT_ONCE,
    ) -> None:
        self._sites = sites
        self._now = now
        self._serving = serving
        self._in_memory = self._state_in_memory if sort == "state" else None
        self.of_record = self._state if sort == "state" else _OF_RECORD.get(sort, _untold)

    @property
    def need_memory(self) -> bool:
        """Whether a record does not tell of a host that is in the memory of the running crawl."""
        return self._in_memory is not None

    def in_memory(self, host: Host) -> Any:
        """The value of a host in the memory of the running crawl. If that changes, the caller's thread does it."""
        return UNTOLD if self._in_memory is None else self._in_memory(host)

    def _state(self, name: str, value: bytes) -> Any:
        own = self._sites.of_host(name)
        stored = stored_host(value)
        if own.politeness.hours or stored.only_retries:
            return UNTOLD
        return state_of_stored(stored, self._now, own.budget, self._serving)

    def _state_in_memory(self, host: Host) -> Any:
        own = self._sites.of_host(host.name)
        return UNTOLD if own.politeness.hours else state_of(host, self._now, own.budget, self._serving)


def _latency(name: str, value: bytes) -> float | None:
    latency = stored_host(value).latency
    return None if latency < 0 else latency


def _failed(name: str, value: bytes) -> Any:
    host = stored_host(value)
    return UNTOLD if host.error_count else (host.failed, 0)


def _share(name: str, value: bytes) -> float | None:
    host = stored_host(value)
    return share(host.fetched, host.failed, host.size)


def _untold(name: str, value: bytes) -> Any:
    return UNTOLD


_OF_RECORD: dict[str, Callable[[str, bytes], Any]] = {
    "work": lambda name, value: (False, stored_host(value).size),
    "host": lambda name, value: name,
    "share": _share,
    "latency_seconds": _latency,
    "pending": lambda name, value: stored_host(value).size,
    "fetched": lambda name, value: stored_host(value).fetched,
    "failed": _failed,
    "errors": lambda name, value: UNTOLD if stored_host(value).error_count else 0,
}
