"""Shows a job from its files, running or not, for ``crawler dashboard`` and ``crawler top``.

While a crawl runs, only ``live.json`` is read. Otherwise the store and the seen-set are read once, and again after the
next crawl. Commands for a running crawl are left in its inbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from crawler.base.disk import RealDisk
from crawler.base.kv import Family
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.frontier.host_status import snapshot
from crawler.inspect.explanation import Explanation, explain_url
from crawler.inspect.host_table import Row, Table
from crawler.inspect.hosts_now import hosts_now
from crawler.inspect.job_reader import all_hosts_of, host_table, job_stats, open_job
from crawler.inspect.record_stream import Tail
from crawler.job.directory import IDENTITY, LIVE, PAGES, JobError, holds_job
from crawler.job.history_file import HISTORY, load_history
from crawler.job.identity import read_identity
from crawler.job.inbox import Answer, Inbox
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import Live, read_live
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.output.changes import CursorError
from crawler.job.output.finished import Choice
from crawler.job.partition.part_report import HostsAsked
from crawler.job.run_settings import RUN, read_run
from crawler.service.command_files import give_command
from crawler.service.commands import NOT_RUNNING, Command, Refusal, Refused, Result
from crawler.service.host_page import host_page, recent
from crawler.service.job_survey import JobSurvey
from crawler.service.view import Unavailable, Unreadable

T = TypeVar("T")

_HOSTS_AT_ONCE = 512  # hosts described in one piece
INTERVAL = 1.0  # seconds between two looks
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


class WatchedJob:
    """The job in a directory. ``look`` may run in a thread; everything else belongs to the event loop's thread."""

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float],
        history: CrawlHistory | None = None,
        reading: Reading | None = None,
    ) -> None:
        """``clock`` returns seconds since 1970. ``history`` and ``reading`` are given if they are known already.
        Raises what ``job_stats`` raises."""
        read_identity(directory)
        self.directory = directory
        self._clock = clock
        self.history = load_history(directory, clock(), tells=False) if history is None else history
        self._reading = self.look() if reading is None else reading
        self.take(self._reading)

    @property
    def live(self) -> Live | None:
        return self._reading.live

    @property
    def is_running(self) -> bool:
        """Whether a process runs the job."""
        return self.live is not None

    @property
    def dashboard(self) -> str | None:
        """The address of the page that the running crawl serves itself."""
        return None if self.live is None else self.live.dashboard

    def is_gone(self) -> bool:
        """Whether its directory was deleted or moved."""
        return not holds_job(self.directory)

    def was_killed(self) -> bool:
        """Whether the last run did not end in order."""
        return self.live is None and (self.directory / LIVE).exists()

    def look(self, before: Reading | None = None) -> Reading:
        """Read the job. Nothing can have changed if no crawl is running now, none was running ``before``, and none has
        begun and ended in between, or the job was repaired."""
        mark = mark_of(self.directory)
        live = read_live(self.directory)
        if live is not None:
            return Reading(live, dict(live.stats), self._clock(), mark)
        if before is not None and before.live is None and before.mark == mark:
            return before
        return Reading(None, job_stats(self.directory), self._clock(), mark)

    def look_again(self) -> Reading:
        return self.look(self._reading)

    def take(self, reading: Reading) -> None:
        """Show the result of a look."""
        if reading.live is not None:
            self.history.events.restore(
                event for event in reading.live.events if event["number"] > self.history.events.last
            )
            self.history.observe(reading.at, reading.stats)
        self._reading = reading

    def moment(self) -> float:
        """The time that the statistics are of: while a crawl runs, when they were read; otherwise now. A feed whose
        clock this is does not observe them once more, as though nothing had been fetched since."""
        return self._clock() if self._reading.live is None else self._reading.at

    def stats(self, now: float) -> dict[str, Any]:
        """Return the dictionary of ``stats --json`` at ``now``: the age of the checkpoint keeps growing."""
        stats = dict(self._reading.stats)
        if stats["checkpoint"] is not None:
            age = stats["checkpoint"]["age_seconds"] + max(0.0, now - self._reading.at)
            stats["checkpoint"] = stats["checkpoint"] | {"age_seconds": age}
        return stats

    def hosts(self, asked: HostsAsked, now: float) -> Table:
        """Return a part of the table of hosts. Raises what ``open_job`` raises."""
        with open_job(self.directory) as job:
            return host_table(job, self.live, now, asked)

    def all_hosts(self, now: float) -> Generator[list[Row]]:
        """Yield the rows of all hosts, some at a time. Raises what ``open_job`` raises."""
        with open_job(self.directory) as job:
            rows = all_hosts_of(job, self.live, now)
            while some := list(itertools.islice(rows, _HOSTS_AT_ONCE)):
                yield some

    def host(self, name: str, now: float) -> dict[str, Any] | None:
        """Return everything about one host; None if the job has no such host. Raises what ``open_job`` raises."""
        with open_job(self.directory) as job:
            stored = job.store.get(Family.HOSTS, name.encode("ascii")) if name.isascii() else None
            if stored is None:
                return None
            sites, beside = Sites(job.settings), hosts_now(self.live, job.store)
            own = sites.of_host(name)
            host = beside.host(name, stored, beside.holds_on(job.store, name, own.politeness))
            shown = snapshot(host, now, own.politeness, own.budget, beside.serving)
            page = host_page(job.store, sites, shown)
        rows = recent(self.directory / PAGES, None if self.live is None else self.live.output_end, name)
        return page | {"recent": [row for row in rows if row is not None]}

    def changes(self, since: str, limit: int) -> list[bytes] | None:
        """Return at most so many records after a cursor, with their changes; None if it is not known yet which records
        are final. Raises CursorError, and what ``open_job`` raises."""
        tail = Tail(self.directory)
        return list(itertools.islice(tail.changes(), limit)) if tail.resume(since) else None

    def explain(self, text: str, now: float) -> Explanation:
        """Explain a URL. Raises what ``open_job`` raises."""
        return explain_url(self.directory, text, now)

    def settings(self) -> Settings:
        """Those of the last run. Raises JobError, SettingsError."""
        return read_run(self.directory).settings

    async def perform(self, command: Command) -> Result:
        """Leave the command for the crawl, which answers."""
        pid = lock_holder(self.directory)
        if self.live is None or not pid:
            return NOT_RUNNING
        try:
            return await give_command(Inbox(self.directory, RealDisk()), pid, command)
        except OSError as error:
            return Refused(Refusal.NOT_NOW, f"cannot pass the command to the crawl: {error.strerror}")

    def survey(self) -> JobSurvey:
        """A survey of its records."""
        return JobSurvey(self.directory)


