"""Sort values for hosts that have no row yet: a row costs ten times as much.

The values come from the hosts' stored records. Where a record is not enough, a row is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawler.frontier.host import pages_of, stored_host
from crawler.inspect.host_table import UNTOLD, share


def _latency(name: str, value: bytes) -> float | None:
    latency = stored_host(value).latency
    return None if latency < 0 else latency


def _failed(name: str, value: bytes) -> Any:
    host = stored_host(value)
    return UNTOLD if host.error_count else (host.failed, 0)


def _share(name: str, value: bytes) -> float | None:
    host = stored_host(value)
    return share(host.fetched, host.failed, host.size)


_OF_RECORD: dict[str, Callable[[str, bytes], Any]] = {
    "work": lambda name, value: (False, stored_host(value).size),
    "host": lambda name, value: name,
    "share": _share,
    "latency_seconds": _latency,
    "pending": lambda name, value: stored_host(value).size,
    "fetched": lambda name, value: stored_host(value).fetched,
    "failed": _failed,
    "needs_scripts": lambda name, value: pages_of(value)[1],
    "errors": lambda name, value: UNTOLD if stored_host(value).error_count else 0,
}


def told_by(sort: str) -> Callable[[str, bytes], Any]:
    """Return the function that gives a host's value for ``sort`` from its name and record, with no URLs in flight."""
    return _OF_RECORD.get(sort, lambda name, value: UNTOLD)
