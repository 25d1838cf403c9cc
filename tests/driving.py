"""One run over one job, driven by a worker of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from crawler.base.settings.parts import Settings
from crawler.engine.handed_page import PageHandler
from crawler.engine.lifecycle import Stop
from crawler.engine.link_judge import LinkJudge
from crawler.engine.loop_lag import LoopLag
from crawler.engine.run import Run
from crawler.engine.user_code import UserCode
from crawler.engine.worker import Worker
from crawler.job.job import Job
from crawler.web.extract.text_pool import Texts
from crawler.web.fetch import Fetches

Seeds = AsyncIterator[list[str]]


class Unwatched(LoopLag):
    """Of a loop in virtual time there is nothing to measure, and fifty looks a second are most of what it does."""

    async def watch(self) -> None:
        await asyncio.Event().wait()


class Driven:
    """A run and its worker. ``settings`` are those of both."""

    def __init__(
        self,
        job: Job,
        web: Fetches,
        settings: Settings,
        clock: Callable[[], float],
        seeds: Seeds,
        lag: LoopLag | None = None,
        texts: Texts | None = None,
        handler: PageHandler | None = None,
        judge: LinkJudge | None = None,
    ) -> None:
        self.worker = Worker(web, settings, clock, lag, texts=texts)
        self.run = Run(job, settings, self.worker.context.with_code(UserCode(handler, judge=judge)), seeds)

    async def to_the_end(self) -> Stop:
        await self.worker.drive(self.run)
        assert self.run.life.reason is not None
        return self.run.life.reason
