"""What bounds the frontier besides politeness: budgets of hosts, slots of slow hosts, and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from crawler.frontier.request_outcome import longest_retry
from crawler.settings import BudgetSettings, Settings


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """How much of the frontier is in memory, and how much of it one call of ``take`` may go through."""

    waiting: int = 131_072  # hosts on the heap
    resting: int = 10_000  # hosts that wait for something else than their time
    idle: int = 10_000  # hosts with nothing queued
    read_ahead: int = 16  # rows of a host's window
    rows: int = 393_216  # in all windows together, shared by the hosts in memory: few rows each when they are many
    passed_over: int = 256  # hosts that one call of take sends into a line, or passes over for not being ready


@dataclass(frozen=True, slots=True)
class Limits:
    """What else bounds the requests to a host: its budget, how many slow hosts are in flight at once, and how long at
    most (seconds) a URL waits for its next try."""

    budget: BudgetSettings = field(default_factory=BudgetSettings)
    slow_slots: int = 2**16
    longest_retry: float = 0.0
    memory: MemoryLimits = field(default_factory=MemoryLimits)

    @staticmethod
    def of(settings: Settings) -> Limits:
        """The limits that the settings give."""
        slow = max(1, math.floor(settings.politeness.slow_share * settings.crawl.concurrency))
        return Limits(settings.budget, slow, longest_retry(settings.retry))
