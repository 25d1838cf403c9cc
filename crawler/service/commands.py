"""What was asked of a running crawl is done: by a button of its dashboard, or by an order in its directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawler.engine.lifecycle import State
from crawler.engine.run import Run
from crawler.metrics import Events, Kind
from crawler.service.command_files import Refused
from crawler.service.control import HOST_WORDS, NOT_RUNNING, Perform, asked_wrongly

_SAID = {
    "pause": "paused from the dashboard",
    "resume": "resumed from the dashboard",
    "checkpoint": "a checkpoint was asked for from the dashboard",
    "stop": "stopped from the dashboard",
    "pause-host": "paused from the dashboard",
    "resume-host": "resumed from the dashboard",
    "block-host": "blocked from the dashboard: its URLs are excluded",
}


async def _do(crawl: Run, word: str) -> str | None:
    """Do it; returns why it cannot be done."""
    match word:
        case "pause":
            crawl.hold()
        case "resume":
            if crawl.job.blocked is not None:
                return f"the crawl goes on by itself when there is space again: {crawl.job.blocked}"
            crawl.go_on()
        case "checkpoint":
            return await crawl.keeper.checkpoint_now()
        case "stop":
            crawl.stop()
    return None


def _do_to_host(crawl: Run, word: str, host: str) -> str | None:
    if crawl.job.blocked is not None:
        return f"nothing can be written now: {crawl.job.blocked}"
    frontier = crawl.job.frontier
    acts = {
        "pause-host": frontier.overrides.pause,
        "resume-host": frontier.overrides.resume,
        "block-host": frontier.overrides.block,
    }
    met = crawl.job.change_hosts(lambda batch: acts[word](host, batch))
    crawl.wake()
    return None if met else "no URL of that host was admitted"


def performing(crawl: Callable[[], Run | None], events: Events, clock: Callable[[], float]) -> Perform:
    """What does what was asked of the crawl and tells of it; it returns None, or why that was not done. ``crawl()`` is
    None before the crawl is there; ``clock()`` is in seconds since 1970."""

    async def perform(asked: Any) -> Refused | None:
        refused = asked_wrongly(asked)
        if refused is not None:
            return refused
        word, host = asked["do"], asked.get("host") if asked["do"] in HOST_WORDS else None
        running = crawl()
        if running is None or running.life.state is not State.RUNNING:
            return NOT_RUNNING
        trouble = await _do(running, word) if host is None else _do_to_host(running, word, host)
        if trouble is not None:
            return 409, trouble
        events.add(clock(), Kind.CONTROL, _SAID[word], host)
        return None

    return perform
