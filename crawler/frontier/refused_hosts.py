"""Hosts that are asked for nothing: a rule of ours forbids it, or their robots.txt could not be had.

Names and ports that are refused for what they are stay so for the whole run. A name that resolves to a private address
is refused for a while, because the next look-up may have another answer. Nothing of this is stored: the next run may
permit it.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.host_closed import HostClosed
from crawler.url.refusal.own_rules import Refusal

KEPT_MAX = 100_000  # hosts; the oldest is judged again
_FOR_EVER = float("inf")


class RefusedHosts:
    """The refused hosts of a run. ``rule`` judges a ``host:port`` by its text; it must be fast."""

    def __init__(self) -> None:
        self.rule: Callable[[str], Refusal | None] = _none
        self.hosts: dict[str, tuple[HostClosed, float]] = {}  # why, and until when; most crawls refuse none

    def judge(self, name: str) -> None:
        """Remember the host if the rule refuses it."""
        refusal = self.rule(name)
        if refusal is not None and name not in self.hosts:
            self.remember(name, refusal)

    def remember(self, name: str, refusal: Refusal, until: float = _FOR_EVER) -> None:
        """Ask the host no more until a time, in seconds since 1970."""
        self.close(name, HostClosed(refusal.rule.value, refusal.words, refusal=refusal), until)

    def close(self, name: str, why: HostClosed, until: float) -> None:
        """``remember`` for any reason."""
        if len(self.hosts) >= KEPT_MAX:
            del self.hosts[next(iter(self.hosts))]
        self.hosts[name] = why, until

    def closure(self, name: str, now: float) -> HostClosed | None:
        """Why the host is not asked; None if it may be."""
        found = self.hosts.get(name)
        if found is None:
            return None
        if found[1] <= now:
            del self.hosts[name]
            return None
        return found[0]


def _none(name: str) -> Refusal | None:
    return None
