"""Reads a job from its files, whether or not a crawl is running. A crawl of partitions is read as one job.

While a crawl runs, only ``live.json`` is read. Otherwise the store and the seen-set are read once, and again after the
next crawl. Commands for a running crawl are left in its inbox.

Each partition is watched as a job of its own; their statistics are merged on request. Partitions that start later are
found the next time the source reads.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from crawler.base.disk import RealDisk
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.inspect.crawl_partitions import CrawlPartitions, Partition, crawl_partitions, holds_any, holds_crawl
from crawler.inspect.crawl_reader import all_hosts_of, hosts_of, pooled, waiting_messages
from crawler.inspect.explanation import Explanation, explain_in
from crawler.inspect.host_table import HostsAsked, Row, Table
from crawler.inspect.hosts_now import hosts_now
from crawler.inspect.job_reader import job_stats, open_job
from crawler.inspect.record_stream import tail_of
from crawler.job.clock_anchor import job_time
from crawler.job.directory import IDENTITY, PAGES
from crawler.job.history_file import HISTORY, load_history
from crawler.job.identity import read_identity
from crawler.job.inbox import Inbox
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import Live, read_live
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.events import Event, Kind
from crawler.job.metrics.history import History
from crawler.job.run_settings import RUN, read_run
from crawler.service.commands import HOST_WORDS, NOT_RUNNING, Command, Refusal, Refused, Reloaded, Result, give_command
from crawler.service.host_page import host_page, recent
from crawler.service.source import Source
from crawler.service.status_reporter import told_every

_HOSTS_AT_ONCE = 512  # hosts described in one chunk
Mark = tuple[tuple[int, int] | int | None, ...]


class Reading(Struct, frozen=True):
    """The result of one read. If no crawl is running, ``live`` is None and ``stats`` are the stored ones."""

    live: Live | None
    stats: dict[str, Any]
    at: float  # end of the read, in seconds since 1970; ages in ``stats`` are relative to it
    mark: Mark  # the mark of the job's files at the start of the read


def _mark_of(directory: Path) -> Mark:
    """Return a value that changes whenever a command changes the job, and whenever a crawl starts. Raises OSError."""
    return (lock_holder(directory), *(_written(directory / name) for name in (IDENTITY, RUN, HISTORY, PAGES)))


def _written(path: Path) -> tuple[int, int] | None:
    """Return the file's inode and modification time; None if it does not exist."""
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        return status.st_ino, status.st_mtime_ns
    return None


class FileSource(Source):
    """A job or a crawl in a directory. Requests for hosts, URLs and records are answered from the files. All methods
    raise the exceptions of ``open_job``."""

    def is_gone(self) -> bool:
        return not holds_any(self.directory)

    def settings(self) -> Settings:
        """Return the settings of the first partition: the settings that shape a crawl are the same in all
        partitions."""
        return read_run(crawl_partitions(self.directory).jobs[0]).settings

    def hosts(self, asked: HostsAsked) -> Table:
        return hosts_of(self.directory, asked)

    def all_hosts(self) -> Generator[list[Row]]:
        rows = all_hosts_of(self.directory)
        while some := list(itertools.islice(rows, _HOSTS_AT_ONCE)):
            yield some

    def host(self, name: str) -> dict[str, Any] | None:
        for partition in crawl_partitions(self.directory).found:
            live = read_live(partition.directory)
            with partition.named(), open_job(partition.directory) as job:
                sites = Sites(job.settings)
                host = hosts_now(live, job.store).snapshot(name, sites, job_time(job.store))
                page = None if host is None else host_page(job.store, sites, host)
            if page is not None:
                rows = recent(partition.directory / PAGES, None if live is None else live.output_end, name)
                return page | {"recent": [row for row in rows if row is not None]} | partition.as_json
        return None

    def changes(self, since: str, limit: int) -> list[bytes] | None:
        tail = tail_of(self.directory)
        return list(itertools.islice(tail.changes(), limit)) if tail.resume(since) else None

    def explain(self, text: str) -> Explanation:
        return explain_in(self.directory, text)


