"""Counts the records of a job or crawl for its dashboard, in a separate thread.

The crawl passes no data to the thread, which reads the file of records up to the last final record. While the thread
catches up on many records, it pauses between steps so that it takes only a limited share of a core.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from crawler.inspect.survey_reader import FinalRecords, SurveyReader
from crawler.job.directory import JobError
from crawler.job.stored_errors import DAMAGE
from crawler.service.background import OneThread
from crawler.service.job_seeds import JobSeeds
from crawler.service.report_maker import ReportMaker
from crawler.service.view_answers import Encoded, Reused, encoded
from crawler.service.view_errors import fault_text, unreadable

log = logging.getLogger("crawler")

INTERVAL = 0.5  # seconds between two checks for new records
NEWS = 8  # records in a message to listeners
SHARE = 0.2  # maximum share of a core while a crawl runs
LAST = 2.0  # seconds that a run waits at its end for uncounted records
FRESH = 2.0  # seconds for which an answer is reused
_RETRY = 10.0  # seconds until unreadable records are read again

# Errors of unreadable records; any other exception is a bug.
UNREADABLE = (*DAMAGE, JobError, OSError)


class Progress(Struct, frozen=True):
    """The state of counting: ``read`` is the share of final records counted (0 to 1), ``recent`` are the newest.
    ``fault`` is the reason why counting stopped, ``throttled`` the number of URLs answered 429."""

    records: int = 0
    complete: bool = False
    read: float = 0.0
    recent: tuple[dict[str, Any], ...] = ()
    fault: str | None = None
    throttled: int = 0


class JobSurvey:
    """The survey of the job or crawl in ``directory``. ``end`` is passed to `SurveyReader`. ``share`` is the share of
    a core that counting may take."""

    def __init__(self, directory: Path, end: Callable[[], int | None] | None = None, share: float = 1.0) -> None:
        self.directory = directory
        self.share = share
        self.seeds = JobSeeds(directory)
        self.progress = Progress()
        self._reports = ReportMaker(directory)
        self._reader = SurveyReader(directory, end)
        self._took = 0.0
        self._told: int | None = None  # records reported to listeners; None while those of earlier runs are counted
        self._answer = Reused(self._body, FRESH, 0.0)
        self._thread = OneThread("survey")

    async def keep(self) -> None:
        """Count until cancelled."""
        while True:
            await self._step()
            await asyncio.sleep(self._pause())

    async def finish(self) -> None:
        """Count the remaining records after the end of the run, for at most `LAST` seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LAST
        await self._step()
        while not self.progress.complete and self.progress.fault is None and loop.time() < until:
            await self._step()

    async def final(self) -> FinalRecords | None:
        """Return which records are final now; None if that is not known yet. Raises Unreadable."""
        try:
            return await self._thread.run(self._reader.final)
        except UNREADABLE as error:
            raise unreadable(self.directory, error) from error

    async def answer(self) -> Encoded:
        """Return the body of ``/api/survey``, at most `FRESH` seconds old. It is made once for all callers."""
        return await self._answer.get()

    async def report(self) -> bytes:
        """Return the report of the job, made once for concurrent requests. Raises Unavailable, Unreadable."""
        return await self._reports.report()

    def news(self) -> dict[str, Any]:
        """Return the number of records counted since the last call, the newest ones, newest first, and the number of
        URLs answered 429. Returns 0 and no records while those of earlier runs are still being counted."""
        now, told = self.progress, self._told
        self._told = now.records if now.complete else None
        since = now.records if told is None or self._told is None else told
        fresh = [row for row in now.recent if row["number"] > since]
        return {"records": fresh, "records_new": max(0, now.records - since), "answered_429": now.throttled}

    async def close(self) -> None:
        """Stop counting. Call it after the last request."""
        self._thread.close()

    async def _body(self) -> Encoded:
        of = self.progress
        told = {"complete": of.complete, "read": round(of.read, 4), "fault": of.fault}
        return await self._thread.run(lambda: encoded(told | self._reader.survey.answer()))

    async def _step(self) -> None:
        before = self.progress.fault
        self.progress, self._took = await self._thread.run(self._count)
        if self.progress.fault is not None and self.progress.fault != before:
            log.warning("%s: the dashboard stopped counting records: %s", self.directory, self.progress.fault)

    def _count(self) -> tuple[Progress, float]:
        """Run one step in the thread, and return the progress and the CPU seconds that the step took."""
        reader, began, fault = self._reader, time.thread_time(), None
        try:
            reader.step()
        except UNREADABLE as error:
            fault = fault_text(self.directory, error)
        survey, complete = reader.survey, fault is None and reader.is_complete
        recent = tuple(msgspec.to_builtins(survey.recent[: -NEWS - 1 : -1]))
        throttled = survey.top["statuses"].get("429")[0]
        return Progress(survey.records, complete, reader.part, recent, fault, throttled), time.thread_time() - began

    def _pause(self) -> float:
        now = self.progress
        if now.fault is not None:
            return _RETRY
        if now.complete or not self._reader.is_known:
            return INTERVAL
        return self._took * (1.0 / self.share - 1.0)
