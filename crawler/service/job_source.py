"""Shows a job from its files, running or not.

While a crawl runs, only ``live.json`` is read. Otherwise the store and the seen-set are read once, and again after the
next crawl. Commands for a running crawl are left in its inbox.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.base.disk import RealDisk
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.inspect.crawl_explained import explain_in
from crawler.inspect.crawl_partitions import crawl_partitions, holds_any
from crawler.inspect.crawl_reader import all_hosts_of, hosts_of
from crawler.inspect.crawl_tail import tail_of
from crawler.inspect.explanation import Explanation
from crawler.inspect.host_table import Row, Table
from crawler.inspect.hosts_now import hosts_now
from crawler.inspect.job_reader import job_stats, open_job
from crawler.job.clock_anchor import job_time
from crawler.job.directory import IDENTITY, LIVE, PAGES
from crawler.job.history_file import HISTORY, load_history
from crawler.job.identity import read_identity
from crawler.job.inbox import Inbox
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import Live, read_live
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.partition.part_report import HostsAsked
from crawler.job.run_settings import RUN, read_run
from crawler.service.command_files import give_command
from crawler.service.commands import NOT_RUNNING, Command, Refusal, Refused, Result
from crawler.service.host_page import host_page, recent
from crawler.service.source import Source

_HOSTS_AT_ONCE = 512  # hosts described in one piece
Mark = tuple[tuple[int, int] | None, ...]


class Reading(Struct, frozen=True):
    """The result of a look. If no crawl is running, ``live`` is None and ``stats`` are the stored ones."""

    live: Live | None
    stats: dict[str, Any]
    at: float  # end of the look, in seconds since 1970: the ages in ``stats`` are at most that old
    mark: Mark = ()  # of the job's files at the beginning of the look


def mark_of(directory: Path) -> Mark:
    """Return what differs after every command that changed the job. Raises OSError."""
    return tuple(_written(directory / name) for name in (IDENTITY, RUN, HISTORY, PAGES))


def _written(path: Path) -> tuple[int, int] | None:
    """Return which file it is, and when it was written; None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        return status.st_ino, status.st_mtime_ns
    return None


class FileSource(Source):
    """A job or a crawl in a directory. What is asked of its hosts, URLs and records is read from the files. All of this
    raises what ``open_job`` raises."""

    def is_gone(self) -> bool:
        return not holds_any(self.directory)

    def settings(self) -> Settings:
        """What shapes a crawl is the same in all partitions."""
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

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float],
        history: CrawlHistory | None = None,
        reading: Reading | None = None,
    ) -> None:
        """``history`` and ``reading`` are given if they are known already. Raises what ``job_stats`` raises."""
        read_identity(directory)
        super().__init__(directory, clock, history or load_history(directory, clock(), tells=False))
        self._reading: Reading | None = None
        self.take(reading or self.read())

    @property
    def reading(self) -> Reading:
        """The result of the last look."""
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

    def was_killed(self) -> bool:
        return self.live is None and (self.directory / LIVE).exists()

    def read(self) -> Reading:
        """Nothing can have changed if no crawl is running now, none was running before, and none has begun and ended in
        between, or the job was repaired."""
        before, mark = self._reading, mark_of(self.directory)
        live = read_live(self.directory)
        if live is not None:
            return Reading(live, dict(live.stats), self.clock(), mark)
        if before is not None and before.live is None and before.mark == mark:
            return before
        return Reading(None, job_stats(self.directory), self.clock(), mark)

    def take(self, reading: Reading) -> None:
        if reading.live is not None:
            self.history.events.restore(
                event for event in reading.live.events if event["number"] > self.history.events.last
            )
            self.history.observe(reading.at, reading.stats)
            self._observed_at = reading.at
        self._reading = reading

    def stats(self) -> dict[str, Any]:
        """The age of the checkpoint keeps growing."""
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
