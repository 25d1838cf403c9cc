"""What the dashboard's buttons do: ``POST /api/control`` with ``{"do": WORD}``, of a host with ``"host": HOST`` too.

The answer is ``{"done": true}``, or ``{"error": TEXT}`` with a status of 400 (what was asked makes no sense) or 409 (it
cannot be done now). Who may ask is decided before, by the dashboard's guard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from crawler.crawl.loop import Crawl, State
from crawler.dashboard import json_body
from crawler.metrics import Events, Kind

WORDS = ("pause", "resume", "checkpoint", "stop")
HOST_WORDS = ("pause-host", "resume-host", "block-host")


def control_routes(crawl: Callable[[], Crawl | None], events: Events, clock: Callable[[], float]) -> list[web.RouteDef]:
    """``crawl()`` is None before the crawl is there; ``clock()`` is in seconds since 1970."""

    async def control(request: web.Request) -> web.Response:
        asked = await json_body(request)
        word = asked.get("do") if isinstance(asked, dict) else None
        if word not in WORDS + HOST_WORDS:
            return _refused(400, f"say what to do: {', '.join(WORDS + HOST_WORDS)}")
        running = crawl()
        if running is None or running.state is not State.RUNNING:
            return _refused(409, "the crawl is not running")
        host = asked.get("host") if word in HOST_WORDS else None
        if word in HOST_WORDS and not isinstance(host, str):
            return _refused(400, "name the host, with its port, as in a.test:80")
        trouble = await _do(running, str(word)) if host is None else _do_to_host(running, str(word), host)
        if trouble is not None:
            return _refused(409, trouble)
        events.add(clock(), Kind.CONTROL, _SAID[str(word)], host)
        return web.json_response({"done": True})

    return [web.post("/api/control", control)]


_SAID = {
    "pause": "paused from the dashboard",
    "resume": "resumed from the dashboard",
    "checkpoint": "a checkpoint was asked for from the dashboard",
    "stop": "stopped from the dashboard",
    "pause-host": "paused from the dashboard",
    "resume-host": "resumed from the dashboard",
    "block-host": "blocked from the dashboard: its URLs are excluded",
}


async def _do(crawl: Crawl, word: str) -> str | None:
    """Do it; returns why it cannot be done."""
    match word:
        case "pause":
            crawl.hold()
        case "resume":
            if crawl.job.blocked is not None:
                return f"the crawl goes on by itself when there is space again: {crawl.job.blocked}"
            crawl.go_on()
        case "checkpoint":
            return await crawl.checkpoint_now()
        case "stop":
            crawl.stop()
    return None


def _do_to_host(crawl: Crawl, word: str, host: str) -> str | None:
    if crawl.job.blocked is not None:
        return f"nothing can be written now: {crawl.job.blocked}"
    frontier = crawl.job.frontier
    acts = {
        "pause-host": frontier.by_hand.pause,
        "resume-host": frontier.by_hand.resume,
        "block-host": frontier.by_hand.block,
    }
    met = crawl.job.host_step(lambda batch: acts[word](host, batch))
    crawl.wake()
    return None if met else "no URL of that host was admitted"


def _refused(status: int, text: str) -> web.Response:
    content: dict[str, Any] = {"error": text}
    return web.json_response(content, status=status)
