"""What a dashboard knows of the records of a job or a crawl, counted in a thread of its own.

The crawl hands nothing to it: it reads the file of records behind the crawl, as far as they are final. While it catches
up with many records, it pauses between two steps, so that it takes a bounded share of a core from the crawl.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from crawler.inspect.survey_reader import FinalRecords, SurveyReader
from crawler.job.directory import JobError
from crawler.job.stored_errors import DAMAGE
from crawler.service.job_seeds import JobSeeds
from crawler.service.view import fault_text, unreadable
from crawler.service.view_answers import Encoded, encoded

log = logging.getLogger("crawler")

T = TypeVar("T")

INTERVAL = 0.5  # seconds between two looks for new records
NEWS = 8  # records in a message to listeners
SHARE = 0.2  # of a core at most, beside a crawl
LAST = 2.0  # seconds that a run waits at its end for records that were not counted yet
FRESH = 2.0  # seconds for which an answer is reused
_RETRY = 10.0  # seconds until records that could not be read are read again

# What keeps records from being read, and is no bug.
UNREADABLE = (*DAMAGE, JobError, OSError)


class Progress(Struct, frozen=True):
    """How far the records are counted: ``read`` of all final ones (0 to 1), ``recent`` the newest of them. ``fault``:
    why no more can be counted."""

    records: int = 0
    complete: bool = False
    read: float = 0.0
    recent: tuple[dict[str, Any], ...] = ()
    fault: str | None = None


class JobSurvey:
    """The survey of what is in ``directory``. ``end``: as of a `SurveyReader`. ``share``: of a core that counting may
    take."""

    def __init__(self, directory: Path, end: Callable[[], int | None] | None = None, share: float = 1.0) -> None:
        self.directory = directory
        self.share = share
        self.seeds = JobSeeds(directory)
        self.progress = Progress()
        self._reader = SurveyReader(directory, end)
        self._took = 0.0
        self._told: int | None = None  # records, None: listeners are not told of those of earlier runs
        self._made: tuple[float, Encoded | None, Progress] = (0.0, None, Progress())
        self._making = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="survey")

    async def keep(self) -> None:
        """Count until cancelled."""
        while True:
            await self._step()
            await asyncio.sleep(self._pause())

    async def finish(self) -> None:
        """Count what is left, unless that takes long: the run has ended."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LAST
        await self._step()
        while not self.progress.complete and self.progress.fault is None and loop.time() < until:
            await self._step()

    async def final(self) -> FinalRecords | None:
        """Which records are final now; None if that is not known yet. Raises Unreadable."""
        try:
            return await self._in_thread(self._reader.final)
        except UNREADABLE as error:
            raise unreadable(self.directory, error) from error

    async def answer(self) -> Encoded:
        """The body of ``/api/survey`` as it is now, or was a moment ago: made once for all who ask."""
        async with self._making:
            until, made, of = self._made
            if made is None or (of != self.progress and until <= asyncio.get_running_loop().time()):
                of = self.progress
                made = await self._in_thread(lambda: self._body(of))
                self._made = asyncio.get_running_loop().time() + FRESH, made, of
            return made

    def news(self) -> dict[str, Any]:
        """How many records were counted since the last call, and the newest of them, newest first. None while the
        records of earlier runs are counted."""
        now, told = self.progress, self._told
        self._told = now.records if now.complete else None
        if told is None or self._told is None:
            return {"records": [], "records_new": 0}
        fresh = [row for row in now.recent if row["number"] > told]
        return {"records": fresh, "records_new": max(0, now.records - told)}

    async def close(self) -> None:
        """Count no more. Call it when nobody asks any more."""
        self._thread.shutdown(cancel_futures=True)

    def _body(self, of: Progress) -> Encoded:
        told = {"complete": of.complete, "read": round(of.read, 4), "fault": of.fault}
        return encoded(told | self._reader.survey.answer())

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
            fault = fault_text(self.directory, error)
        survey, complete = reader.survey, fault is None and reader.is_complete
        recent = tuple(msgspec.to_builtins(survey.recent[: -NEWS - 1 : -1]))
        return Progress(survey.records, complete, reader.part, recent, fault), time.thread_time() - began

    def _pause(self) -> float:
        now = self.progress
        if now.fault is not None:
            return _RETRY
        if now.complete or not self._reader.is_known:
            return INTERVAL
        return self._took * (1.0 / self.share - 1.0)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
