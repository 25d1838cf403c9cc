"""Finds the jobs that one dashboard shows, opens them one at a time, and watches them.

A given directory is either a job itself, or is searched regularly for jobs directly below it, so that new ones appear.
Each job has a unique name on the page. A job that cannot be read is shown with the reason, and is read again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from crawler.base.settings.load import SettingsError
from crawler.inspect.crawl_partitions import holds_any
from crawler.job.checkpoint.envelope import UnknownVersionError
from crawler.job.directory import JobError
from crawler.job.last_command import COMMAND
from crawler.job.metrics.attention import Need, needs
from crawler.job.stored_errors import DAMAGE
from crawler.service.dashboard.job_list import Routes
from crawler.service.file_source import source_of
from crawler.service.shown_source import ShownSource
from crawler.service.source import Source

MOST_JOBS = 200  # maximum number of jobs shown; each takes a thread and the history of its job
_MOST_ENTRIES = 10_000  # maximum number of directory entries searched
_RESCAN = 2.0  # seconds between two searches for new jobs
_OPENS = 200  # tenths of a second to wait for a job that was just started
_AGAIN = 5.0  # seconds until an unreadable job is read again
_FAULTS = (*DAMAGE, JobError, SettingsError, UnknownVersionError, OSError)


def jobs_in(directories: Iterable[Path]) -> list[Path]:
    """Return the directories of jobs and crawls: the given ones, or those directly below a given one that is not a job
    itself."""
    found: dict[Path, None] = {}
    for directory in directories:
        if holds_any(directory):
            found[directory.resolve()] = None
            continue
        with contextlib.suppress(OSError):
            names = sorted(path.name for path, _ in zip(directory.iterdir(), range(_MOST_ENTRIES), strict=False))
            for below in (directory.resolve() / name for name in names if not name.startswith(".")):
                if holds_any(below):
                    found[below] = None
    return list(found)


class BoardJob:
    """A job in the list, under its ``name``."""

    def __init__(
        self,
        name: str,
        directory: Path,
        clock: Callable[[], float],
        token_file: str | None = None,
        start_fault: Callable[[Path], str | None] = lambda _: None,
    ) -> None:
        """``token_file`` is the location of the page's token, shown to its readers. ``start_fault`` returns why the
        crawl in a directory cannot be started from here, or None if it can."""
        self.name = name
        self._about = {"name": name, "token_file": token_file, "several": True}
        self._asked = asyncio.Event()  # set once the page has been requested
        self._again = asyncio.Event()  # set if a job that could not be read may have changed
        self.directory = directory
        self._clock = clock
        self._open: ShownSource | None = None
        self._fault = ""
        self._asks_fault = start_fault
        self._startable: tuple[int, str | None] | None = None  # modification time of command.json, and the fault

    @property
    def routes(self) -> Routes | None:
        """The routes of the job's page; None if the job cannot be read."""
        self._asked.set()
        return None if self._open is None else self._open.page

    @property
    def is_running(self) -> bool:
        return self._open is not None and self._open.source.is_running

    async def is_read(self) -> None:
        """Wait briefly until the job has been read, or reading it has failed. A job that could not be read before is
        read again immediately."""
        if self._open is None:
            self._fault = ""
            self._again.set()
        for _ in range(_OPENS):
            if self._open is not None or self._fault:
                return
            await asyncio.sleep(0.1)

    async def keep(self, opening: ThreadPoolExecutor) -> None:
        """Read the job and keep it up to date, until cancelled. ``opening`` has one thread, so jobs are opened one at a
        time: a seen-set takes memory."""
        while True:
            self._again.clear()
            try:
                loop = asyncio.get_running_loop()
                await self._keep(await loop.run_in_executor(opening, source_of, self.directory, self._clock))
            except _FAULTS as error:
                self._fault = " ".join(str(error).replace(str(self.directory), self.name).split())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), _AGAIN)

    def tick(self) -> None:
        """Send the current statistics to the listeners of the job's page."""
        if self._open is not None and len(self._open.feed.listeners):
            self._open.feed.tick()

    def end(self) -> None:
        if self._open is not None:
            self._open.feed.end()

    def row(self) -> dict[str, Any]:
        """Return the job's row in the list."""
        row = {"name": self.name, "running": self.is_running, "start_fault": None}
        if self._open is None:
            told = [Need("unreadable", self._fault)] if self._fault else []
            return row | {"state": "unreadable" if self._fault else "reading"} | _figures({}) | _needs(told)
        job, stats = self._open.source, self._open.source.stats()
        words = job.history.words(stats)
        left = stats["time_left"]
        told = needs(stats)
        if not self.is_running:
            row["start_fault"] = self._start_fault()
        own = {"state": stats["state"], "standing": words["standing"], "working": words["working"]}
        own |= {"seconds_left": left and left["seconds"], "at_least": left is not None and left["at_least"]}
        return row | _figures(stats) | own | _needs(told)

    def _start_fault(self) -> str | None:
        """Return why the crawl cannot be started from here; None if it can."""
        path = self.directory / COMMAND
        with contextlib.suppress(OSError):
            written = path.stat().st_mtime_ns if path.exists() else 0
            if self._startable is None or self._startable[0] != written:
                self._startable = (written, self._asks_fault(self.directory))
        return None if self._startable is None else self._startable[1]

    async def _keep(self, source: Source) -> None:
        async with contextlib.aclosing(ShownSource(source, self._about)) as opened:
            self._open, self._fault = opened, ""
            try:
                await opened.keep(self._asked)
            finally:
                self._open = None
                opened.feed.end()


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _figures(stats: Mapping[str, Any]) -> dict[str, Any]:
    pending = None if not stats else stats["urls_pending"] + stats["urls_in_flight"]
    by_outcome = stats.get("urls_by_outcome") or {}
    return {
        "pages": by_outcome.get("fetched"),
        "pending": pending,
        "failed": by_outcome.get("failed"),
        "hosts": stats.get("hosts"),
        "paused_by": stats.get("paused_by"),
        "seconds_left": None,
        "at_least": False,
        "working": None,
    }


