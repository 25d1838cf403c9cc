"""Stores what a run has counted of its records, so that the next one goes on from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from crawler.base.disk import Expendable
from crawler.job.survey_file import SURVEY, encode_survey, write_survey
from crawler.service.record_counter import Reader, RecordCounter

EVERY = 60.0  # seconds between two writes


class SurveyStore:
    """The survey of a counter, on disk. ``may_store``: whether the directory of the job is still there."""

    def __init__(self, counter: RecordCounter, may_store: Callable[[], bool]) -> None:
        self._counter = counter
        self._may_store = may_store
        self._file = Expendable(str(counter.directory / SURVEY))
        self._stored = 0

    async def keep(self) -> None:
        """Store the survey now and then, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            await self.store()

    async def store(self) -> None:
        """Store the survey, unless it has not changed since."""
        records, directory = self._counter.progress.records, self._counter.directory
        if records == self._stored or not self._may_store():
            return
        with self._file:
            await self._counter.look(lambda reader: _write(directory, reader))
            self._stored = records


def _write(directory: Path, reader: Reader) -> None:
    if (counted := reader.counted) is not None:
        write_survey(directory, encode_survey(counted))
