"""Keeps a survey of a job's records for its dashboard, in a thread of its own.

The crawl hands nothing to it: it reads the file of records behind the crawl, as far as they are final. While it catches
up with many records, it pauses between two steps, so that it takes a bounded share of a core from the crawl.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from crawler.clock import SteadyClock
from crawler.disk import Expendable
from crawler.inspect.beginning import began_at
from crawler.inspect.survey_reader import SurveyReader
from crawler.job.directory import JobError
from crawler.job.stored_errors import DAMAGE
from crawler.job.survey_file import SURVEY, encode_survey, write_survey
from crawler.service.view import Unreadable
from crawler.service.view_answers import Encoded, encoded
from crawler.survey import LONGEST, SEEDS, clipped
from crawler.urls import Canonical, Canonicaliser

log = logging.getLogger("crawler")

T = TypeVar("T")

INTERVAL = 0.5  # seconds between two looks for new records
STORED_EVERY = 60.0  # seconds between two writes of the survey
FRESH = 2.0  # seconds for which an answer is reused
NEWS = 8  # records in a message to listeners
SHARE = 0.2  # of a core at most, beside a crawl
LAST = 2.0  # seconds that a run waits at its end for records that were not counted yet
_RETRY = 10.0  # seconds until records that could not be read are read again

# What keeps records from being read, and is no bug.
UNREADABLE = (*DAMAGE, JobError, OSError)


class Progress(NamedTuple):
    """How far the survey is: ``read`` of all final records (0 to 1), ``recent`` the newest of them. ``fault``: why no
    more can be counted."""

    records: int = 0
    complete: bool = False
    read: float = 0.0
    recent: tuple[dict[str, Any], ...] = ()
    seeds: tuple[str, ...] = ()
    seed_count: int = 0
    fault: str | None = None


class SurveyKeeper:
    """``end()`` returns how far the records of the job in ``directory`` are final, None if that is not known yet; it is
    called in the thread. ``share``: of a core that counting may take."""

    def __init__(self, directory: Path, end: Callable[[], int | None], share: float = 1.0) -> None:
        self.directory = directory
        self.progress = Progress()
        self._reader = SurveyReader(directory, end)
        self.share = share
        self._took = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="survey")
        self._named: dict[str, None] = {}  # seeds of this run, in their order
        self._file = Expendable(str(directory / SURVEY))
        self._stored = self._told = 0
        self._tells = False
        self._answer: tuple[float, Encoded | None, Progress] = (0.0, None, Progress())
        self._asking: asyncio.Task[Encoded] | None = None

    async def keep(self, may_store: Callable[[], bool] | None = None) -> None:
        """Count until cancelled. With ``may_store``, store the survey now and then, as long as it says so."""
        loop = asyncio.get_running_loop()
        due = loop.time() + STORED_EVERY
        while True:
            await self._step()
            if may_store is not None and loop.time() >= due:
                await self._store(may_store)
                due = loop.time() + STORED_EVERY
            await asyncio.sleep(self._pause())

    async def finish(self, may_store: Callable[[], bool]) -> None:
        """Count what is left, unless that takes long, and store the survey: the run has ended."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LAST
        await self._step()
        while not self.progress.complete and self.progress.fault is None and loop.time() < until:
            await self._step()
        await self._store(may_store)

    def name_seeds(self, texts: Iterable[str], canonicaliser: Canonicaliser) -> None:
        """Take the seeds of a run as they come; only the first are kept."""
        for text in texts:
            if len(self._named) >= SEEDS:
                return
            url = canonicaliser.canonicalise(text)
            if isinstance(url, Canonical):
                self._named[clipped(url.href, LONGEST)] = None

    @property
    def seeds(self) -> list[str]:
        """The first seeds that are known: of this run, and of those that have a record."""
        return list(self._named | dict.fromkeys(self.progress.seeds))[:SEEDS]

    async def began_at(self) -> float | None:
        """When the job began, in seconds since 1970; None if it does not exist yet."""
        try:
            return await self._in_thread(lambda: began_at(self.directory, SteadyClock()()))
        except OSError:
            return None

    def news(self) -> dict[str, Any]:
        """How many records were counted since the last call, and the newest of them, newest first: for listeners. None
        while the records of earlier runs are counted."""
        now, told = self.progress, self._told
        if not now.complete or not self._tells:
            self._told, self._tells = now.records, now.complete
            return {"records": [], "records_new": 0}
        self._told = now.records
        fresh = [row for row in now.recent if row["number"] > told]
        return {"records": fresh, "records_new": max(0, now.records - told)}

    async def answer(self) -> Encoded:
        """The body of ``/api/survey``, made once for all who ask within a moment."""
        until, answer, of = self._answer
        if answer is not None and (of == self.progress or until > asyncio.get_running_loop().time()):
            return answer
        if self._asking is None:
            self._asking = asyncio.create_task(self._make())
        return await asyncio.shield(self._asking)

    async def final_end(self) -> int | None:
        """How far the records are final now. Raises Unreadable."""
        try:
            return await self._in_thread(self._reader.ask_end)
        except UNREADABLE as error:
            raise Unreadable(f"The job cannot be read: {self._told_of(error)}") from error

    async def close(self) -> None:
        """Count no more. Call it when nobody asks any more."""
        self._thread.shutdown(cancel_futures=True)

    async def _make(self) -> Encoded:
        try:
            of = self.progress
            answer = await self._in_thread(lambda: _answer(self._reader, of))
            self._answer = asyncio.get_running_loop().time() + FRESH, answer, of
            return answer
        finally:
            self._asking = None

    async def _step(self) -> None:
        before = self.progress.fault
        self.progress, self._took = await self._in_thread(self._count)
        if self.progress.fault is not None and self.progress.fault != before:
            log.warning("%s: the dashboard counts no more records: %s", self.directory, self.progress.fault)

    def _count(self) -> tuple[Progress, float]:
        """One step, in the thread, and the seconds of its CPU time."""
        reader, began, fault = self._reader, time.thread_time(), None
        try:
            reader.step()
        except UNREADABLE as error:
            fault = self._told_of(error)
        survey, end = reader.survey, reader.end
        urls, count = survey.seeds
        progress = Progress(
            survey.records,
            fault is None and reader.is_complete,
            _part(reader.cursor.end, end),
            tuple(itertools.islice(reversed(survey.recent), NEWS)),
            tuple(urls),
            count,
            fault,
        )
        return progress, time.thread_time() - began

    def _told_of(self, error: Exception) -> str:
        """The error without the path of the job: the viewer need not own the machine."""
        directory = str(self.directory)
        return str(error).replace(f"{directory}/", "").replace(directory, "the job's directory")

    def _pause(self) -> float:
        now = self.progress
        if now.fault is not None:
            return _RETRY
        if now.complete or self._reader.end is None:
            return INTERVAL
        return self._took * (1.0 / self.share - 1.0)

    async def _store(self, may_store: Callable[[], bool]) -> None:
        records = self.progress.records
        if records == self._stored or not may_store():
            return
        with self._file:
            await self._in_thread(lambda: write_survey(self.directory, encode_survey(self._reader.counted)))
            self._stored = records

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _answer(reader: SurveyReader, of: Progress) -> Encoded:
    found = reader.survey.answer()
    content = {"complete": of.complete, "read": round(of.read, 4), "fault": of.fault} | found
    return encoded(content)


def _part(at: int, end: int | None) -> float:
    return 0.0 if end is None else min(1.0, at / end) if end else 1.0
