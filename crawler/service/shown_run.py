"""The dashboard of a run, and the survey of its records.

A crawl without a dashboard does not load this module or its imports: a web server and the readers of a job.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from crawler.base.settings.parts import Settings
from crawler.service.api import Api
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.http_server import Limits
from crawler.service.dashboard.live_server import Dashboard
from crawler.service.facade import Facade
from crawler.service.file_limit import connections_left
from crawler.service.job_survey import SHARE, JobSurvey
from crawler.service.run_view import RunView
from crawler.service.survey_api import SurveyApi
from crawler.url.urls.canonicaliser import Canonicaliser


class ShownRun:
    """Serves the run of ``facade`` to clients with ``access``, and lets them control it."""

    def __init__(self, facade: Facade, settings: Settings, access: Access) -> None:
        self.view = RunView(lambda: facade.run, facade.perform, settings, facade.clock)
        self._facade = facade
        self._settings = settings.dashboard
        self._access = access
        self._canonicaliser = Canonicaliser(settings.canonical.rules)
        self.survey = JobSurvey(facade.directory, self._durable_end, SHARE)

    def named(self, seeds: AsyncIterator[list[str]]) -> AsyncIterator[list[str]]:
        """Pass on the seeds, and keep the first of them for the page."""
        return self.survey.seeds.pass_on(seeds, self._canonicaliser)

    @contextlib.asynccontextmanager
    async def served(self, keeps_open: bool) -> AsyncIterator[str]:
        """Serve the dashboard and yield its address. Unless ``keeps_open``, its listeners get a last message. The port
        is bound before the job is opened, so that a port in use changes nothing. Raises OSError if it is in use."""
        facade, survey = self._facade, self.survey
        feed = Feed(facade.stats, facade.clock, facade.history, survey.news)
        limits = Limits(connections=connections_left())
        about = SurveyApi(self.view, survey, feed)
        dashboard = Dashboard(self._settings, feed, [*Api(self.view).routes(), *about.routes()], self._access, limits)
        address = await dashboard.start()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(about.close)
            stack.push_async_callback(dashboard.stop)
            try:
                yield address
            finally:
                feed.gone = facade.is_gone()
                dashboard.ends = not keeps_open or facade.result is None or facade.signalled

    def _durable_end(self) -> int | None:
        run = self._facade.run
        return None if run is None else run.job.promises.end
