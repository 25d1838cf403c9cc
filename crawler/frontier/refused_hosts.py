"""Hosts that a rule of ours forbids to ask.

Names and ports that are refused for what they are stay so for the whole run. A name that resolves to a private address
is refused for a while, because the next look-up may have another answer. Nothing of this is stored: the next run may
permit it.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.host_closed import HostClosed
from crawler.refusal import Refusal

KEPT_MAX = 100_000  # hosts; the oldest is judged again
_FOR_EVER = float("inf")


class RefusedHosts:
    """The refused hosts of a run. ``rule`` judges a ``host:port`` by its text; it must be fast."""

    def __init__(self) -> None:
        self.rule: Callable[[str], Refusal | None] = _none
        self._hosts: dict[str, tuple[HostClosed, float]] = {}

    @property
    def any(self) -> bool:
        """Whether any host is refused: most crawls refuse none."""
        return bool(self._hosts)

    def judge(self, name: str) -> None:
        """Remember the host if the rule refuses it."""
        refusal = self.rule(name)
        if refusal is not None and name not in self._hosts:
            self.remember(name, refusal)

    def remember(self, name: str, refusal: Refusal, until: float = _FOR_EVER) -> None:
        """Ask the host no more until a time, in seconds since 1970."""
        if len(self._hosts) >= KEPT_MAX:
            del self._hosts[next(iter(self._hosts))]
        self._hosts[name] = HostClosed(refusal.rule.value, refusal.words, refusal=refusal), until

    def closure(self, name: str, now: float) -> HostClosed | None:
        """Why the host is not asked; None if it may be."""
        found = self._hosts.get(name)
        if found is None:
            return None
        if found[1] <= now:
            del self._hosts[name]
            return None
        return found[0]


def _none(name: str) -> Refusal | None:
    return None
