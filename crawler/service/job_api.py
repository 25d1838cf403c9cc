"""Starts jobs from the page that lists them.

    POST /api/jobs                  a new job: {"name": NAME, "seeds": [URL, ...], "settings": TOML or tables}
    POST /api/jobs/NAME/resume      the crawl of a job goes on, with the settings of its last run
    POST /api/jobs/NAME/duplicate   a new job with the seeds and settings of another one: {"name": NAME}

The dashboard's guard has already checked the token. The answer is {"name": NAME, "text": what has become of it}.
"""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from aiohttp import web

from crawler.service.dashboard.guard import json_body
from crawler.service.launching import LaunchError

MOST_SEEDS = 10_000  # in one request; a job may have more, from its file


class Starts(Protocol):
    """Starts the crawls of jobs. All methods return one line and raise LaunchError."""

    async def start(self, name: str, seeds: Sequence[str], settings: Mapping[str, Any]) -> str: ...

    async def resume(self, name: str) -> str: ...

    async def duplicate(self, name: str, new: str) -> str: ...


class JobApi:
    """The routes that start jobs."""

    def __init__(self, starts: Starts) -> None:
        self._starts = starts

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/jobs", self._start),
            web.post("/api/jobs/{job:[^/]+}/resume", self._resume),
            web.post("/api/jobs/{job:[^/]+}/duplicate", self._duplicate),
        ]

    async def _start(self, request: web.Request) -> web.Response:
        asked = await json_body(request)
        if not isinstance(asked, dict) or not asked.keys() <= {"name", "seeds", "settings"}:
            raise web.HTTPBadRequest(text=_SEND)
        name, seeds, settings = asked.get("name"), asked.get("seeds"), asked.get("settings", {})
        if not isinstance(name, str) or not isinstance(seeds, list) or not all(isinstance(each, str) for each in seeds):
            raise web.HTTPBadRequest(text=_SEND)
        if not 0 < len(seeds) <= MOST_SEEDS:
            raise web.HTTPBadRequest(text=f"Name 1 to {MOST_SEEDS} seeds; add others with crawler add.")
        return await _answer(name, self._starts.start(name, seeds, _tables(settings)), 201)

    async def _resume(self, request: web.Request) -> web.Response:
        name = request.match_info["job"]
        return await _answer(name, self._starts.resume(name), 200)

    async def _duplicate(self, request: web.Request) -> web.Response:
        asked = await json_body(request)
        new = asked.get("name") if isinstance(asked, dict) else None
        if not isinstance(new, str):
            raise web.HTTPBadRequest(text='Send {"name": NAME}: that of the new job.')
        return await _answer(new, self._starts.duplicate(request.match_info["job"], new), 201)


_SEND = 'Send {"name": NAME, "seeds": [URL, ...]}, with "settings" in TOML or as tables if there are any.'


def _tables(settings: Any) -> Mapping[str, Any]:
    """Return settings as tables. Raises HTTPBadRequest."""
    if isinstance(settings, str):
        try:
            return tomllib.loads(settings)
        except (ValueError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"The settings are not TOML: {error}.") from error
    if not isinstance(settings, dict):
        raise web.HTTPBadRequest(text=_SEND)
    return settings


async def _answer(name: str, started: Awaitable[str], status: int) -> web.Response:
    try:
        text = await started
    except KeyError:
        raise web.HTTPNotFound(text="No job of that name is shown here.") from None
    except LaunchError as error:
        return web.json_response({"error": str(error)}, status=error.status)
    return web.json_response({"name": name, "text": text}, status=status)
