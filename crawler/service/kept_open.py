"""The dashboard of an ended crawl: it stays at the same address, with the same listeners.

By then the run no longer exists, its job is closed and its lock is released. The page shows the same as ``crawler
dashboard``, read from the job's files, and another command may use the job, or even crawl it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from crawler.base.clock import SteadyClock
from crawler.service.api import Api
from crawler.service.background import background
from crawler.service.dashboard.server import Dashboard
from crawler.service.ending_signals import ending_signals
from crawler.service.file_source import JobSource, Reading, mark_of
from crawler.service.job_survey import JobSurvey
from crawler.service.source import SourceView
from crawler.service.survey_api import SurveyApi


class KeptOpen:
    """Takes over the dashboard of a run, if it had one, and serves it. A context manager that stops it on exit."""

    def __init__(self, directory: Path) -> None:
        self.address: str | None = None  # where it is served; None if there is no dashboard
        self._directory = directory
        self._clock = SteadyClock()
        self._keeping: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._asked_to_end = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> KeptOpen:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    def take(
        self, board: Dashboard, apis: tuple[Api, SurveyApi], survey: JobSurvey, address: str, stats: dict[str, Any]
    ) -> None:
        """Show the final ``stats`` of the run and the files of its closed job from now on. Raises JobError."""
        self._stack.push_async_callback(apis[1].close)
        self._stack.push_async_callback(board.stop)
        feed, clock = board.feed, self._clock
        job = JobSource(self._directory, clock, feed.history, Reading(None, stats, clock(), mark_of(self._directory)))
        view = SourceView(job)
        self._stack.push_async_callback(view.close)
        feed.stats, feed.clock = job.stats, job.moment
        for api in apis:
            api.show(view)
        end, loop = self._asked_to_end.set, asyncio.get_running_loop()
        self._stack.enter_context(ending_signals(lambda _: loop.call_soon_threadsafe(end)))
        self._keeping, self.address = [view.keep, survey.keep], address

    async def serve(self) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP arrives. Raises the exceptions of ``job_stats``."""
        # The run's objects were frozen, so the collector has not freed them.
        gc.unfreeze()
        gc.collect()
        async with background(self._asked_to_end.wait(), *(keep() for keep in self._keeping)) as tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
