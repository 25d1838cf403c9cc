"""Several jobs on one page: ``/`` lists them, ``/jobs/NAME/`` is the page of a job, with its API below that address.

Jobs come and go while the server runs, so each request looks up the routes of its job; all jobs have the same routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from aiohttp import web

from crawler.service.dashboard.event_stream import Listeners, message
from crawler.service.dashboard.guard import NO_STORE, answer
from crawler.service.dashboard.live_server import page_file, stream

PREFIX = "/jobs/{job:[^/]+}"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Routes:
    """The handlers of one job by method and path."""

    def __init__(self, routes: Sequence[web.RouteDef]) -> None:
        self.definitions = routes
        self._handlers = {(each.method, each.path): each.handler for each in routes}

    def handler(self, method: str, path: str) -> Any:
        return self._handlers[method, path]


class Listed(Protocol):
    """The jobs in the list."""

    def rows(self) -> dict[str, Any]:
        """Return the answer for ``/api/jobs``."""

    def routes(self, name: str) -> Routes | None:
        """Return the routes of a job; None if it cannot be read now. Raises KeyError if there is no such job."""

    def tick(self) -> None:
        """Send current statistics to the listeners of each job's page."""

    def end(self) -> None:
        """Send the last message to these listeners."""


class JobList:
    """Serves the list and sends changes to its listeners. ``like`` has the routes that every job's page has."""

    def __init__(self, jobs: Listed, like: Routes, write_timeout: float = 30.0) -> None:
        self.listeners = Listeners()
        self._jobs = jobs
        self._like = like
        self._write_timeout = write_timeout
        self._told = b""

    # -- ticking -----------------------------------------------------------------------------------------------

    def observe(self) -> None:
        self._told = self._news()

    def tick(self) -> None:
        news = self._news()
        if news != self._told:
            self._told = news
            self.listeners.tell(news)
        self._jobs.tick()

    def end(self) -> None:
        self._jobs.end()
        self.listeners.close(message("end", self._jobs.rows()))

    def _news(self) -> bytes:
        return message("jobs", self._jobs.rows())

    # -- routes ------------------------------------------------------------------------------------------------

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._page),
            web.get("/page/{name}", self._page),
            web.get("/api/jobs", self._api_jobs),
            web.get("/api/jobs/events", self._api_events, allow_head=False),
            web.get("/healthz", self._healthz),
            web.get(PREFIX, self._to_the_page),
            *(
                web.RouteDef(each.method, PREFIX + each.path, self._of_job(each.method, each.path), each.kwargs)
                for each in self._like.definitions
            ),
        ]

    async def _page(self, request: web.Request) -> web.Response:
        return page_file(request, request.match_info.get("name", "jobs.html"))

    async def _api_jobs(self, request: web.Request) -> web.Response:
        return answer(self._jobs.rows())

    async def _api_events(self, request: web.Request) -> web.StreamResponse:
        return await stream(request, self.listeners, self._news, self._write_timeout)

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n", headers=NO_STORE)

    async def _to_the_page(self, request: web.Request) -> web.StreamResponse:
        """Redirect to the address with a slash, as all addresses in a job's page are relative to it.

        The ``./`` keeps a name such as ``https:evil.test`` from being taken for another site. The redirect is
        temporary, because browsers would remember a permanent one even after the job is gone."""
        name = request.match_info["job"]
        self._routes(name)
        return web.Response(status=307, headers={"Location": f"./{quote(name, safe='')}/"})

    def _routes(self, name: str) -> Routes | None:
        """Return the routes of a job. Raises HTTPNotFound."""
        try:
            return self._jobs.routes(name)
        except KeyError:
            raise web.HTTPNotFound(text="No job of that name is shown here.") from None

    def _of_job(self, method: str, path: str) -> Handler:
        async def answer_of(request: web.Request) -> web.StreamResponse:
            routes = self._routes(request.match_info["job"])
            if routes is None:
                raise web.HTTPServiceUnavailable(text="The job cannot be read now: the list of jobs shows why.")
            response: web.StreamResponse = await routes.handler(method, path)(request)
            return response

        return answer_of
