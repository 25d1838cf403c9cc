"""What the table of hosts is sorted by, of hosts that have no row yet: a row costs ten times as much.

The stored record of a host tells it. What that does not tell costs a row.
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
    """What tells the value of a host with nothing in flight for ``sort``, by its name and its stored record."""
    return _OF_RECORD.get(sort, lambda name, value: UNTOLD)
