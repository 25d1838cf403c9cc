"""Counts the hosts of a job by state: ready, waiting, snoozed, ... and finds those that the frontier overlooks.

A state depends on the time, and most hosts are only on disk, so the states cannot be counted as they change. The crawl
reads all hosts again and again, a few at a time: some thousand hosts about every second, a million about every minute.
Either way, this takes a bounded share of the event loop's time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

from crawler.frontier import Frontier, Host, HostState, state_of, stored_state
from crawler.frontier.host import host_name
from crawler.kv import Family, Reader
from crawler.settings import BudgetSettings

INTERVAL = 1.0  # seconds from the end of one pass over all hosts to the next
PAUSE = 20.0  # times the duration of a slice: the pause after it. Counting takes at most 5% of the event loop's time
SLICE = 128  # hosts
SETTLED_MOST = 20_000  # hosts that are counted in one go when the crawl has ended


def count_states(hosts: Iterable[Host], now: float, budget: BudgetSettings) -> dict[str, int]:
    """Return how many of the hosts are in each state."""
    found = Counter(state_of(host, now, budget) for host in hosts)
    return {state.value: found[state] for state in HostState}


class HostStates:
    """The hosts of a running crawl by state. ``counts`` is None until the first pass over all hosts is complete.
    ``overlooked`` are those that two passes found due, with a free slot and not asked, by name."""

    def __init__(
        self,
        store: Reader,
        frontier: Frontier,
        budget: BudgetSettings,
        clock: Callable[[], float],
        serving: Callable[[], bool] = lambda: True,
    ) -> None:
        """``serving()``: whether the crawl hands out the URLs of hosts whose turn it is."""
        self.counts: dict[str, int] | None = None
        self.overlooked: list[str] = []
        self._suspects: set[str] = set()
        self._serving = serving
        self._store = store
        self._frontier = frontier
        self._budget = budget
        self._clock = clock

    async def watch(self) -> None:
        """Count all hosts again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            start: bytes | None = b""
            counts = count_states((), 0.0, self._budget)
            suspects = set[str]()
            while start is not None:
                began = loop.time()
                start = self._look(start, SLICE, counts, suspects)
                await asyncio.sleep(PAUSE * (loop.time() - began))
            self.counts = counts
            # One pass may meet a host between two of its steps.
            self.overlooked = sorted(suspects & self._suspects)
            self._suspects = suspects
            await asyncio.sleep(INTERVAL)

    def settle(self) -> None:
        """Count all hosts now, unless they are many: nothing changes any more."""
        if self._frontier.hosts <= SETTLED_MOST:
            self.counts = count_states((), 0.0, self._budget)
            self._look(b"", SETTLED_MOST, self.counts, set())

    def _look(self, start: bytes, most: int, counts: dict[str, int], suspects: set[str]) -> bytes | None:
        """Count some hosts, and add those that seem to be overlooked to ``suspects``. Return where the next ones start,
        None if there are no more."""
        rows, now, budget = self._store.scan(Family.HOSTS, start, None, most), self._clock(), self._budget
        watchdog = self._frontier.watchdog
        limits = watchdog.limits(now, serving=self._serving())
        for key, value in rows:
            name = host_name(key)
            host = self._frontier.known(name)
            state = stored_state(name, value, now, budget) if host is None else state_of(host, now, budget)
            counts[state.value] += 1
            if watchdog.overlooks(name, value, limits):
                suspects.add(name)
        return rows[-1][0] + b"\0" if len(rows) == most else None