class Watched(Protocol):
    """A job or a crawl that is looked at from outside; see `WatchedJob`."""

    directory: Path
    history: CrawlHistory

    @property
    def is_running(self) -> bool: ...

    @property
    def dashboard(self) -> str | None: ...

    def is_gone(self) -> bool: ...

    def was_killed(self) -> bool: ...

    def moment(self) -> float: ...

    def stats(self, now: float) -> dict[str, Any]: ...

    def survey(self) -> JobSurvey: ...

    def look_again(self) -> Any: ...

    def take(self, reading: Any) -> None: ...

    def settings(self) -> Settings: ...

    def hosts(self, asked: HostsAsked, now: float) -> Table: ...

    def all_hosts(self, now: float) -> Generator[list[Row]]: ...

    def host(self, name: str, now: float) -> dict[str, Any] | None: ...

    def changes(self, since: str, limit: int) -> list[bytes] | None: ...

    def explain(self, text: str, now: float) -> Explanation: ...

    async def perform(self, command: Command) -> Result: ...


class AttachedView:
    """Answers the HTTP API from the files of a job. ``damage`` lists the errors that mean that the job cannot be
    read."""

    def __init__(self, job: Watched, clock: Callable[[], float], damage: tuple[type[Exception], ...]) -> None:
        self._job = job
        self._clock = clock
        self._unreadable: tuple[type[Exception], ...] = (*damage, JobError, OSError)
        # One at a time: each opens the store, and a seen-set takes memory.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="look")

    async def keep(self) -> None:
        """Look at the job at intervals, until cancelled. Raises what ``job_stats`` raises."""
        while True:
            await asyncio.sleep(INTERVAL)
            reading = await self._in_thread(self._job.look_again)
            self._job.take(reading)

    async def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def settings(self) -> Settings:
        return await self._read(self._job.settings)

    async def hosts(self, asked: HostsAsked) -> Table:
        return await self._read(lambda: self._job.hosts(asked, self._clock()))

    async def all_hosts(self) -> AsyncGenerator[list[Row]]:
        rows = self._job.all_hosts(self._clock())
        try:
            while (some := await self._read(lambda: next(rows, None))) is not None:
                yield some
        finally:
            await self._in_thread(rows.close)

    async def host(self, name: str) -> dict[str, Any] | None:
        return await self._read(lambda: self._job.host(name, self._clock()))

    async def explain(self, text: str) -> Explanation:
        return await self._read(lambda: self._job.explain(text, self._clock()))

    async def changes(self, since: str, limit: int) -> list[bytes]:
        found = await self._read(lambda: self._job.changes(since, limit))
        if found is None:
            raise Unavailable("No record is durable yet: try again in a second.")
        return found

    async def perform(self, command: Command) -> Result:
        return await self._job.perform(command)

    async def add(self, urls: Sequence[str], *, seed: bool, priority: int | None = None) -> Answer:
        raise Unavailable("This dashboard does not belong to the crawl: use crawler add.")

    async def put_back(self, choice: Choice, priority: int | None = None) -> Answer:
        raise Unavailable("This dashboard does not belong to the crawl: use crawler retry.")

    async def change_class(self, pattern: str, priority: int) -> Answer:
        raise Unavailable("This dashboard does not belong to the crawl: use crawler priority.")

    async def _in_thread(self, look: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)

    async def _read(self, look: Callable[[], T]) -> T:
        try:
            return await self._in_thread(look)
        except CursorError:
            raise  # the question is wrong, not the job
        except self._unreadable as error:
            # The viewer need not own the machine, so show file names relative to the job's directory.
            directory = str(self._job.directory)
            why = str(error).replace(f"{directory}/", "").replace(directory, "the job's directory")
            raise Unreadable(f"The job cannot be read: {why}") from error
