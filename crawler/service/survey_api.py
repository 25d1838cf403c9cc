"""What the dashboard asks about the job as a whole and its records.

GET /api/job      what the job is: its name, seeds, settings
GET /api/survey   what its records tell
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from aiohttp import web

from crawler.dashboard import TOKEN, Feed
from crawler.service.downloads import Downloads
from crawler.service.survey_keeper import SurveyKeeper
from crawler.service.view import View
from crawler.service.view_answers import answer, answer_if_new, from_view


class SurveyApi:
    """The routes over a view, the survey of its records, and what the page shows besides. ``about``: what is answered
    of the job if its page is one of several."""

    def __init__(
        self, view: View, keeper: SurveyKeeper, feed: Feed, about: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._view = view
        self._about = about
        self._keeper = keeper
        self._feed = feed
        self._downloads = Downloads(view, keeper)

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
        await self._keeper.close()

    async def _job(self, request: web.Request) -> web.Response:
        settings, now, stats = await from_view(self._view.settings()), self._keeper.progress, self._feed.stats()
        own_token = settings.dashboard.token is None and settings.dashboard.token_file is None
        content: dict[str, Any] = {
            "name": self._keeper.directory.absolute().name,
            "seeds": self._keeper.seeds,
            "seed_count": stats.get("seeds", now.seed_count),
            "contact": settings.fetch.contact,
            "user_agent": settings.fetch.user_agent,
            "scope": settings.crawl.scope,
            "began_at": await self._keeper.began_at(),
            "token_file": TOKEN if own_token else None,
            "several": False,
        }
        return answer(content | dict(self._about))

    async def _survey(self, request: web.Request) -> web.Response:
        return answer_if_new(request, await self._keeper.answer())
