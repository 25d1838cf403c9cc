"""What the dashboard asks about the job as a whole and its records.

GET /api/job      what the job is: its name, seeds, settings
GET /api/survey   what its records tell
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web

from crawler.base.clock import SteadyClock
from crawler.inspect.beginning import began_at
from crawler.inspect.crawl_partitions import jobs_of
from crawler.job.directory import JobError
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.token import TOKEN
from crawler.service.downloads import Downloads
from crawler.service.job_survey import JobSurvey
from crawler.service.view import View
from crawler.service.view_answers import answer, answer_if_new, from_view
from crawler.url.urls import Canonicaliser


class SurveyApi:
    """The routes over a view, the survey of its records, and what the page shows besides. ``about``: what is answered
    of the job if its page is one of several."""

    def __init__(
        self, view: View, survey: JobSurvey, feed: Feed, about: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._view = view
        self._about = about
        self._records = survey
        self._feed = feed
        self._downloads = Downloads(view, survey)

    def show(self, view: View) -> None:
        """Answer from another view of the same job from now on."""
        self._view = view
        self._downloads.show(view)

    def routes(self) -> list[web.RouteDef]:
        own = [web.get("/api/job", self._job), web.get("/api/survey", self._survey)]
        return own + self._downloads.routes()

    async def close(self) -> None:
        """Abandon what is under way, and count no more. Call it when nobody asks any more."""
        await self._downloads.close()
        await self._records.close()

    async def _job(self, request: web.Request) -> web.Response:
        settings, stats = await from_view(self._view.settings()), self._feed.stats()
        directory = self._records.directory
        own_token = settings.dashboard.token is None and settings.dashboard.token_file is None
        content: dict[str, Any] = {
            "name": directory.absolute().name,
            "seeds": await self._records.seeds.first(Canonicaliser(settings.canonical.rules)),
            "seed_count": stats.get("seeds", 0),
            "contact": settings.fetch.contact,
            "user_agent": settings.fetch.user_agent,
            "scope": settings.crawl.scope,
            "began_at": await asyncio.to_thread(_began_at, directory),
            "token_file": TOKEN if own_token else None,
            "several": False,
        }
        return answer(content | dict(self._about))

    async def _survey(self, request: web.Request) -> web.Response:
        return answer_if_new(request, await from_view(self._records.answer()))


def _began_at(directory: Path) -> float | None:
    """When the job or the crawl began, in seconds since 1970; None if it does not exist yet."""
    try:
        return min(began_at(job, SteadyClock()()) for job in jobs_of(directory))
    except (OSError, JobError):
        return None
