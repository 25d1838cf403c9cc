"""The limits of the frontier besides politeness: budgets of hosts, slots for slow hosts, and memory."""

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
    rows: int = 393_216  # in all windows together, divided among the hosts in memory
    names: int = 50_000  # that are held although none of their hosts is in flight
    passed_over: int = 256  # hosts that one call of take may send away or find not ready


class Limits(Struct, frozen=True):
    """``budget`` of each host, ``slow_slots``: how many of all ``slots`` new and slow hosts may always hold,
    ``longest_retry``: the longest wait of a URL for its next try, in seconds, ``revisits``: the share of a host's turns
    that revisits have while first visits wait too, ``sites``: the settings of single hosts, None if none has any,
    ``retry``: how often URLs are tried."""

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
        """The limits from the settings."""
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
    """How many slots new, slow and failing hosts may hold however busy the others are."""
    return max(1, settings.crawl.concurrency // 4)
