"""Hosts as tests want them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.host import BackQueue, Failures, Growth, Host, Politeness, Tally
from crawler.frontier.lease import Throttled
from crawler.frontier.request_outcome import FailureClass, RequestOutcome


def made_host(name: str, **values: Any) -> Host:
    """A host with these values, each where it belongs."""
    host = Host(name)
    for key, value in values.items():
        if key in Failures._fields:
            host.failures = host.failures._replace(**{key: value})
            continue
        parts: tuple[BackQueue | Politeness | Tally | Growth | Host, ...]
        parts = (host.queue, host.politeness, host.tally, host.growth, host)
        setattr(next(part for part in parts if hasattr(part, key)), key, value)
    return host


def in_memory(frontier: Frontier, names: Iterable[str]) -> int:
    """How many of these hosts are in memory with their full state, not only with a ticket or a name in a line: of such
    a host there is one object, and of any other one is read from the store."""
    return sum(host is not None and frontier.known(name) is host for name in names for host in [frontier.known(name)])


def throttled(entry: Entry | None, after: float | None = None) -> Throttled:
    """The end of a lease that was answered with 429."""
    return Throttled(entry, RequestOutcome(failure=FailureClass.THROTTLED, retry_after=after))
