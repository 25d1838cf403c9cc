"""Answers requests about a job or crawl for a page that the crawl does not serve itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from crawler.service.api import Api
from crawler.service.background import background
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.job_list import Routes
from crawler.service.dashboard.live_server import JobPage
from crawler.service.source import Source, SourceView
from crawler.service.survey_api import SurveyApi


class ShownSource:
    """The feed and the routes of a source, until it is closed. ``about`` is passed to `SurveyApi`."""

    def __init__(self, source: Source, about: Mapping[str, Any]) -> None:
        self.source = source
        self._view = SourceView(source)
        self._survey = source.survey()
        self.feed = Feed(self._stats, source.moment, source.history, self._survey.news)
        self._about = SurveyApi(self._view, self._survey, self.feed, about)
        self.routes = [*Api(self._view).routes(), *self._about.routes()]

    @cached_property
    def page(self) -> Routes:
        """The routes of the job's page in a list of jobs."""
        return Routes([*JobPage(self.feed).routes(), *self.routes])

    async def keep(self, is_asked: asyncio.Event | None = None) -> None:
        """Keep the feed up to date until cancelled. If ``is_asked`` is given, records are counted only once it is set.
        Raises the exceptions of ``job_stats``. If the job was deleted or moved, the page's last message says so."""
        async with background(self._count(is_asked)):
            try:
                await self._view.keep()
            finally:
                self.feed.gone = self.source.is_gone()

    def _stats(self) -> dict[str, Any]:
        stats = self.source.stats()
        if self.source.copied_at is None:
            return stats
        copied = {"state": "copy"}
        parts = [{**each, **copied} for each in stats.get("partitions", ())]
        return {**stats, **copied} | ({"partitions": parts} if parts else {})

    async def _count(self, is_asked: asyncio.Event | None) -> None:
        if is_asked is not None:
            await is_asked.wait()
        await self._survey.keep()

    async def aclose(self) -> None:
        await self._about.close()
        await self._view.close()