class JobSource(FileSource):
    """The job in a directory."""

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        """Raises the exceptions of ``job_stats``."""
        read_identity(directory)
        super().__init__(directory, clock, load_history(directory, clock(), tells=False))
        self._reading: Reading | None = None
        self.take(self.read())

    @property
    def reading(self) -> Reading:
        """The result of the last read."""
        assert self._reading is not None
        return self._reading

    @property
    def live(self) -> Live | None:
        return self.reading.live

    @property
    def is_running(self) -> bool:
        return self.live is not None

    @property
    def dashboard(self) -> str | None:
        return None if self.live is None else self.live.dashboard

    def read(self) -> Reading:
        """Read the job's statistics. The last reading is reused if no crawl runs now, none ran when it was made, and
        the files show that no crawl or repair took place in between."""
        before, mark = self._reading, _mark_of(self.directory)
        live = read_live(self.directory)
        if live is not None:
            return Reading(live, dict(live.stats), self.clock(), mark)
        if before is not None and before.live is None and before.mark == mark:
            return before
        return Reading(None, job_stats(self.directory), self.clock(), mark)

    def take(self, reading: Reading) -> None:
        if reading.live is not None:
            known = self.history.events.last
            events = msgspec.convert(reading.live.events, list[Event])
            self.history.events.restore(event for event in events if event.number > known)
            self.history.observe(reading.at, reading.stats)
            self._observed_at = reading.at
        self._reading = reading

    def stats(self) -> dict[str, Any]:
        """Return the statistics of the last read, with the current age of the checkpoint."""
        stats = dict(self.reading.stats)
        if stats["checkpoint"] is not None:
            age = stats["checkpoint"]["age_seconds"] + max(0.0, self.clock() - self.reading.at)
            stats["checkpoint"] = stats["checkpoint"] | {"age_seconds": age}
        return stats

    async def perform(self, command: Command) -> Result:
        pid = lock_holder(self.directory)
        if self.live is None or not pid:
            return NOT_RUNNING
        try:
            return await give_command(Inbox(self.directory, RealDisk()), pid, command)
        except OSError as error:
            return Refused(Refusal.NOT_NOW, f"cannot pass the command to the crawl: {error.strerror}")


# A worker would reopen a partition whose run was stopped, as it does with one released by another worker.
_STOPS = Refused(
    Refusal.NOT_NOW,
    "stop a crawl of partitions with Ctrl-C or SIGINT where it was started: its first process stops the others",
)


class _Look(Struct, frozen=True):
    """A partition, its source, its last reading, and the number of messages waiting in it."""

    partition: Partition
    job: JobSource
    reading: Reading
    waiting: int | None

    @property
    def process(self) -> int | None:
        """The process that runs the partition; None if no process runs it."""
        return None if self.reading.live is None else lock_holder(self.partition.directory) or None


class CrawlReading(Struct, frozen=True):
    """The result of one read of all partitions."""

    crawl: CrawlPartitions
    looks: list[_Look]


class CrawlSource(FileSource):
    """The crawl in a directory."""

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        """Raises the exceptions of ``job_stats``."""
        super().__init__(directory, clock, CrawlHistory(tells=False))
        self._told: dict[int, int] = {}  # number of the last event that was taken over from each partition
        self._reading = CrawlReading(crawl_partitions(directory), [])
        found = self.read()
        self.history.figures = History.pooled([look.job.history.figures for look in found.looks])
        self.take(found)

    @property
    def is_running(self) -> bool:
        return any(look.reading.live is not None for look in self._reading.looks)

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
                # Reading the store every second would cost more than all other work of the source.
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
        """Return the seconds between two reports of a partition: a process reports its partitions in turn."""
        processes = Counter(pid for look in self._reading.looks if (pid := look.process) is not None)
        return told_every(max(processes.values(), default=1))

    def _take_events(self) -> None:
        """Add the events of the partitions since the last read, ordered by time."""
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
        """Leave the command for all running partitions, or for the one that has the host. Returns the first refusal.
        "stop" is refused."""
        running = [look for look in self._reading.looks if look.reading.live is not None]
        if not running:
            return NOT_RUNNING
        if command.word == "stop":
            return _STOPS
        if command.word in HOST_WORDS:
            owner = self._reading.crawl.placement.of_host(command.host or "")
            running = [look for look in running if look.partition.number == owner]
            if not running:
                return Refused(Refusal.NOT_NOW, f"no running partition has the host {command.host}")
        results = [await look.job.perform(command) for look in running]
        refused = next((each for each in results if isinstance(each, Refused)), None)
        reloaded = [each for each in results if isinstance(each, Reloaded)]
        return refused or (reloaded[0] if reloaded else None)


def source_of(directory: Path, clock: Callable[[], float]) -> Source:
    """Return the source for the job or crawl in a directory. Raises the exceptions of ``job_stats``."""
    return CrawlSource(directory, clock) if holds_crawl(directory) else JobSource(directory, clock)
