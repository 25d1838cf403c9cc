"""Hosts that get no requests: one of our rules forbids it, or their robots.txt could not be fetched.

Names and ports that are refused by their text stay refused for the whole run. A name that resolves to a private address
is refused for a limited time, because the next lookup may return another address. Nothing is stored: the next run may
permit these hosts.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.host_closed import HostClosed
from crawler.url.refusal.own_rules import Refusal

KEPT_MAX = 100_000  # hosts; the oldest is evicted and judged again
_FOR_EVER = float("inf")


class RefusedHosts:
    """The refused hosts of a run. ``rule`` judges a ``host:port`` by its text; it must be fast."""

    def __init__(self) -> None:
        self.rule: Callable[[str], Refusal | None] = _none
        self.hosts: dict[str, tuple[HostClosed, float]] = {}  # reason and end of the refusal; most crawls refuse none

    def judge(self, name: str) -> None:
        """Remember the host if the rule refuses it."""
        refusal = self.rule(name)
        if refusal is not None and name not in self.hosts:
            self.remember(name, refusal)

    def remember(self, name: str, refusal: Refusal, until: float = _FOR_EVER) -> None:
        """Send no requests to the host until a time, in seconds since 1970."""
        self.close(name, HostClosed(refusal.rule.value, refusal.words, refusal=refusal), until)

    def close(self, name: str, why: HostClosed, until: float) -> None:
        """Refuse the host for any reason until a time, in seconds since 1970."""
        if len(self.hosts) >= KEPT_MAX:
            del self.hosts[next(iter(self.hosts))]
        self.hosts[name] = why, until

    def closure(self, name: str, now: float) -> HostClosed | None:
        """Return the reason why the host gets no requests, or None if it may."""
        found = self.hosts.get(name)
        if found is None:
            return None
        if found[1] <= now:
            del self.hosts[name]
            return None
        return found[0]


def _none(name: str) -> Refusal | None:
    return None
