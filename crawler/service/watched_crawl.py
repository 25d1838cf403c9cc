"""Shows a crawl of partitions from their files, running or not, as one job: for ``crawler dashboard`` and ``crawler
top``.

Each partition is watched as a job of its own; what they tell is put together when somebody asks for it. Partitions that
begin later are found at the next look.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.base.settings.parts import Settings
from crawler.inspect.crawl_explained import explain_in_crawl
from crawler.inspect.crawl_partitions import CrawlPartitions, Partition, crawl_partitions, holds_crawl
from crawler.inspect.crawl_reader import pooled, waiting_messages
from crawler.inspect.crawl_tail import CrawlTail
from crawler.inspect.explanation import Explanation
from crawler.inspect.host_table import Row, Table, merged
from crawler.job.job_lock import lock_holder
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.even_counts import EvenCounts
from crawler.job.metrics.events import Kind
from crawler.job.metrics.history import COUNTERS, History
from crawler.job.partition.part_report import HostsAsked
from crawler.service.attach import INTERVAL, Reading, Watched, WatchedJob
from crawler.service.commands import HOST_WORDS, NOT_RUNNING, Command, Refusal, Refused, Reloaded, Result
from crawler.service.job_survey import JobSurvey
from crawler.service.status_reporter import told_every

# A worker would open a partition again whose run was stopped: that is how it comes back from another worker.
_STOPS = Refused(
    Refusal.NOT_NOW,
    "stop a crawl of partitions by Ctrl-C, or SIGINT, where it was started: its first process ends the others in order",
)


class _Look(Struct, frozen=True):
    """A partition, what watches it, what a look at it has shown, and how many messages wait in it."""

    partition: Partition
    job: WatchedJob
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


class WatchedCrawl:
    """The crawl in a directory. ``look_again`` may run in a thread; everything else belongs to the event loop's
    thread."""

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        """``clock`` returns seconds since 1970. Raises what ``job_stats`` raises."""
        self.directory = directory
        self.history = CrawlHistory(tells=False)
        self._clock = clock
        self._told: dict[int, int] = {}  # the last event of each partition that was told
        self._counts = EvenCounts(COUNTERS)
        self._observed_at = -math.inf
        self._reading = CrawlReading(crawl_partitions(directory), [])
        found = self.look_again()
        self.history.figures = History.pooled([look.job.history.figures for look in found.looks])
        self.take(found)

    @property
    def is_running(self) -> bool:
        """Whether a process runs a partition."""
        return any(look.reading.live is not None for look in self._reading.looks)

    @property
    def dashboard(self) -> str | None:
        """None: no page of a running crawl shows all of it."""
        return None

    def is_gone(self) -> bool:
        """As of a `WatchedJob`."""
        return not holds_crawl(self.directory)

    def was_killed(self) -> bool:
        """Whether the last run of a partition did not end in order."""
        return any(look.job.was_killed() for look in self._reading.looks)

    def look_again(self) -> CrawlReading:
        crawl, known = crawl_partitions(self.directory), {look.partition: look for look in self._reading.looks}
        looks = list[_Look]()
        for partition in crawl.found:
            before = known.get(partition)
            with partition.named():
                job = WatchedJob(partition.directory, self._clock) if before is None else before.job
                reading = job.look_again()
                if before is not None and reading is before.reading:
                    looks.append(before)
                    continue
                # A second look into the store each second would cost more than all else.
                waiting = waiting_messages(partition.directory) if reading.live is None else None
            looks.append(_Look(partition, job, reading, waiting))
        return CrawlReading(crawl, looks)

    def take(self, reading: CrawlReading) -> None:
        """Show the result of a look."""
        for look in reading.looks:
            look.job.take(look.reading)
        self._reading = reading
        self._take_events()
        for look in reading.looks:
            stats = look.reading.stats if look.reading.live is None else look.reading.live.stats
            self._counts.note(look.partition.number, look.reading.at, stats)
        latest = max(look.reading.at for look in reading.looks)
        pause = self._pause()
        if self._is_due(latest, pause):
            self._observed_at = latest
            # All have been told of up to then.
            at = latest if pause <= INTERVAL or not self.is_running else latest - pause - INTERVAL
            self.history.observe(at, {**self.stats(latest), **self._counts.at(at)})

    def _is_due(self, latest: float, pause: float) -> bool:
        """Whether to observe again. From second to second the crawl would seem to stand still and to jump."""
        if not self.is_running:
            return not self.history.figures.point()
        return latest >= self._observed_at + (pause if pause <= INTERVAL else 2 * pause)

    def _pause(self) -> float:
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

    def moment(self) -> float:
        """As of a `WatchedJob`."""
        return self._observed_at if self.is_running else self._clock()

    def stats(self, now: float) -> dict[str, Any]:
        """Return the dictionary of ``stats --json`` at ``now``."""
        looks = self._reading.looks
        stats = [look.job.stats(now) for look in looks]
        return pooled(self._reading.crawl, stats, [look.waiting for look in looks])

    def settings(self) -> Settings:
        """Those of the first partition: what shapes a crawl is the same in all."""
        return self._reading.looks[0].job.settings()

    def hosts(self, asked: HostsAsked, now: float) -> Table:
        """As of a `WatchedJob`; a row names its partition too."""
        tables = list[tuple[int, Table]]()
        for look in self._reading.looks:
            with look.partition.named():
                tables.append((look.partition.number, look.job.hosts(asked.of_partition(), now)))
        return merged(tables, asked)

    def all_hosts(self, now: float) -> Generator[list[Row]]:
        """As of a `WatchedJob`, partition by partition."""
        for look in self._reading.looks:
            with look.partition.named():
                yield from look.job.all_hosts(now)

    def host(self, name: str, now: float) -> dict[str, Any] | None:
        """As of a `WatchedJob`."""
        for look in self._reading.looks:
            with look.partition.named():
                found = look.job.host(name, now)
            if found is not None:
                return found | {"partition": look.partition.number}
        return None

    def changes(self, since: str, limit: int) -> list[bytes] | None:
        """As of a `WatchedJob`."""
        tail = CrawlTail(self.directory)
        return list(itertools.islice(tail.changes(), limit)) if tail.resume(since) else None

    def explain(self, text: str, now: float) -> Explanation:
        """Explain a URL by the partition that it belongs to. Raises what ``open_job`` raises."""
        return explain_in_crawl(self._reading.crawl, text, now)

    def survey(self) -> JobSurvey:
        """A survey of the records of all partitions."""
        return JobSurvey(self.directory)

    async def perform(self, command: Command) -> Result:
        """Leave the command for all partitions that run, or for the one that has the host. Of several refusals the
        first is told. Nobody stops a crawl by its partitions."""
        running = [look.job for look in self._reading.looks if look.reading.live is not None]
        if not running:
            return NOT_RUNNING
        if command.word == "stop":
            return _STOPS
        if command.word in HOST_WORDS:
            running = [job for job in running if command.host and job.host(command.host, self._clock()) is not None]
            if not running:
                return Refused(Refusal.NOT_NOW, f"no partition that runs has the host {command.host}")
        results = [await job.perform(command) for job in running]
        refused = next((each for each in results if isinstance(each, Refused)), None)
        reloaded = [each for each in results if isinstance(each, Reloaded)]
        return refused or (reloaded[0] if reloaded else None)


def watched(directory: Path, clock: Callable[[], float]) -> Watched:
    """What watches the job or the crawl in a directory. Raises what ``job_stats`` raises."""
    return WatchedCrawl(directory, clock) if holds_crawl(directory) else WatchedJob(directory, clock)