def _needs(found: Sequence[Need]) -> dict[str, Any]:
    return {"needs": [{"kind": each.kind, "text": each.text} for each in found]}


class WatchedJobs:
    """All jobs in ``directories`` or directly below them."""

    def __init__(
        self,
        directories: Sequence[Path],
        clock: Callable[[], float],
        start_fault: Callable[[Path], str | None] = lambda _: None,
    ) -> None:
        """``start_fault`` is passed to each `BoardJob`."""
        self._directories = directories
        self._clock = clock
        self._start_fault = start_fault
        self._jobs: dict[str, BoardJob] = {}
        self._keeping: dict[str, asyncio.Task[None]] = {}
        self._left_out = 0
        self._opening = ThreadPoolExecutor(1, thread_name_prefix="open")
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="find")
        self.about: Mapping[str, Any] = {}  # further values for ``/api/jobs``

    def job(self, name: str) -> BoardJob:
        """Return the job of that name. Raises KeyError."""
        return self._jobs[name]

    async def keep(self) -> None:
        """Watch the jobs until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(_RESCAN)
        finally:
            for task in self._keeping.values():
                task.cancel()
            await asyncio.gather(*self._keeping.values(), return_exceptions=True)
            self._opening.shutdown(wait=False, cancel_futures=True)
            self._looking.shutdown(wait=False, cancel_futures=True)

    async def show(self, name: str) -> None:
        """Show a job that has just started, in the directory of that name, as soon as it can be read."""
        await self.look()
        for job in [job for job in self._jobs.values() if job.directory.name == name]:
            await job.is_read()

    async def look(self) -> None:
        """Add jobs that are new and drop those that are gone. Raises the exception of a failed watcher, which is a
        bug."""
        found = await asyncio.get_running_loop().run_in_executor(self._looking, jobs_in, self._directories)
        self._left_out = max(0, len(found) - MOST_JOBS)
        shown = set(found[:MOST_JOBS])
        for name in [name for name, job in self._jobs.items() if job.directory not in shown]:
            del self._jobs[name]
            self._keeping.pop(name).cancel()
        known = {job.directory for job in self._jobs.values()}
        for directory in found[:MOST_JOBS]:
            if directory not in known:
                name = self._free_name(directory)
                self._jobs[name] = job = BoardJob(
                    name, directory, self._clock, self.about.get("token_file"), self._start_fault
                )
                self._keeping[name] = asyncio.create_task(job.keep(self._opening))
        for task in self._keeping.values():
            if task.done():
                task.result()

    # -- for the list of jobs --------------------------------------------------------------------------------------

    def rows(self) -> dict[str, Any]:
        return {"jobs": [job.row() for job in self._jobs.values()], "left_out": self._left_out, **self.about}

    def routes(self, name: str) -> Routes | None:
        return self.job(name).routes

    def tick(self) -> None:
        for job in self._jobs.values():
            job.tick()

    def end(self) -> None:
        for job in self._jobs.values():
            job.end()

    def _free_name(self, directory: Path) -> str:
        """Return the directory's name, with its parent's name or a number if another job has it. Bytes that are not
        UTF-8 are escaped, so the name can be part of a URL."""
        name = _printable(directory.name) or "job"
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        names = itertools.chain((name, f"{_printable(directory.parent.name)}-{name}"), numbered)
        return next(each for each in names if each not in self._jobs)
