"""Deriving: the Markdown files of a job are brought up to date beside its crawl.

During the run they follow the rows that the last generation covers: no crash cuts these off. The rest follows when the
run is over. What fails for lack of room is tried again, and nothing depends on it meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawler.base.disk import FULL, no_room
from crawler.engine.said_once import SaidOnce
from crawler.job.job import Job
from crawler.job.markdown_files import DIRECTORY, Source, derive, name_of_job, read_cursor
from crawler.job.output.rotated_files import Size

_PAUSE = 1.0  # seconds between two tries when the run is over


class Deriving:
    """The Markdown files of one job."""

    def __init__(self, job: Job, said: SaidOnce) -> None:
        """Raises JobError if there are files of another job or of another version, OSError."""
        self._job = job
        self._said = said
        self._target = job.directory / DIRECTORY
        self._name = name_of_job(job.files.identity)
        self._full: str | None = None  # the line that said so
        self._is_enough: Callable[[], bool] = lambda: False
        self._under_way: asyncio.Future[Size] | None = None
        read_cursor(self._target, self._name)

    def begin(self) -> asyncio.Future[Size]:
        """Begin to read what the last generation covers, in a thread, unless that is under way. Raises what the last
        time has raised: JobError, OSError, but not for a full disk."""
        if self._under_way is None or self._under_way.done():
            self._end()
            self._under_way = asyncio.get_running_loop().run_in_executor(None, self._derive)
        return self._under_way

    async def finish(self, is_enough: Callable[[], bool]) -> None:
        """Read the rest, and wait for room if there is none, until ``is_enough`` says so. Raises JobError, OSError."""
        self._is_enough = is_enough
        if self._under_way is not None:
            await asyncio.wait([self._under_way])
        while True:
            await asyncio.wait([self.begin()])
            if self._end() or is_enough():
                self._said.leave(self)
                return
            await asyncio.sleep(_PAUSE)

    def _derive(self) -> Size:
        end = self._job.files.outputs.final_text
        sources = [] if end is None else [Source("", self._job.directory, end)]
        return derive(self._target, self._name, sources, self._is_enough)

    def _end(self) -> bool:
        """Take note of how the last time ended. Returns whether it was not for lack of room."""
        if self._under_way is None:
            return True
        error, self._under_way = self._under_way.exception(), None
        if isinstance(error, OSError) and error.errno in FULL:
            if self._full is None:
                self._full = f"the Markdown files wait for space, nothing is lost: {no_room(error)}"
                self._said.say(self._full, self)
            return False
        if error is not None:
            raise error
        if self._full is not None:
            self._said.over(self._full, self)
            self._full = None
        return True
