"""Shows a crawl of partitions from their files, running or not, as one job.

Each partition is watched as a job of its own; what they tell is put together when somebody asks for it. Partitions that
begin later are found at the next look.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.inspect.crawl_partitions import CrawlPartitions, Partition, crawl_partitions, holds_crawl
from crawler.inspect.crawl_reader import pooled, waiting_messages
from crawler.job.job_lock import lock_holder
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.events import Kind
from crawler.job.metrics.history import History
from crawler.service.commands import HOST_WORDS, NOT_RUNNING, Command, Refusal, Refused, Reloaded, Result
from crawler.service.job_source import FileSource, JobSource, Reading
from crawler.service.source import Source
from crawler.service.status_reporter import told_every

# A worker would open a partition again whose run was stopped: that is how it comes back from another worker.
_STOPS = Refused(
    Refusal.NOT_NOW,
    "stop a crawl of partitions by Ctrl-C, or SIGINT, where it was started: its first process ends the others in order",
)


class _Look(Struct, frozen=True):
    """A partition, what watches it, what a look at it has shown, and how many messages wait in it."""

    partition: Partition
    job: JobSource
    reading: Reading
    waiting: int | None

    @property
    def process(self) -> int | None:
        """Who runs it; None if nobody does."""
        return None if self.reading.live is None else lock_holder(self.partition.directory) or None


class CrawlReading(Struct, frozen=True):
    """The result of a look at all partitions."""

    crawl: CrawlPartitions
    looks: list[_Look]


class CrawlSource(FileSource):
    """The crawl in a directory."""

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        """Raises what ``job_stats`` raises."""
        super().__init__(directory, clock, CrawlHistory(tells=False))
        self._told: dict[int, int] = {}  # the last event of each partition that was told
        self._reading = CrawlReading(crawl_partitions(directory), [])
        found = self.read()
        self.history.figures = History.pooled([look.job.history.figures for look in found.looks])
        self.take(found)

    @property
    def is_running(self) -> bool:
        return any(look.reading.live is not None for look in self._reading.looks)

    def was_killed(self) -> bool:
        return any(look.job.was_killed() for look in self._reading.looks)

    def read(self) -> CrawlReading:
        crawl, known = crawl_partitions(self.directory), {look.partition: look for look in self._reading.looks}
        looks = list[_Look]()
        for partition in crawl.found:
            before = known.get(partition)
            with partition.named():
                job = JobSource(partition.directory, self.clock) if before is None else before.job
                reading = job.read()
                if before is not None and reading is before.reading:
                    looks.append(before)
                    continue
                # A second look into the store each second would cost more than all else.
                waiting = waiting_messages(partition.directory) if reading.live is None else None
            looks.append(_Look(partition, job, reading, waiting))
        return CrawlReading(crawl, looks)

    def take(self, reading: CrawlReading) -> None:
        for look in reading.looks:
            look.job.take(look.reading)
        self._reading = reading
        self._take_events()
        told = [(look.partition.number, look.reading.at, look.reading.stats) for look in reading.looks]
        self.observe(told, max(look.reading.at for look in reading.looks), self._every())

    def _every(self) -> float:
        """Seconds between two tellings of a partition: a process tells of its partitions in turn."""
        processes = Counter(pid for look in self._reading.looks if (pid := look.process) is not None)
        return told_every(max(processes.values(), default=1))

    def _take_events(self) -> None:
        """Add what has happened in the partitions since the last look, by time."""
        news = []
        for look in self._reading.looks:
            events, number = look.job.history.events, look.partition.number
            news.append([(event["time"], number, event) for event in events.after(self._told.get(number, 0))])
            self._told[number] = events.last
        for at, number, event in heapq.merge(*news, key=lambda each: each[:2]):
            text = event["text"] if event["host"] is not None else f"partition {number:02}: {event['text']}"
            self.history.events.add(at, Kind(event["kind"]), text, event["host"])

    def stats(self) -> dict[str, Any]:
        looks = self._reading.looks
        stats = [look.job.stats() for look in looks]
        return pooled(self._reading.crawl, stats, [look.waiting for look in looks])

    async def perform(self, command: Command) -> Result:
        """Leave the command for all partitions that run, or for the one that has the host. Of several refusals the
        first is told. Nobody stops a crawl by its partitions."""
        running = [look for look in self._reading.looks if look.reading.live is not None]
        if not running:
            return NOT_RUNNING
        if command.word == "stop":
            return _STOPS
        if command.word in HOST_WORDS:
            owner = self._reading.crawl.placement.of_host(command.host or "")
            running = [look for look in running if look.partition.number == owner]
            if not running:
                return Refused(Refusal.NOT_NOW, f"no partition that runs has the host {command.host}")
        results = [await look.job.perform(command) for look in running]
        refused = next((each for each in results if isinstance(each, Refused)), None)
        reloaded = [each for each in results if isinstance(each, Reloaded)]
        return refused or (reloaded[0] if reloaded else None)


def source_of(directory: Path, clock: Callable[[], float]) -> Source:
    """The job or the crawl in a directory. Raises what ``job_stats`` raises."""
    return CrawlSource(directory, clock) if holds_crawl(directory) else JobSource(directory, clock)
