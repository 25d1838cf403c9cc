"""Counts the hosts of a job by state: ready, waiting, snoozed, ..., and finds the slowest one.

A state depends on the time, and most hosts are only on disk, so states cannot be counted as they change. The crawl
therefore reads all hosts again and again, a few at a time: a few thousand hosts about once a second, a million about
once a minute. In both cases, counting takes a bounded share of the event loop's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct, field

from crawler.base.kv import Family, Reader
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.frontier.capacity import AT_ONCE, Serving
from crawler.frontier.frontier import Frontier
from crawler.frontier.host import Host, host_name
from crawler.frontier.host_status import UNTIMED, HostState, ScriptedHosts, state_of
from crawler.frontier.pace import HostTimes, tried_until
from crawler.frontier.queues import read_host

INTERVAL = 1.0  # seconds from the end of one pass over all hosts to the next
PAUSE = 20.0  # pause after a slice, as a multiple of its duration: counting takes at most 5% of the event loop's time
SLICE = 128  # hosts per slice
SETTLED_MOST = 20_000  # maximum number of hosts counted in one go when the crawl has ended


class HostCount(Struct):
    """The hosts counted so far: their number by state, the times that their queues take, signs that they need a
    browser, and the number of URLs that failed and wait for another try."""

    counts: dict[str, int]
    times: HostTimes
    store: Reader
    scripted: ScriptedHosts = field(default_factory=ScriptedHosts)
    retrying: int = 0

    @classmethod
    def begin(cls, settings: Settings, store: Reader, now: float) -> HostCount:
        """Return a count without any hosts yet, as of ``now``."""
        times = HostTimes(settings.politeness.host_key, now)
        return cls({state.value: 0 for state in HostState}, times, store)

    def add(self, host: Host, sites: Sites, now: float, serving: Serving = AT_ONCE) -> None:
        """Count a host."""
        own = sites.of_host(host.name)
        state = state_of(host, now, own.budget, serving)
        self.counts[state.value] += 1
        self.retrying += host.queue.retry_size
        if "browser" not in sites.stated(host.name) or own.browser.when != "never":
            self.scripted.add(host.name, host.tally.pages, host.tally.scripted)
        if state not in UNTIMED:
            self.times.add(host, own.politeness, tried_until(self.store, host, sites.settings.retry))


class HostStates:
    """The hosts of a running crawl. ``found`` is the last count of all of them; None until there is one."""

    def __init__(
        self,
        store: Reader,
        frontier: Frontier,
        sites: Sites,
        clock: Callable[[], float],
        serving: Callable[[], Serving] = lambda: AT_ONCE,
    ) -> None:
        """``serving()`` returns what the crawl can do now for a due host."""
        self.found: HostCount | None = None
        self._serving = serving
        self._store = store
        self._frontier = frontier
        self.sites = sites
        self._clock = clock

    async def watch(self) -> None:
        """Count all hosts repeatedly, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            start: bytes | None = b""
            found = HostCount.begin(self.sites.settings, self._store, self._clock())
            while start is not None:
                began = loop.time()
                start = self._look(start, SLICE, found)
                await asyncio.sleep(PAUSE * (loop.time() - began))
            self.found = found
            await asyncio.sleep(INTERVAL)

    def settle(self) -> None:
        """Count all hosts now that the crawl has ended, unless there are too many."""
        if self._frontier.hosts <= SETTLED_MOST:
            found = HostCount.begin(self.sites.settings, self._store, self._clock())
            self._look(b"", SETTLED_MOST, found)
            self.found = found

    def _look(self, start: bytes, most: int, found: HostCount) -> bytes | None:
        """Count up to ``most`` hosts from the key ``start`` on. Returns the key to continue from; None if no hosts are
        left."""
        rows, now, serving = self._store.scan(Family.HOSTS, start, None, most), self._clock(), self._serving()
        for key, value in rows:
            name = host_name(key)
            host = self._frontier.seen(name, now) or read_host(self._store, name, value)
            found.add(host, self.sites, now, serving)
        return rows[-1][0] + b"\0" if len(rows) == most else None
