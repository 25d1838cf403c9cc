"""The limits of the frontier other than politeness: host budgets, slots for slow hosts, and memory."""

from __future__ import annotations

from msgspec import Struct, field

from crawler.base.settings.parts import BudgetSettings, RetrySettings, Settings
from crawler.base.settings.sites import Sites
from crawler.frontier.retries import longest_retry


class MemoryLimits(Struct, frozen=True):
    """How much of the frontier is in memory, and how many hosts one call of ``take`` may examine."""

    waiting: int = 131_072  # hosts on the heap
    resting: int = 10_000  # hosts that wait for something other than their time
    idle: int = 10_000  # hosts with nothing queued
    read_ahead: int = 16  # rows of a host's window
    rows: int = 393_216  # rows in all windows together, divided among the hosts in memory
    names: int = 50_000  # names that are held although none of their hosts is in flight
    passed_over: int = 256  # hosts that one call of take may skip


class Limits(Struct, frozen=True):
    """The limits of a crawl.

    ``budget`` is the budget of each host. New and slow hosts may always hold ``slow_slots`` of all ``slots``.
    ``longest_retry`` is a URL's longest wait for its next try, in seconds. ``revisits`` is the share of a host's turns
    that revisits get while first visits wait too. ``sites`` are the settings of single hosts, or None if no host has
    its own. ``retry`` sets how often URLs are tried.
    """

    budget: BudgetSettings = field(default_factory=BudgetSettings)
    slow_slots: int = 2**16
    longest_retry: float = 0.0
    memory: MemoryLimits = field(default_factory=MemoryLimits)
    revisits: float = 0.5
    slots: int = 2**17
    sites: Sites | None = None
    retry: RetrySettings = field(default_factory=RetrySettings)

    @staticmethod
    def of(settings: Settings) -> Limits:
        """Return the limits that the settings define."""
        longest, sites = longest_retry(settings.retry), Sites(settings)
        return Limits(
            settings.budget,
            slow_slots(settings),
            longest,
            slots=settings.crawl.concurrency,
            sites=sites if sites else None,
            retry=settings.retry,
        )


def slow_slots(settings: Settings) -> int:
    """Return the number of slots that new, slow and failing hosts may hold however busy the others are."""
    return max(1, settings.crawl.concurrency // 4)
