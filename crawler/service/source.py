"""The sources of data about a job or crawl that other processes run: its files, its partitions' files, or the reports
that workers send through the carrier."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from crawler.base.settings.parts import Settings
from crawler.inspect.explanation import Explanation
from crawler.inspect.host_table import HostsAsked, Row, Table
from crawler.job.directory import JobError
from crawler.job.inbox import Answer
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.history import COUNTERS, EvenCounts
from crawler.job.output.changes import CursorError
from crawler.job.stored_errors import DAMAGE
from crawler.service.background import OneThread
from crawler.service.commands import Command, Refusal, Refused, Result
from crawler.service.job_survey import JobSurvey
from crawler.service.view_errors import Unavailable, unreadable

T = TypeVar("T")

INTERVAL = 1.0  # seconds between two reads
ONLY_LOOKS = Refused(Refusal.NOT_NOW, "this page only shows the crawl: control it on its machines")


def only_statistics() -> Unavailable:
    """Return the error for requests that need the files of a crawl on several machines."""
    return Unavailable(
        "An engine has only the statistics of a crawl: give its store to crawler hosts, explain, tail or report, as in "
        "crawler hosts s3://BUCKET/PREFIX."
    )


class Source(ABC):
    """A job or a crawl. ``read`` may run in a thread; everything else belongs to the event loop's thread. ``clock``
    returns seconds since 1970. A source that does not read the job's files has only statistics. ``copied_at`` is when a
    running crawl was copied, if the source is such a copy."""

    copied_at: float | None = None

    def __init__(self, directory: Path, clock: Callable[[], float], history: CrawlHistory) -> None:
        self.directory = directory
        self.clock = clock
        self.history = history
        self._observed_at = -math.inf
        self._counts = EvenCounts(COUNTERS)

    @abstractmethod
    def read(self) -> Any:
        """Read the current statistics. Raises the exceptions of ``job_stats``."""

    @abstractmethod
    def take(self, reading: Any) -> None:
        """Show the result of a `read`."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """True if a process runs the job, or one of its partitions."""

    @property
    def dashboard(self) -> str | None:
        """The address of the dashboard that the running crawl serves itself."""
        return None

    def is_gone(self) -> bool:
        """Return True if the job's directory was deleted or moved; False if it is on other machines."""
        return False

    def moment(self) -> float:
        """Return the time of the statistics: that of the last observation while a crawl runs, otherwise now. With this
        clock, a feed does not observe the same statistics twice; otherwise the crawl would seem to make no progress."""
        if self.copied_at is not None:
            return self.copied_at
        return self._observed_at if self.is_running else self.clock()

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Return the dictionary of ``stats --json``."""

    @abstractmethod
    def settings(self) -> Settings:
        """Return the settings of the last run. Raises JobError, SettingsError."""

    def hosts(self, asked: HostsAsked) -> Table:
        """Return part of the table of hosts; each row of a crawl also names its partition."""
        raise only_statistics()

    def all_hosts(self) -> Generator[list[Row]]:
        """Yield the rows of all hosts in chunks. Raises the exceptions of ``open_job``."""
        raise only_statistics()

    def host(self, name: str) -> dict[str, Any] | None:
        """Return the details of one host; None if the job has no such host. Raises the exceptions of ``open_job``."""
        raise only_statistics()

    def changes(self, since: str, limit: int) -> list[bytes] | None:
        """Return at most ``limit`` records after a cursor, with their changes; None if it is not known yet which
        records are final. Raises CursorError and the exceptions of ``open_job``."""
        raise only_statistics()

    def explain(self, text: str) -> Explanation:
        """Explain a URL. Raises the exceptions of ``open_job``."""
        raise only_statistics()

    async def perform(self, command: Command) -> Result:
        """Pass a command to the crawl and return its result."""
        return ONLY_LOOKS

    def survey(self) -> JobSurvey:
        """Return a survey of the job's records."""
        return JobSurvey(self.directory)

    def observe(self, told: Iterable[tuple[int, float, Mapping[str, Any]]], now: float, every: float) -> None:
        """Observe the reports of partitions: number, time and statistics of each. Each partition reports once in
        ``every`` seconds. If they were observed more often, the crawl would seem to stall and jump."""
        for number, at, stats in told:
            self._counts.note(number, at, stats)
        is_steady = every <= INTERVAL or not self.is_running
        if self.is_running and now < self._observed_at + (every if is_steady else 2 * every):
            return
        self._observed_at = now
        at = now if is_steady else now - every - INTERVAL  # all partitions have reported up to this time
        self.history.observe(at, {**self.stats(), **self._counts.at(at)})


class SourceView:
    """Answers the HTTP API from a source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # Run one request at a time, because each opens the store, and a seen-set takes memory.
        self._thread = OneThread("look")

    async def keep(self) -> None:
        """Read the source at intervals, until cancelled. Raises the exceptions of ``job_stats``."""
        while True:
            await asyncio.sleep(INTERVAL)
            self._source.take(await self._thread.run(self._source.read))

    async def close(self) -> None:
        self._thread.close()

    async def settings(self) -> Settings:
        return await self._read(self._source.settings)

    async def hosts(self, asked: HostsAsked) -> Table:
        return await self._read(lambda: self._source.hosts(asked))

    async def all_hosts(self) -> AsyncGenerator[list[Row]]:
        rows = self._source.all_hosts()
        try:
            while (some := await self._read(lambda: next(rows, None))) is not None:
                yield some
        finally:
            await self._thread.run(rows.close)

    async def host(self, name: str) -> dict[str, Any] | None:
        return await self._read(lambda: self._source.host(name))

    async def explain(self, text: str) -> Explanation:
        return await self._read(lambda: self._source.explain(text))

    async def changes(self, since: str, limit: int) -> list[bytes]:
        found = await self._read(lambda: self._source.changes(since, limit))
        if found is None:
            raise Unavailable("No record is durable yet: try again in a second.")
        return found

    async def perform(self, command: Command) -> Result:
        return await self._source.perform(command) if self._source.copied_at is None else ONLY_LOOKS

    async def _refuse(self, *_: object, **__: object) -> Answer:
        raise Unavailable(
            "This dashboard is not part of the crawl and cannot change it: use crawler add, retry or priority."
        )

    add = put_back = change_class = _refuse

    async def _read(self, look: Callable[[], T]) -> T:
        try:
            return await self._thread.run(look)
        except CursorError:
            raise  # the request is wrong, not the job
        except (*DAMAGE, JobError, OSError) as error:
            raise unreadable(self._source.directory, error) from error
