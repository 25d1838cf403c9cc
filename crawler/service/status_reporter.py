"""Reports on a running crawl: on the terminal, in ``live.json``, and in the job's history."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any, Protocol

from crawler.base.disk import Expendable
from crawler.engine.run import Run
from crawler.job.directory import LIVE
from crawler.job.history_file import HISTORY, write_course
from crawler.job.live_status import Live, write_live
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.open_files import OpenFiles

VIEW_INTERVAL = 0.25  # seconds between updates of the progress view
LIVE_INTERVAL = 1.0  # seconds between updates of live.json
COURSE_INTERVAL = 60.0  # seconds between two writes of the history
LIVE_EVENTS = 50  # maximum number of events in live.json, the newest ones


def told_every(partitions: int) -> float:
    """Return the seconds between two updates of a partition's ``live.json`` in a process with this many partitions. The
    process writes one such file a second, because writing a file takes milliseconds."""
    return LIVE_INTERVAL * max(1, partitions)


class View(Protocol):
    """The view on the terminal while the crawl runs."""

    def update(self, stats: dict[str, Any]) -> None: ...

    def say(self, text: str) -> None: ...


class StatusReporter:
    """Keeps the views of a crawl up to date, each at its own pace. ``address`` is the dashboard's address; if it is
    given, the dashboard records the history instead. ``files`` are the job's files: if the job's directory was moved
    away, nothing is written to a directory that has replaced it."""

    def __init__(
        self,
        files: OpenFiles,
        history: CrawlHistory,
        clock: Callable[[], float],
        view: View | None,
        address: str | None,
        interval: Callable[[], float] = lambda: LIVE_INTERVAL,
    ) -> None:
        """``interval()`` returns the seconds until ``live.json`` is written again."""
        self._interval = interval
        self.latest: dict[str, Any] = {}  # the statistics written last; empty before the first write
        self._job_files = files
        self._directory = directory = files.directory
        self._history = history
        self._clock = clock
        self._view = view
        self._address = address
        self._files = {name: Expendable(str(directory / name)) for name in (LIVE, HISTORY)}

    async def keep(self, run: Run) -> None:
        """Report until cancelled."""
        loop = asyncio.get_running_loop()
        next_live = loop.time()
        next_course = loop.time() + COURSE_INTERVAL
        while True:
            if self._view is not None or loop.time() >= next_live:
                stats = run.stats()
                if self._view is not None:
                    self._view.update(stats)
                if loop.time() >= next_live:
                    next_live = loop.time() + self._interval()
                    if self._address is None:
                        self._history.observe(self._clock(), stats)
                    events = self._history.events.after(self._history.events.last - LIVE_EVENTS)
                    end = run.job.promises.end
                    live = Live(stats, run.visitor.under_way, end, self._address, events, run.visitor.side_requests)
                    self.latest = stats
                    with self._files[LIVE]:
                        write_live(self._directory, live)
            if loop.time() >= next_course:
                next_course = loop.time() + COURSE_INTERVAL
                with self._files[HISTORY]:
                    await asyncio.to_thread(write_course, self._directory, self._history.dump())
            await asyncio.sleep(VIEW_INTERVAL if self._view is not None else max(0.0, next_live - loop.time()))

    def end(self, stats: dict[str, Any]) -> None:
        """Show how the run ended, and store its history."""
        if self._view is not None:
            self._view.update(stats)
        self._history.observe(self._clock(), stats)
        if self._job_files.is_there():
            with self._files[HISTORY]:
                write_course(self._directory, self._history.dump())

    def take_away(self) -> None:
        """Remove ``live.json``, because the run has ended."""
        # A file left behind is ignored, because no process holds the lock.
        with contextlib.suppress(OSError):
            if self._job_files.is_there():
                os.unlink(self._directory / LIVE)
