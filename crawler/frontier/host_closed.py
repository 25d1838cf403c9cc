"""Hosts that are no longer asked: retired, blocked by the user, or over their budget.

A closed host's URLs are still handed out, so that each ends as a record that names the reason; nothing is asked for
them. The same holds for URLs that are admitted later.
"""

from __future__ import annotations

from dataclasses import dataclass

from crawler.frontier.host import Host
from crawler.frontier.request_outcome import FailureClass
from crawler.settings import BudgetSettings


@dataclass(frozen=True, slots=True)
class HostClosed:
    """Why a host is no longer asked. ``failed``: its URLs could not be had, else a rule of ours excludes them."""

    rule: str
    words: str
    failed: bool = False

    @property
    def budget(self) -> bool:
        """Whether enough was taken of the host; its robots.txt may be asked for all the same."""
        return self.rule == "budget"

    @property
    def error(self) -> str:
        """The ``error`` of the records."""
        return f"{self.rule}: {self.words}"


_BLOCKED = HostClosed("blocked", "its host was blocked by hand")


def closure(host: Host, budget: BudgetSettings) -> HostClosed | None:
    """None for a host that may be asked."""
    if host.politeness.blocked:
        return _BLOCKED
    if host.failures.retired:
        return HostClosed("retired", retired_words(host), failed=True)
    tally = host.tally
    if budget.host_pages is not None and tally.fetched >= budget.host_pages:
        return HostClosed("budget", f"host_pages: {tally.fetched} of {budget.host_pages} responses are taken")
    if budget.host_bytes is not None and tally.size_read >= budget.host_bytes:
        return HostClosed("budget", f"host_bytes: {tally.size_read} of {budget.host_bytes} bytes are taken")
    if budget.host_seconds is not None and tally.seconds >= budget.host_seconds:
        return HostClosed("budget", f"host_seconds: {tally.seconds:.1f} of {budget.host_seconds:g} s are taken")
    return None


def retired_words(host: Host) -> str:
    """Why the host was retired."""
    times, snoozes, backoff, last, *_ = host.failures
    if last is FailureClass.THROTTLED:
        return f"its host answered 429 or 503 {backoff} times in a row"
    word = "no answer" if last is None else last.word
    return f"its host gave no answer {times} times in a row, {snoozes} snoozes among them; the last: {word}"


def pages_left(host: Host, budget: BudgetSettings) -> int | None:
    """How many more requests may be begun: those in flight may each become a page. None: any number."""
    return None if budget.host_pages is None else max(0, budget.host_pages - host.tally.fetched - host.leased)
