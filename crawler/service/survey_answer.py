"""What ``/api/survey`` answers, made once for all who ask within a moment."""

from __future__ import annotations

import asyncio

from crawler.service.record_counter import Progress, Reader, RecordCounter
from crawler.service.view_answers import Encoded, encoded

FRESH = 2.0  # seconds for which an answer is reused


class SurveyAnswer:
    """The body over what a counter has counted."""

    def __init__(self, counter: RecordCounter) -> None:
        self._counter = counter
        self._made: tuple[float, Encoded | None, Progress] = (0.0, None, Progress())
        self._making: asyncio.Task[Encoded] | None = None

    async def get(self) -> Encoded:
        """The body as it is now, or was a moment ago."""
        until, made, of = self._made
        if made is not None and (of == self._counter.progress or until > asyncio.get_running_loop().time()):
            return made
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> Encoded:
        try:
            of = self._counter.progress
            made = await self._counter.look(lambda reader: _body(reader, of))
            self._made = asyncio.get_running_loop().time() + FRESH, made, of
            return made
        finally:
            self._making = None


def _body(reader: Reader, of: Progress) -> Encoded:
    return encoded({"complete": of.complete, "read": round(of.read, 4), "fault": of.fault} | reader.survey.answer())
