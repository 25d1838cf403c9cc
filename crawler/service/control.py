"""What the dashboard's buttons do: ``POST /api/control`` with ``{"do": WORD}``, of a host with ``"host": HOST`` too.

The answer is ``{"done": true}``, or ``{"error": TEXT}`` with a status of 400 (what was asked makes no sense) or 409 (it
cannot be done now). Who may ask is decided before, by the dashboard's guard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from crawler.dashboard import json_body
from crawler.service.command_files import Refused

WORDS = ("pause", "resume", "checkpoint", "stop")
HOST_WORDS = ("pause-host", "resume-host", "block-host")
NOT_RUNNING: Refused = 409, "the crawl is not running"


Perform = Callable[[Any], Awaitable[Refused | None]]


def asked_wrongly(asked: Any) -> Refused | None:
    """Why that makes no sense, whatever the crawl does; None when it does."""
    word = asked.get("do") if isinstance(asked, dict) else None
    if word not in WORDS + HOST_WORDS:
        return 400, f"say what to do: {', '.join(WORDS + HOST_WORDS)}"
    if word in HOST_WORDS and not isinstance(asked.get("host"), str):
        return 400, "name the host, with its port, as in a.test:80"
    return None


def control_routes(perform: Perform) -> list[web.RouteDef]:
    async def control(request: web.Request) -> web.Response:
        refused = await perform(await json_body(request))
        if refused is None:
            return web.json_response({"done": True})
        status, text = refused
        return web.json_response({"error": text}, status=status)

    return [web.post("/api/control", control)]
